"""The scripts as a user runs them: what they print, what they leave, how they fail."""

import csv
import json
import re
import runpy
import sys
from dataclasses import dataclass

import pytest
from tiny import ROOT

import vitspeech
from vitspeech.benchmark import speech
from vitspeech.data.clips import spoken_words
from vitspeech.data.images.shapes import save_example
from vitspeech.inference.transcribe import Transcript


@dataclass
class Result:
    """How a script ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def script(monkeypatch, capsys):
    """Run a script as its user would, but in this process."""

    def run(name: str, *arguments) -> Result:
        path = str(ROOT / "scripts" / name)
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        capsys.readouterr()
        status = 0
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as stopped:
            status = stopped.code or 0
            if isinstance(status, str):  # what Python itself does with a message
                print(status, file=sys.stderr)
                status = 1
        printed = capsys.readouterr()
        return Result(status, printed.out, printed.err)

    return run


@pytest.fixture
def star(tmp_path):
    save_example(str(tmp_path / "star.png"))
    return tmp_path / "star.png"


def one_line(result: Result, status: int = 1) -> str:
    """The message of a run that failed as promised: one line, no traceback, that exit status."""
    message = result.stderr.rpartition("\r")[2].strip()
    assert result.returncode == status, result.stderr
    assert "Traceback" not in message and "\n" not in message
    return message


def test_evaluate_gives_the_cards_number_again_in_its_last_line(script, finished_run):
    card = vitspeech.load(finished_run).card
    result = script("evaluate.py", finished_run)
    assert result.stdout.splitlines()[-1] == f"test_accuracy {card['metrics']['test_accuracy']:.4f}"


def test_predict_prints_a_line_a_picture(script, finished_run, star):
    result = script("predict.py", finished_run, star, "--top", 2)
    path, _, labels = result.stdout.strip().rpartition(": ")
    assert path == str(star) and len(labels.split(", ")) == 2


def test_predict_writes_a_csv(script, finished_run, star, tmp_path):
    result = script("predict.py", finished_run, star.parent, "--csv", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert result.returncode == 0
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert rows[0].keys() == {"file", "rank", "label", "probability"}


def test_a_broken_picture_leaves_no_half_written_csv(script, finished_run, star, tmp_path):
    (tmp_path / "zero.png").touch()
    message = one_line(script("predict.py", finished_run, star.parent, "--csv", tmp_path / "out.csv"))
    assert message.startswith("predict.py: ") and "zero.png: empty (0 bytes)" in message
    assert not list(tmp_path.glob("out.csv*"))


def test_a_missing_checkpoint_is_one_line(script, tmp_path, star):
    assert "nowhere: missing" in one_line(script("predict.py", tmp_path / "nowhere", star))


def test_usage_errors_have_status_two(script, finished_run, star):
    assert script("predict.py").returncode == 2
    assert script("predict.py", finished_run, star, "--top", 0).returncode == 2


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("--model.network.init_args.encoder.heads=5", "heads=5 does not divide width=64"),
        ("--model.network.init_args.patch=5", "patch=5 does not divide image=32"),
    ],
)
def test_a_network_that_cannot_be_is_one_line(script, tmp_path, override, reason):
    run = tmp_path / "run"
    result = script("train.py", "--config", ROOT / "configs/shapes/vit.yaml", override, "--run", run)
    assert reason in one_line(result)
    assert not run.exists()


def test_a_missing_data_set_is_one_line_and_leaves_no_run(script, tmp_path, monkeypatch):
    config = ROOT / "configs/cifar10/vit.yaml"
    monkeypatch.setenv("VITSPEECH_DATA", str(tmp_path / "void"))
    result = script("train.py", "--config", config, "--run", tmp_path / "run")
    assert "void/cifar-10-batches-py: CIFAR-10 is not there" in one_line(result)
    assert not (tmp_path / "run").exists()


def test_release_writes_a_model_that_loads(script, finished_run, tmp_path):
    result = script("release.py", finished_run, tmp_path / "checkpoints/shapes")
    assert result.returncode == 0 and '"test_accuracy"' in result.stdout
    names = {path.name for path in (tmp_path / "checkpoints/shapes").iterdir()}
    assert names >= {"model.safetensors", "config.yaml", "card.json", "learning_curves.png", "confusion_matrix.png"}


def test_benchmark_of_attention_prints_a_table_and_leaves_json_and_a_picture(script, tmp_path):
    size = ["--tokens", 16, 48, "--batch", 1, "--heads", 2, "--width", 4, "--left", 8, "--right", 8]
    path = tmp_path / "deep" / "attention.json"
    result = script("benchmark.py", "attention", *size, "--repeats", 1, "--no-memory", "--json", path)
    assert result.returncode == 0, result.stderr
    assert "forward+backward, bf16" in result.stdout and "dense mask" in result.stdout
    assert json.loads(path.read_text())["complete"]
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_benchmark_of_the_vit_prints_a_table_and_leaves_json(script, tmp_path):
    path = tmp_path / "vit.json"
    size = ["--batch", 2, "--repeats", 1, "--dtypes", "fp32"]
    result = script("benchmark.py", "vit", *size, "--json", path)
    assert result.returncode == 0, result.stderr
    assert "torchvision" in result.stdout and json.loads(path.read_text())["complete"]


def test_benchmark_of_speech_prints_a_table_and_leaves_json(script, monkeypatch, tmp_path):
    monkeypatch.setattr(speech, "HELD", 7)
    monkeypatch.setattr(speech, "FILES", 5)
    path = tmp_path / "speech.json"
    size = ["--batch", 2, "--repeats", 1, "--dtypes", "fp32", "--stream-minutes", 0.05]
    result = script("benchmark.py", "speech", *size, "--json", path)
    assert result.returncode == 0, result.stderr
    assert "torchaudio" in result.stdout and "real-time factor" in result.stdout
    assert json.loads(path.read_text())["complete"]


def test_benchmark_of_the_loader_writes_its_rates_where_it_is_told(script, tmp_path):
    path = tmp_path / "loader.json"
    result = script("benchmark.py", "loader", "--passes", 1, "--images", 512, "--json", path)
    report = json.loads(path.read_text())
    assert result.stdout.count("images/s") == len(report["loader"]) == 5 and report["commit"]


@pytest.mark.parametrize(
    ("what", "option", "value", "message"),
    [
        ("attention", "--left", -1, "left=-1, right=32: give 0 or more tokens"),
        ("attention", "--repeats", 0, "repeats=0 is below 1"),
        ("attention", "--tokens", 0, "tokens=[0]: give lengths of at least 1"),
        ("attention", "--variants", "ous", "'ous' is unknown; known: ours, full"),
        ("vit", "--dtypes", "fp8", "'fp8' is unknown; known: fp32, bf16"),
        ("vit", "--batch", 0, "batch=0 is below 1"),
        ("speech", "--stream-minutes", 0, "stream_minutes=0.0 is not a finite number from 0.05 on"),
        ("loader", "--images", 7, "images=7 do not lie within one batch and one epoch, 512..50000"),
    ],
)
def test_a_benchmark_that_cannot_be_is_one_line_and_leaves_nothing(script, tmp_path, what, option, value, message):
    path = tmp_path / "out.json"
    assert message in one_line(script("benchmark.py", what, option, value, "--json", path))
    assert not path.exists()


def test_every_script_says_what_it_is_for(script):
    for path in sorted((ROOT / "scripts").glob("*.py")):
        result = script(path.name, "--help")
        assert result.returncode == 0 and "usage" in result.stdout.lower(), path
        assert len(path.read_text().splitlines()) <= 80


@pytest.fixture
def words(tmp_path):
    spoken_words.save_example(tmp_path / "words.wav", ["left", "go"])
    return tmp_path / "words.wav"


def test_predict_hears_a_recording(script, finished_speech_run, words):
    result = script("predict.py", finished_speech_run, words, "--top", 1)
    assert result.returncode == 0 and result.stdout.startswith(f"{words}: ")


def test_stream_prints_words_with_their_times(script, finished_speech_run, words):
    result = script("stream.py", finished_speech_run, words, "--threshold", "0.05", "--refractory", "0")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].endswith("245 ms behind") and "real-time factor" in lines[-1]
    assert len(lines) > 2 and all(
        re.fullmatch(r" *\d+\.\d\d – \d+\.\d\d s  \w+ +0\.\d\d", line) for line in lines[1:-1]
    )


def test_stream_counts_false_alarms_an_hour(script, finished_speech_run, words):
    result = script("stream.py", finished_speech_run, words, "--threshold", "0.999", "--no-words")
    assert "false alarms an hour: 0.0 (95 % interval 0.0 to " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.wav"], "missing.wav"),
        ([ROOT / "README.md"], "not a recording"),
        ([ROOT / "README.md", "--threshold", "2"], "threshold=2.0 is not within 0 .. 1"),
    ],
)
def test_stream_says_in_one_line_what_is_wrong(script, finished_speech_run, arguments, message):
    assert message in one_line(script("stream.py", finished_speech_run, *arguments))


def test_stream_needs_a_file_or_the_microphone(script, finished_speech_run):
    result = script("stream.py", finished_speech_run)
    assert result.returncode == 2 and "one of them" in result.stderr


def test_stream_refuses_a_model_that_sees(script, finished_run, words):
    assert "ViT can't be streamed: it has no encoder" in one_line(script("stream.py", finished_run, words))


@pytest.mark.parametrize(
    ("fixture", "name"),
    [
        ("finished_recognizer_run", "word_error_rate"),
        ("finished_transcriber_run", "word_error_rate"),
        ("finished_labeler_run", "frame_accuracy"),
    ],
)
def test_evaluate_gives_the_cards_number_again_for_every_task(request, script, fixture, name):
    run = request.getfixturevalue(fixture)
    card = json.loads((run / "model/card.json").read_text())
    text, last = script("evaluate.py", run).stdout.splitlines()
    assert last == f"{name} {card['metrics'][name]:.4f}"
    assert text.endswith(f"; the card says {card['metrics'][name]:.4f}")


def test_transcribe_prints_a_line_a_recording(script, finished_recognizer_run, words):
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(beam=1))
    result = script("transcribe.py", finished_recognizer_run, words, "--beam", 1)
    assert result.returncode == 0 and found.text
    assert result.stdout == f"{words}: {found.text}\n"


def test_transcribe_prints_when_each_word_was_said(script, finished_recognizer_run, words):
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words])
    first, *lines = script("transcribe.py", finished_recognizer_run, words, "--times").stdout.splitlines()
    assert first == f"{words}: {found.text}" and len(lines) == len(found.units) > 1
    for line, said in zip(lines, found.units, strict=True):
        times, word = line.strip().rsplit("  ", 1)
        assert (times, word) == (f"{said.start_s:.2f} – {said.end_s:.2f} s", said.label)


def test_transcribe_writes_a_csv(script, finished_recognizer_run, words, tmp_path):
    table = tmp_path / "out.csv"
    result = script("transcribe.py", finished_recognizer_run, words.parent, "--csv", table, "--beam", 1)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert result.stdout == f"{table}\n" and rows[0].keys() == {"file", "unit", "start_s", "end_s"}
    ((_, found),) = vitspeech.transcribe(
        vitspeech.load(finished_recognizer_run), [words], search=vitspeech.Search(beam=1)
    )
    assert " ".join(row["unit"] for row in rows) == found.text and {row["file"] for row in rows} == {str(words)}
    assert [float(row["start_s"]) for row in rows] == pytest.approx([said.start_s for said in found.units], abs=1e-3)


def test_what_is_said_without_times_is_in_the_csv_all_the_same(script, finished_transcriber_run, words, monkeypatch):
    said = Transcript("left go", (), -1.0)
    monkeypatch.setattr(vitspeech, "transcribe", lambda *_, **__: iter([(words, said)]))
    table = words.with_name("out.csv")
    script("transcribe.py", finished_transcriber_run, words, "--csv", table)
    assert table.read_text().splitlines()[1:] == [f"{words},left,,", f"{words},go,,"]


def test_a_broken_recording_leaves_no_half_written_csv(script, finished_recognizer_run, words, tmp_path):
    (tmp_path / "zero.wav").touch()
    message = one_line(script("transcribe.py", finished_recognizer_run, tmp_path, "--csv", tmp_path / "out.csv"))
    assert message.startswith("transcribe.py: ") and "zero.wav: empty (0 bytes)" in message
    assert not list(tmp_path.glob("out.csv*"))
    assert "zero.wav: empty" in one_line(script("transcribe.py", finished_recognizer_run, tmp_path / "zero.wav"))


def test_transcribe_hears_with_an_encoder_decoder(script, finished_transcriber_run, words):
    search = ["--beam", 2, "--ctc-weight", 0, "--length-penalty", 1]
    result = script("transcribe.py", finished_transcriber_run, words, *search)
    model = vitspeech.load(finished_transcriber_run)
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(2, 1.0, 0.0))
    assert result.returncode == 0 and result.stdout == f"{words}: {found.text}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.wav"], "missing.wav"),
        ([ROOT / "README.md"], "not a recording"),
        ([ROOT / "README.md", "--beam", 0], "beam is at least 1"),
        ([ROOT / "README.md", "--ctc-weight", 2], "ctc_weight within 0 .. 1"),
    ],
)
def test_transcribe_says_in_one_line_what_is_wrong(script, finished_recognizer_run, arguments, message):
    assert message in one_line(script("transcribe.py", finished_recognizer_run, *arguments))


def test_transcribe_refuses_what_gives_labels(script, finished_speech_run, finished_labeler_run, words):
    assert "use vitspeech.predict" in one_line(script("transcribe.py", finished_speech_run, words))
    assert "use vitspeech.stream" in one_line(script("transcribe.py", finished_labeler_run, words))


def test_a_picture_is_of_one_recording(script, finished_recognizer_run, words):
    for paths in ([words, words], [words.parent]):
        result = script("transcribe.py", finished_recognizer_run, *paths, "--picture", words.parent / "out.png")
        assert result.returncode == 2 and "--picture draws one file" in result.stderr


def test_transcribe_says_which_choices_there_are(script):
    text = script("transcribe.py", "--help").stdout
    for option in ("--times", "--csv", "--picture", "--beam", "--ctc-weight", "--length-penalty"):
        assert option in text
    assert "stream.py takes recordings of any length" in text


def test_stream_prints_what_a_recognizer_hears_with_its_times(script, finished_recognizer_run, words):
    result = script("stream.py", finished_recognizer_run, words)
    first, *lines, last = result.stdout.splitlines()
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(beam=1))
    assert first == f"{', '.join(model.labels)}; 245 ms behind"
    expected = [f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}" for said in found.units]
    assert lines == expected and len(lines) > 1
    assert re.fullmatch(rf"{len(lines)} words in \d\.\d s of sound, .*real-time factor 0\.\d+\)", last)


@pytest.mark.parametrize(
    ("fixture", "message"),
    [
        ("finished_transcriber_run", "SpeechTranscriber can't transcribe a stream"),
        ("finished_labeler_run", "SpeechLabeler does not classify clips"),
    ],
)
def test_stream_refuses_what_says_nothing_as_it_listens(request, script, words, fixture, message):
    assert message in one_line(script("stream.py", request.getfixturevalue(fixture), words))


def test_evaluate_takes_another_search_than_the_cards(script, finished_recognizer_run):
    result = script("evaluate.py", finished_recognizer_run, "--beam", 1)
    assert result.returncode == 0 and result.stdout.splitlines()[-1].startswith("word_error_rate ")
    assert "beam=0" in one_line(script("evaluate.py", finished_recognizer_run, "--beam", 0))


def test_compare_receptive_fields_leaves_a_report(script, finished_run, tmp_path):
    few = ("--inputs", 2, "--answers", 3, "--factors", 1)
    result = script("compare_receptive_fields.py", finished_run, "timm:resnet10t", "-o", tmp_path / "report", *few)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("0: A unit of the last layer (encoder.blocks.1) could see everything;")
    assert "timm:resnet10t: no attention: ResNet has no attention layer" in result.stdout
    assert lines[-1].startswith(str(tmp_path / "report" / "report.html"))
    assert {"report.html", "metrics.json", "metrics.csv"} <= {file.name for file in (tmp_path / "report").iterdir()}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--layers", "encoder.block.0"), r"ViT has no layer 'encoder.block.0'; close names: encoder.blocks.0"),
        (("--inputs", "1"), r"1 input: an estimate with an interval needs at least 2"),
        (("--factors", "1.03"), r"can't take pictures of 33 px: patch=4 does not divide image=33"),
        (("timm:resnet81",), r"timm:resnet81: not a network of timm; close names: .*resnet"),
        (("--factors", "0"), r"factors=\(0.0,\) are not sizes above 0"),
    ],
)
def test_compare_receptive_fields_says_in_one_line_what_is_wrong(script, finished_run, tmp_path, arguments, message):
    result = script("compare_receptive_fields.py", finished_run, *arguments, "-o", tmp_path / "report")
    assert re.search(message, one_line(result))
    assert not (tmp_path / "report").exists()


def test_compare_refuses_to_mix_seeing_and_hearing(script, finished_run, finished_speech_run, tmp_path):
    result = script("compare_receptive_fields.py", finished_run, finished_speech_run, "-o", tmp_path / "report")
    assert "hears and" in one_line(result)
