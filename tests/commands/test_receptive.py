"""`vitspeech compare`: the report, and how it fails."""

import re
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
from running import one_line
from sweep_runs import write_run
from tqdm import tqdm

from vitspeech.receptive.plan import Cost


def test_compare_receptive_fields_leaves_a_report(command, finished_run, tmp_path):
    few = ("--inputs", 2, "--answers", 3, "--factors", 1)
    result = command("compare", finished_run, "timm:resnet10t", "-o", tmp_path / "report", *few)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["0", "timm:resnet10t"] and "theoretical field" in result.stdout
    assert "timm:resnet10t: no attention: ResNet has no attention layer" in result.stdout
    assert lines[-1].startswith(str(tmp_path / "report" / "report.html"))
    assert {"report.html", "metrics.json", "fields.png"} <= {file.name for file in (tmp_path / "report").iterdir()}


def test_compare_takes_as_many_inputs_as_fit_into_a_time(command, finished_run, tmp_path, monkeypatch):
    monkeypatch.setattr("vitspeech.receptive.plan.estimate_cost", lambda *_: Cost([0.1, 0.1], 0.02))  # 50 s in all
    at_once = partial(tqdm, mininterval=0, miniters=0)  # each step is drawn
    monkeypatch.setattr(import_module("vitspeech.receptive.compare"), "tqdm", at_once)
    result = command("compare", finished_run, "-o", tmp_path / "report", "--factors", 1, "--minutes", 1 / 60)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "4 inputs in about 1 s"
    assert re.search(r"^4 inputs: 95 % intervals of .*: 0 ±\d+\.\d %;", result.stdout, re.MULTILINE)
    assert re.search(r"0: images of 32 px, trained: \d+ %, [\d:]+ left", result.stderr)


def test_compare_refuses_apple_gpus(command, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    result = command("compare", tmp_path / "no model is read", "-o", tmp_path / "report", "--device", "mps")
    assert "no double precision" in one_line(result)


def test_probe_is_a_sweep_over_the_distance(command, tmp_path, monkeypatch):
    trained = []

    def train(arguments, log):
        trained.append(arguments)
        write_run(Path(arguments[-1].removeprefix("--run=")), 0.9)

    monkeypatch.setattr("vitspeech.sweep.runs.train_in_process", train)
    given = ("--configs", "two_marks/cnn", "--distances", 9.5, 5, "--seeds", 2, "--trainer.max_epochs", 3)
    result = command("probe", *given, "-o", tmp_path / "probe")
    assert result.returncode == 0, result.stderr
    assert [Path(options[-1]).parts[-2:] for options in trained[1:3]] == [
        ("cnn,distance=5", "seed-0"),
        ("cnn,distance=9.5", "seed-1"),
    ]
    assert {"--config=two_marks/cnn", "--trainer.max_epochs=3", "--data.init_args.distance=5"} <= {*trained[1]}
    assert "| cnn,distance=5 | 2 | 90.00" in result.stdout and (tmp_path / "probe/sweep.png").exists()
