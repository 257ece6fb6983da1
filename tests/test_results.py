"""The scripts of docs/results that count errors: what they print, on tables written by hand."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from tiny import ROOT
from torchaudio.functional import gain

from vitspeech.data.audio.reading import read_clip
from vitspeech.data.clips.speech_commands import FOLDER, URL

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
