"""The scripts of docs/results that count errors: what they print, on tables and clips made by hand."""

import math
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from tiny import ROOT
from torchaudio.functional import gain

import vitspeech
from vitspeech.data.audio.reading import read_clip
from vitspeech.data.clips.speech_commands import FOLDER, URL
from vitspeech.data.utterances.manifest import read_manifest
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.decoding.keywords import Detection, KeywordDecoder, SpottingSettings
from vitspeech.spotting.listening import Candidate

soundfile = pytest.importorskip("soundfile")
CLIPS = ["down/one_nohash_0.wav", "down/one_nohash_1.wav", "go/two_nohash_0.wav", "go/three_nohash_0.wav"]


def table(file: Path, answers: list[str]) -> str:
    """A table of `vitspeech evaluate --out`, with a clip of `unknown` and one of `silence` after those of words."""
    rows = [f"{name},{name.split('/')[0]},{answer}" for name, answer in zip(CLIPS, answers, strict=True)]
    file.write_text("name,label,prediction\n" + "\n".join([*rows, "up/two_nohash_0.wav,unknown,go", ",silence,go"]))
    return str(file)


def test_clips_that_every_model_gets_wrong_are_counted_and_drawn(tmp_path, monkeypatch, capsys):
    noise = torch.randn(1, 16_000, generator=torch.Generator().manual_seed(0))
    for name, level in zip(CLIPS, (-20, -55, -35, -20), strict=True):
        file = tmp_path / FOLDER / URL / name
        file.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(file, gain(noise, float(level))[0].numpy(), 16_000)
    assert read_clip(file, 16_000).abs().max() > 10_000
    tables = [
        table(tmp_path / "a.csv", ["go", "go", "down", "go"]),
        table(tmp_path / "b.csv", ["go", "left", "down", "down"]),
    ]
    titles = []
    monkeypatch.setattr(plt.Axes, "set_title", lambda axis, text, **style: titles.append(text))
    figure = tmp_path / "figure.png"
    runpy.run_path(str(ROOT / "docs/results/misclassified.py"))["main"](str(tmp_path), str(figure), *tables)
    assert capsys.readouterr().out.splitlines() == [
        "4 clips of words; by the number of models that are wrong: {1: 1, 2: 3}",
        "3 clips of 2 speakers are wrong in all models",
        "one 2; two 1",
        "below -60 dBFS: 0; below -50 dBFS: 1; below -40 dBFS: 1; below -30 dBFS: 2",
    ]
    assert titles == ["“down”, taken for go\none", "“go”, taken for down\ntwo"]
    assert plt.imread(figure).std() > 0.1


def test_errors_are_counted_by_clip_and_by_what_classifiers_hear_in_the_clips(tmp_path, capsys):
    script = runpy.run_path(str(ROOT / "docs/results/error_clips.py"))
    right, wrong = read_manifest(manifest_file("speech-commands-1-7"))[:2]
    heard = ["up" if wrong.words[0] == "go" else "go", *wrong.words[1:]]
    rows = [(right, right.words), (wrong, heard)]
    lines = [f"speech-commands-1-7,{one.id},{' '.join(one.words)},{' '.join(words)}" for one, words in rows]
    (tmp_path / "sequences.csv").write_text("\n".join(["test_set,id,reference,hypothesis", *lines, "other,x,up,go"]))
    first, second = right.clips[0], wrong.clips[0]
    for name, answers in {"a": {first: "x", second: "x"}, "b": {first: first.split("/")[0], second: "x"}}.items():
        lines = [f"{clip},{clip.split('/')[0]},{answer}" for clip, answer in answers.items()]
        (tmp_path / f"{name}.csv").write_text("\n".join(["name,label,prediction", *lines]))
    script["main"]([str(tmp_path / "sequences.csv")], [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    words = right.clips + wrong.clips
    assert len(words) == len(set(words)) > 3
    assert capsys.readouterr().out.splitlines()[:4] == [
        f"1 errors in {len(words)} words",
        f"1 of {len(words)} clips have errors",
        "1 clips have an error whenever they occur: 1 errors",
        "1 clips are misclassified by all classifiers: 1 words, 1 errors",
    ]


@pytest.mark.parametrize("name", ["spoken-words-attention", "spoken-words-ctc", "spoken-words-labels"])
def test_every_kind_of_model_finds_the_words_of_integers_and_floats(name):
    words = runpy.run_path(str(ROOT / "docs/results/word_streams.py"))["listener"](
        vitspeech.load(ROOT / "checkpoints" / name)
    )
    samples = read_clip(ROOT / "vitspeech/samples/left-right-go.wav", 16_000)
    assert samples.dtype == torch.int16
    assert words(samples) == words(samples / 32768) == ["left", "right", "go"]


@pytest.mark.parametrize(("end_s", "ends"), [(0.95, []), (1.45, [20]), (1.65, [20, 21, 22]), (2.75, [27, 28, 29, 30])])
def test_a_second_model_gives_its_opinion_of_clips_that_end_near_a_candidate(end_s, ends):
    script = runpy.run_path(str(ROOT / "docs/results/second_opinion.py"))
    decoder = KeywordDecoder(
        ["lamp", "unknown"], SpottingSettings(), hop_s=0.1, first_s=0.0, latency_s=0.1, clip_tokens=20
    )
    logits = torch.zeros(30, 2)
    logits[:, 0] = torch.linspace(-2, 2, 30) ** 3
    candidate = Candidate(Detection("lamp", end_s - 0.5, end_s, 0.7, end_s + 0.3), 0, 0, "alarm", -1)
    found = script["opinion"](candidate, logits, decoder)
    # The log-odds of two classes, one of which has logits of 0, are the mean of the other's.
    means = [float(logits[end - 20 : end, 0].mean()) for end in ends]
    assert found == pytest.approx(max(means, default=0.0), abs=1e-6)
    (kept,) = script["with_opinions"]([candidate], [found], 0.0)
    (moved,) = script["with_opinions"]([candidate], [found], 1.0)
    assert kept.detection.probability == pytest.approx(0.7)
    assert moved.detection.probability == pytest.approx(0.7 * math.exp(found) / (0.7 * math.exp(found) + 0.3))
