"""scripts/gpu_hour.py, tried on the CPU: its budget, its summary, and that it goes on where it ended."""

import json
import signal
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest
from lightning.pytorch.utilities.exceptions import SIGTERMException

import gpu_hour
from gpu_hour import Step
from vitspeech.training.config import shipped_configs

OUT_OF_TIME = "import time; print('begun', flush=True); time.sleep(60)"


def run_steps(folder, *steps, minutes=1.0, data="nowhere"):
    status = gpu_hour.run_all(steps, folder, Path(data), minutes, lambda text: None)
    summary = json.loads((folder / "summary.json").read_text())
    return status, {name: result["status"] for name, result in summary.items()}, summary


def test_steps_have_a_status_and_a_log_each(tmp_path):
    status, statuses, summary = run_steps(
        tmp_path,
        Step("good", ["-c", "print('7 passed')"], 1),
        Step("bad", ["-c", "raise SystemExit('no kernel image')"], 1),
        Step("long", ["-S", "-c", OUT_OF_TIME], 0.03),
        Step("without data", ["-c", "1"], 1, needs=("cifar-10-batches-py",)),
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
        def __init__(self, command, env, **options):
            assert env["VITSPEECH_DATA"] == "data"
            commands.append(command[1:])

        def wait(self, seconds):
            return 0

    monkeypatch.setattr(gpu_hour.subprocess, "Popen", Finished)
    step = Step("net", ["-m", "vitspeech", "train", "--config", "x"], 1, run=tmp_path / "net")
    gpu_hour.run(step, tmp_path / "log", 60, Path("data"))
    (tmp_path / "net").mkdir()
    (tmp_path / "net/run.json").touch()
    gpu_hour.run(step, tmp_path / "log", 60, Path("data"))
    assert commands == [step.command, ["-m", "vitspeech", "train", "--resume", str(tmp_path / "net")]]


def test_the_plan_begins_with_what_finds_errors_and_names_configs_that_exist(script):
    listed = script("gpu_hour", "--list").stdout
    assert listed.index("tests ") < listed.index("configs ") < listed.index("benchmark-") < listed.index("cifar10-vit")
    steps = gpu_hour.plan(Path("out"), Path("data"))
    for step in steps:
        configs = {value for key, value in zip(step.command, step.command[1:], strict=False) if key == "--config"}
        assert configs <= {*shipped_configs()} and bool(step.needs) == (step.run is not None)
    groups = {name.split("/")[0] for name in shipped_configs()}
    assert groups | {*shipped_configs()} >= gpu_hour.NEEDS.keys()
    assert gpu_hour.needs_of("librispeech/960h") == ("LibriSpeech/train-other-500",)
    assert gpu_hour.needs_of("librispeech/lstm") == ("LibriSpeech/train-clean-5",)


def test_unknown_steps_and_a_missing_folder_are_named(script, tmp_path):
    result = script("gpu_hour", "-o", tmp_path, "--only", "cifar11")
    assert result.returncode == 1 and "--only cifar11: no such step; they are tests, configs" in result.stderr
    assert "name the folder of the results with -o" in script("gpu_hour").stderr


def test_configs_are_tried_in_one_process_and_errors_kept(tmp_path, monkeypatch):
    tried, lines = [], []

    def cli(arguments):
        tried.append(arguments)
        if "a/b" in arguments[0]:
            raise ValueError("broken\nin two lines")
        return Namespace(fit=lambda: None)

    monkeypatch.setattr(gpu_hour, "TrainingCLI", cli)
    monkeypatch.setattr(gpu_hour, "shipped_configs", lambda: ["a/b", "cifar10/vit", "shapes/vit", "trainer/gpu"])
    assert gpu_hour.try_configs(tmp_path, tmp_path, lines.append) == 1
    results = json.loads((tmp_path / "configs.json").read_text())
    assert results["a/b, eager"] == "ValueError: broken" and results["shapes/vit, compiled"].startswith("ok")
    assert sum("--model.compile=true" in arguments for arguments in tried) == 2
    assert lines[-1] == "2 of 6 configs ran, 2 failed"
    tried.clear()
    gpu_hour.try_configs(tmp_path, tmp_path, lines.append)
    assert {arguments[0] for arguments in tried} == {"--config=a/b"}  # what ran is not tried again


def test_a_config_is_tried_for_two_steps(tmp_path):
    arguments = ["--config=shapes/vit", "--config=trainer/smoke", "--trainer.callbacks=null", "--data.count=250"]
    assert gpu_hour.try_config([*arguments, f"--run={tmp_path / 'run'}"]).startswith("ok")
    assert (tmp_path / "run/last.ckpt").exists()
    assert gpu_hour.try_config(["--config=nothing"]).startswith("FileNotFoundError: nothing")


def test_a_signal_to_stop_ends_the_trial_of_configs(monkeypatch):
    def stop(arguments):
        raise SIGTERMException

    monkeypatch.setattr(gpu_hour, "TrainingCLI", stop)
    with pytest.raises(SIGTERMException):
        gpu_hour.try_config([])


def test_the_command_writes_a_summary(script, tmp_path):
    result = script("gpu_hour", "-o", tmp_path, "--tiny", "--only", "cifar10-vit-gpu", "--data", tmp_path)
    assert result.returncode == 0 and "cifar10-vit-gpu: skipped" in result.stdout
    assert json.loads((tmp_path / "summary.json").read_text())["cifar10-vit-gpu"]["status"] == "skipped"


def test_an_interrupted_step_is_told_to_stop(tmp_path, monkeypatch):
    started = []

    class Interrupted(subprocess.Popen):
        def wait(self, timeout=None):
            started.append(self)
            if len(started) == 1:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        gpu_hour.run(Step("long", ["-c", OUT_OF_TIME], 1), tmp_path / "long.log", 60, tmp_path)
    assert started[0].returncode == -signal.SIGTERM
