"""`scripts/gpu_hour.py`, tried on the CPU: its budget, its summary, and that it goes on where it ended."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from tiny import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import gpu_hour
from gpu_hour import Step

OUT_OF_TIME = "import time; print('begun', flush=True); time.sleep(60)"


def run_steps(folder, *steps, minutes=1.0, data="nowhere"):
    status = gpu_hour.run_all(steps, Namespace(output=folder, minutes=minutes, data=str(data)))
    summary = json.loads((folder / "summary.json").read_text())
    return status, {name: result["status"] for name, result in summary.items()}, summary


def test_steps_have_a_status_and_a_log_each(tmp_path):
    status, statuses, summary = run_steps(
        tmp_path,
        Step("good", ["-c", "print('7 passed')"], 1),
        Step("bad", ["-c", "raise SystemExit('no kernel image')"], 1),
        Step("long", ["-c", OUT_OF_TIME], 0.02),
        Step("without data", ["-c", "1"], 1, needs="cifar-10-batches-py"),
    )
    assert statuses == {"good": "done", "bad": "failed", "long": "out of time", "without data": "skipped"}
    assert status == 1 and summary["good"]["last"] == "7 passed" and summary["bad"]["last"] == "no kernel image"
    assert "cifar-10-batches-py" in summary["without data"]["last"]
    assert (tmp_path / "long.log").read_text().startswith("begun") and summary["long"]["seconds"] < 30


def test_what_succeeded_is_not_run_again(tmp_path):
    marks = tmp_path / "marks"
    once = Step("once", ["-c", f"open({str(marks)!r}, 'a').write('x')"], 1)
    assert run_steps(tmp_path, once)[1] == run_steps(tmp_path, once)[1] == {"once": "done"}
    assert marks.read_text() == "x"
    bad = Step("bad", ["-c", f"open({str(marks)!r}, 'a').write('y'); raise SystemExit(3)"], 1)
    run_steps(tmp_path, once, bad)
    run_steps(tmp_path, once, bad)
    assert marks.read_text() == "xyy"


def test_no_step_begins_after_the_budget(tmp_path):
    step = Step("late", ["-c", "1"], 1)
    assert run_steps(tmp_path, step, minutes=0.5)[1] == {"late": "no time left"}
    assert run_steps(tmp_path, step, minutes=2)[1] == {"late": "done"}


def test_an_unfinished_training_is_resumed(tmp_path, monkeypatch):
    commands = []

    class Finished:
        def __init__(self, command, **options):
            commands.append(command[1:])

        def wait(self, seconds):
            return 0

    monkeypatch.setattr(gpu_hour.subprocess, "Popen", Finished)
    step = Step("net", ["-m", "vitspeech", "train", "--config", "x"], 1, run=tmp_path / "net")
    gpu_hour.run(step, tmp_path / "log", 60)
    (tmp_path / "net").mkdir()
    (tmp_path / "net/run.json").touch()
    gpu_hour.run(step, tmp_path / "log", 60)
    assert commands == [step.command, ["-m", "vitspeech", "train", "--resume", str(tmp_path / "net")]]


def test_the_plan_names_commands_and_configs_that_exist(capsys):
    assert gpu_hour.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert listed.index("tests ") < listed.index("configs ") < listed.index("benchmark-") < listed.index("cifar10-vit")
    steps = gpu_hour.plan(Namespace(output=None, tiny=False, data="data"))
    for step in steps:
        configs = [value for key, value in zip(step.command, step.command[1:], strict=False) if key == "--config"]
        assert all((ROOT / "configs" / f"{config}.yaml").exists() for config in configs), step
        assert (step.needs is not None) == (step.run is not None)
    assert {path.name for path in (ROOT / "configs").iterdir() if path.is_dir()} >= gpu_hour.NEEDS.keys()


def test_unknown_steps_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        gpu_hour.main(["-o", str(tmp_path), "--only", "cifar11"])
    assert "unknown steps: cifar11" in capsys.readouterr().err


def test_configs_are_tried_in_one_process_and_errors_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_hour, "HERE", tmp_path)
    for name, text in {
        "shapes/small": "extends: vit.yaml",
        "shapes/vit": None,
        "cifar10/vit": "x: 1",
        "a/b": "z: 1",
    }.items():
        path = tmp_path / "configs" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or (ROOT / "configs/shapes/vit.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    tried = []

    def train(arguments):
        tried.append(arguments)
        if "a/b" in arguments[0]:
            raise ValueError("broken\nin two lines")
        return Namespace(fit=lambda: None)

    results = {}
    monkeypatch.setattr("vitspeech.training.cli.TrainingCLI", train)
    status = gpu_hour.try_configs(Namespace(output=tmp_path, tiny=False, data=str(tmp_path)))
    results = json.loads((tmp_path / "configs.json").read_text())
    assert status == 1 and results["a/b, eager"] == "ValueError: broken"
    assert results["cifar10/vit, compiled"].startswith("skipped: needs cifar-10-batches-py")
    assert results["shapes/small, eager"].startswith("ok") and len(results) == 8
    assert sum("--model.compile=true" in arguments for arguments in tried) == 3
    assert "4 of 8 configs ran, 2 failed" in capsys.readouterr().out


def test_a_config_is_tried_for_two_steps(tmp_path):
    from vitspeech.training.cli import TrainingCLI

    arguments = ["--config=shapes/vit", "--config=trainer/smoke", "--trainer.callbacks=null"]
    result = gpu_hour.timed(TrainingCLI, [*arguments, f"--run={tmp_path / 'run'}"])
    assert result.startswith("ok") and Path(tmp_path, "run", "last.ckpt").exists()
    assert gpu_hour.timed(TrainingCLI, ["--config=nothing"]).startswith(("FileNotFoundError", "InputError"))
