"""Error rates of transcripts made by hand, on every test set, and the list of what went wrong."""

from types import SimpleNamespace

import pytest
import torch

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.decoding.search import Search
from vitspeech.evaluation import recognition
from vitspeech.evaluation.recognition import evaluate
from vitspeech.inference.decode import transcribe_batch

SAID = {"short": ["go stop", "left", "go go go"], "long": ["up down up down", "no"]}
# short: stop taken for left; right; one go missing and up added before. long: right; no deleted.
HEARD = {"short": ["go left", "left", "up go go"], "long": ["up down up down", ""]}


@pytest.fixture
def data(tmp_path):
    """Two test sets, each read from a manifest."""
    for name in SAID:
        (tmp_path / f"{name}.jsonl").write_text(f"this is {name}\n")
    sets = {
        name: SimpleNamespace(
            name=name,
            utterances=[SimpleNamespace(id=f"{number:02}", words=row.split()) for number, row in enumerate(said)],
        )
        for name, said in SAID.items()
    }
    manifests = [str(tmp_path / f"{name}.jsonl") for name in SAID]
    return SimpleNamespace(units="words", labels=["go", "stop"], manifests=manifests, test_sets=lambda: sets)


@pytest.fixture
def report(data, monkeypatch):
    monkeypatch.setattr(recognition, "transcripts", lambda network, data, utterances, *_: HEARD[utterances.name])
    return evaluate(None, data, search=Search(3, 0.5, 0.1), progress=False)


def test_the_first_test_set_gives_the_main_result(report):
    assert report.headline == ("word_error_rate", pytest.approx(2 / 6))
    found = report.metrics
    assert (found["substitutions"], found["deletions"], found["insertions"], found["words"]) == (2, 0, 0, 6)
    assert found["utterance_accuracy"] == 1 / 3 and found["utterances"] == 3
    assert found["test_set"] == "short" and found["search"] == {"beam": 3, "length_penalty": 0.5, "ctc_weight": 0.1}
    low, high = found["interval_95"]
    assert 0 <= low < 2 / 6 < high <= 1


def test_intervals_resample_the_speakers_of_words(data, monkeypatch):
    monkeypatch.setattr(recognition, "transcripts", lambda network, data, utterances, *_: HEARD[utterances.name])
    data.test_sets()["short"].speakers = [["ann", "bob"], ["ann"], ["ann", "bob", "bob"]]
    report = evaluate(None, data, progress=False)
    found, other = report.metrics, report.metrics["also"]["long"]
    assert (found["interval_over"], found["speakers"]) == ("speakers", 2)
    assert found["interval_95"] == pytest.approx([1 / 3, 1 / 3], abs=1e-4)  # each speaks three words, one of them wrong
    assert other["interval_over"] == "utterances" and "speakers" not in other
    first, second = report.text.split("; long: ")
    assert first.endswith(", interval over 2 speakers") and second.endswith(
        "interval over utterances (speakers unknown)"
    )


@pytest.mark.parametrize(("heard", "expected"), [("go stop", [0.0, 0.7935]), ("go", [0.5, 0.5])])
def test_a_single_utterance_without_errors_has_wilsons_interval(data, monkeypatch, heard, expected):
    monkeypatch.setattr(recognition, "transcripts", lambda *_: [heard])
    data.test_sets = lambda: {"one": SimpleNamespace(utterances=[SimpleNamespace(id="0", words=["go", "stop"])])}
    assert evaluate(None, data, progress=False).metrics["interval_95"] == expected


def test_characters_count_first_where_they_are_the_units(data, monkeypatch):
    data.units = "characters"
    heard = {"short": ["go stopp", "lef", "go go go"], "long": ["up down up down", "no"]}
    monkeypatch.setattr(recognition, "transcripts", lambda network, data, utterances, *_: heard[utterances.name])
    report = evaluate(None, data, progress=False)
    assert report.headline == ("character_error_rate", pytest.approx(2 / (7 + 4 + 8)))
    assert report.metrics["word_error_rate"] == pytest.approx(2 / 6)
    assert report.metrics["also"]["long"]["character_error_rate"] == 0
    assert report.metrics["character_interval_95"] == [0, 0.25]  # all right; "left" alone, of which "t" is missing
    counts = "0 substitutions, 1 deletions, 1 insertions in 19 characters"
    first = f"short: character_error_rate 0.1053 (0.0000 to 0.2500; {counts}), word_error_rate 0.3333 ("
    assert report.text.startswith(first)


def test_the_list_of_errors_is_to_be_read(report, tmp_path):
    assert report.write(tmp_path) == tmp_path / "errors.txt"
    text = (tmp_path / "errors.txt").read_text(encoding="utf-8")
    assert "   1 × go -> up\n   1 × stop -> left\n" in text
    assert "short, 00: errors 1, words 2\nREF: go stop\nHYP: go left\n        S\n" in text
    assert "short, 01" not in text  # nothing is wrong with it
    assert "long, 01: errors 1, words 1\nREF: no\nHYP: ***\n     D" in text
    assert text.index("short: word_error_rate") < text.index("short, 00") < text.index("long: word_error_rate")


def test_confused_characters_are_listed_where_they_are_the_units(data, monkeypatch, tmp_path):
    heard = {"short": ["go stob", "left", "gorgo gu"], "long": HEARD["long"]}
    monkeypatch.setattr(recognition, "transcripts", lambda network, data, utterances, *_: heard[utterances.name])
    data.test_sets()["short"].seconds = torch.tensor([12.25, 1.0, 3.0])
    for units in ("words", "characters"):
        data.units = units
        evaluate(None, data, progress=False).write(tmp_path)
        text = (tmp_path / "errors.txt").read_text(encoding="utf-8")
        assert ("Confused characters:\n   1 × ␣ -> r\n   1 × o -> u\n   1 × p -> b\n" in text) == (
            units == "characters"
        )
    assert "short, 00 (12.2 s): errors 1, words 2\nREF: go stop\n" in text


def test_transcripts_are_those_of_each_utterance_in_order_through_batches(finished_recognizer_run):
    model = vitspeech.load(finished_recognizer_run)
    data = card_dataset(model, None)
    data.evaluation_batch = 4
    utterances, search = data.read("test"), Search(2)
    found = recognition.transcripts(model.network, data, utterances, search, False)
    expected = []
    for place in range(len(utterances)):
        speech, _ = utterances[torch.tensor([place]), 0]
        expected += transcribe_batch(model.network, model.labels, speech.waveforms / 32768, speech.lengths, search)
    assert found == [transcript.text for transcript in expected] and len(set(found)) > 1
