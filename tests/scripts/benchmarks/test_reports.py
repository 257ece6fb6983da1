"""The report of each benchmark: finite numbers of every variant, or the reason why there are none."""

import importlib.util
import json
import math
import sys
from importlib import import_module

import numpy
import pytest
import torch

import vitspeech
from benchmarks import data, export, speech
from benchmarks.data_index import measure_index
from benchmarks.layer import LAYERS
from benchmarks.vit import NETWORKS, Shape

ONCE = {"repeats": 1, "dtypes": ["bf16"]}
REPORTS = {  # by benchmark: settings, and what its table names
    "layer": ({"tokens": (5, 11), "batch": 2, "width": 24, "heads": 2, **ONCE}, LAYERS),
    "vit": ({"batch": 2, "shape": Shape(image=16, width=24, depth=1, heads=2), "compiled": True, **ONCE}, NETWORKS),
    "loader": ({"images": 64, "batch": 64, "repeats": 1}, ["the same, RandAugment"]),
    "speech": ({"batch": 2, "stream_minutes": 0.06, **ONCE}, ["torchaudio", "truncated", "WAV files", "state, bytes"]),
}


@pytest.fixture
def few(monkeypatch):
    """A handful of clips to read, little noise to mix in, nothing compiled, and a package that is not installed."""
    for name, number in (("FILES", 5), ("HELD", 7), ("BACKGROUND_S", 20)):
        monkeypatch.setattr(speech, name, number)
    monkeypatch.setattr(torch, "compile", lambda network, **options: network)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vit_pytorch" else find(name))


def numbers(found):
    """Every number in a report, at any depth."""
    if isinstance(found, dict | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from numbers(part)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield found


@pytest.mark.parametrize("name", REPORTS)
def test_every_number_is_finite_and_the_table_has_every_variant(few, name, tmp_path):
    settings, shown = REPORTS[name]
    module, threads = import_module(f"benchmarks.{name}"), torch.get_num_threads()
    report = module.benchmark(module.Settings(**settings), tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(json.dumps(report)) and report["commit"]
    assert report.get("complete", True) and torch.get_num_threads() == threads
    measured = [
        value for key in report.keys() - {"settings", "versions", "environment"} for value in numbers(report[key])
    ]
    assert len(measured) > 5 and all(math.isfinite(value) and value > 0 for value in measured)
    assert all(text in module.table(report) for text in shown)
    if name == "vit":
        assert "vit-pytorch: not installed (pip install -e '.[bench]')" in module.table(report)
        assert report["cells"][0]["times"].keys() >= {"ours", "ours, compiled", "timm, compiled"}


def test_data_of_every_storage_are_read_beside_others(tmp_path):
    settings = data.Settings(items=40, batch=8, workers=(0,), repeats=1)
    for name, other in ((data.SETS[0], "torchvision"), (data.SETS[2], "DataLoader of soundfile")):
        rates = data.reading(name, tmp_path / other, settings)
        variants = {"memory", "files, 0 workers", "Arrow files, 0 workers", f"{other}, 0 workers"}
        assert set(rates) == variants and all(row["per_second"] > 0 for row in rates.values())


@pytest.mark.slow
def test_an_index_is_measured_in_a_process_of_its_own(tmp_path):
    row = measure_index(tmp_path / "index", 200_000)
    assert row["items"] == 200_000 and 8 <= row["bytes_per_item"] < 100
    assert row["first_batch_s"] > 0 < row["last_batch_s"]
    assert "200,000" in data.table({"reading": {}, "index": [row]})


@pytest.mark.skipif(torch.__version__ < (2, 11), reason="an export needs torch 2.11")
def test_exported_graphs_compute_the_same_as_torch_and_what_is_not_installed_is_named(
    finished_speech_run, finished_run, tmp_path, monkeypatch
):
    for package in ("silero_vad", "openwakeword"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(export, "find_spec", lambda package: None)
    model = vitspeech.load(finished_speech_run)
    push, samples = export.exported_stream(model), torch.randn(100 * 640) / 20
    rows = [push(part)[0] for part in samples.numpy().reshape(100, 640)]
    # Without a lead-in, a token ends with each step, so the first whole one begins at sample 3 · 640 - 1,360.
    assert numpy.abs(rows[-1] - vitspeech.stream(model).push(samples[560:])[-1].numpy()).max() < 1e-3
    monkeypatch.setattr(export, "exported_stream", lambda model: push)
    settings = {"batches": [2], "seconds": 1.0, "repeats": 1, "compiled": False}
    report = export.benchmark(
        export.Settings(str(finished_speech_run), [str(finished_run)], **settings), tmp_path / "export.json"
    )
    assert json.loads((tmp_path / "export.json").read_text())["complete"]
    pushes = {"exported": 40, **{f"torch, pushes of {size} ms": size for size in (10, 40, 100)}}
    assert {name: row["step_ms"] for name, row in report["stream"]["times"].items()} == pushes
    assert all(0 < row["real_time_factor"] < 10 for row in report["stream"]["times"].values())
    text = export.table(report)
    assert "not run: silero-vad (voice or not): not installed" in text
    assert any(line.split()[:2] == [finished_run.name, "2"] for line in text.splitlines())


def test_the_factor_is_that_of_the_median_pass_and_the_percentiles_of_all_steps():
    row = export.summary([numpy.full(100, 0.001), numpy.full(100, 0.002), numpy.full(100, 0.006)], 640)
    assert row["real_time_factor"] == pytest.approx(0.05)
    assert row["median_ms"] == pytest.approx(2) and row["all_but_one_in_100_ms"] == pytest.approx(6)
