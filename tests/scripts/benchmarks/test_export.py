"""The report of exported graphs beside torch has a number of each, and says what did not run."""

import json
import sys

import numpy
import pytest
import torch

import vitspeech
from benchmarks import export
from benchmarks.export import Settings

IMAGES = "checkpoints/vit-cifar10"


def test_the_report_has_every_variant_and_names_what_is_not_installed(
    finished_speech_run, finished_run, tmp_path, monkeypatch
):
    for package in ("silero_vad", "openwakeword"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(export, "find_spec", lambda package: None)
    settings = Settings(
        str(finished_speech_run), [str(finished_run)], batches=[2], seconds=1.0, repeats=2, compiled=False
    )
    report = export.benchmark(settings, tmp_path / "export.json")
    assert json.loads((tmp_path / "export.json").read_text())["complete"]
    pushes = {"exported": 40, **{f"torch, pushes of {size} ms": size for size in (10, 40, 100)}}
    assert {name: row["step_ms"] for name, row in report["stream"]["times"].items()} == pushes
    assert all(0 < row["real_time_factor"] < 10 for row in report["stream"]["times"].values())
    text = export.table(report)
    assert "not run: silero-vad (voice or not): not installed" in text and "another job" in text
    assert any(line.split()[:2] == [finished_run.name, "2"] for line in text.splitlines())


def test_a_step_of_the_exported_stream_hears_what_the_stream_in_torch_hears(finished_speech_run):
    model = vitspeech.load(finished_speech_run)
    push, sound = export.exported_stream(model), vitspeech.stream(model)
    samples = torch.randn(100 * 640) / 20
    rows = [push(part)[0] for part in samples.numpy().reshape(100, 640)]
    # Without a lead-in, a token ends with each step, so the first whole one begins at sample 3 · 640 - 1,360.
    expected = sound.push(samples[560:])
    assert numpy.abs(rows[-1] - expected[-1].numpy()).max() < 1e-3


def test_the_factor_is_that_of_the_median_pass_and_the_percentiles_of_all_steps():
    row = export.summary([numpy.full(100, 0.001), numpy.full(100, 0.002), numpy.full(100, 0.006)], 640)
    assert row["real_time_factor"] == pytest.approx(0.05)
    assert row["median_ms"] == pytest.approx(2) and row["all_but_one_in_100_ms"] == pytest.approx(6)
