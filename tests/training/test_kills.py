"""Runs that are killed anywhere, also while a checkpoint is written, end as an uninterrupted one.

Each run is a fork of this process, which has imported everything. VITSPEECH_KILLS sets the number of kills at random
times.
"""

import os
import random
import resource
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from safetensors.torch import load_file
from tiny import TINY

from vitspeech import command_line
from vitspeech.training.checkpoints import read_checkpoint
from vitspeech.training.train import TrainingCLI, train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]
SMALL = [
    *TINY,
    "--data.init_args.count=60",
    "--data.init_args.batch=20",
    "--data.init_args.augment.mixup=0.5",
    "--model.network.init_args.encoder.depth=1",
    "--model.network.init_args.encoder.dropout=0.1",
    "--trainer.max_epochs=4",
    "--every_steps=2",
    "--trainer.log_every_n_steps=1",
    "--trainer.callbacks+=lightning.pytorch.callbacks.EMAWeightAveraging",
    "--trainer.callbacks.decay=0.5",
]
KILLS = int(os.environ.get("VITSPEECH_KILLS", "4"))


def fork(command: Callable[[], None], output: Path, prepare: Callable[[], Any] = lambda: None) -> int:
    """Run a command in a fork of this process, which writes its output to a file; its process id."""
    process = os.fork()
    if process:
        return process
    status = 70
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1), os.dup2(file, 2)
        os.sys.stdout, os.sys.stderr = open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
        torch.set_num_threads(1)
        Figure.savefig = lambda figure, path, **options: Path(path).write_text("")  # a third of the time
        warnings.simplefilter("ignore")  # pytest makes errors of them
        prepare()
        command_line.run(command, "vitspeech train")
        status = 0
    except SystemExit as exit:
        if isinstance(exit.code, str):
            print(exit.code, file=os.sys.stderr)
        status = exit.code if isinstance(exit.code, int) else 1
    finally:
        os._exit(status)


def ended(process: int) -> int:
    """The exit status of a fork; negative if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def start(run: Path) -> Callable[[], None]:
    """The command that starts the run in a folder; the config is parsed once for all forks."""
    cli = small()
    cli.arguments = replace(cli.arguments, run=str(run))
    return cli.train


@cache
def small() -> TrainingCLI:
    return TrainingCLI(SMALL)


def resume(run: Path) -> Callable[[], None]:
    """The command that resumes the run in a folder."""
    return lambda: train([f"--resume={run}"])


def run_once(command: Callable[[], None], output: Path, prepare: Callable[[], Any] = lambda: None) -> int:
    """Run a command in a fork to its end; its exit status."""
    return ended(fork(command, output, prepare))


def contents(run: Path) -> dict[str, Any]:
    """Everything that must be as in an uninterrupted run: weights, log, and the best checkpoint without its times."""
    best = torch.load(run / "best.ckpt", weights_only=True)
    del best["callbacks"]["Timer"]
    for state in best["callbacks"].values():
        for name in ("dirpath", "best_model_path", "kth_best_model_path", "last_model_path", "best_k_models"):
            if name in state:
                state[name] = str(state[name]).replace(str(run.resolve()), "RUN")
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*") if "logs" not in path.parts)
    log = (run / "metrics.csv").read_text()
    return {"names": names, "weights": load_file(run / "model/model.safetensors"), "log": log, "best": best}


def differences(one: Any, other: Any, name: str = "") -> list[str]:
    """The names of the parts of nested mappings and lists that differ; tensors are compared bit for bit."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one for line in differences(one[key], other[key], f"{name}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line for i, pair in enumerate(zip(one, other, strict=True)) for line in differences(*pair, f"{name}/{i}")
        ]
    same = (
        torch.equal(one, other) if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) else one == other
    )
    return [] if same else [name]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> tuple[dict[str, Any], float]:
    """What an uninterrupted run leaves behind, and the seconds that it took."""
    folder = tmp_path_factory.mktemp("alone")
    begin = time.monotonic()
    assert run_once(start(folder / "run"), folder / "output") == 0, (folder / "output").read_text()
    return contents(folder / "run"), time.monotonic() - begin


def finish(run: Path, expected: dict[str, Any], output: Path) -> None:
    """Resume a run and compare what it leaves behind."""
    command = resume if (run / "config.yaml").exists() else start
    assert run_once(command(run), output) == 0, output.read_text()
    assert differences(contents(run), expected) == []


def kill_while_writing(number: int, when: str) -> Callable[[], None]:
    """Kill at the n-th time that a file is synchronized or replaced: before, after, or with half of the draft."""

    def prepare() -> None:
        calls = 0

        def killing(function: Callable) -> Callable:
            def call(*args: Any) -> None:
                nonlocal calls
                calls += 1
                if calls == number and when == "half" and isinstance(args[0], int) and os.fstat(args[0]).st_nlink == 1:
                    os.truncate(f"/proc/self/fd/{args[0]}", os.fstat(args[0]).st_size // 2)  # it is open for reading
                if calls != number or when == "after":
                    function(*args)
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)

            return call

        os.fsync, os.replace = killing(os.fsync), killing(os.replace)

    return prepare


@pytest.fixture(params=["disk", "memory"])
def folder(request, tmp_path):
    """A folder for a run: of the disk, or of another file system than that of temporary files."""
    if request.param == "disk":
        yield tmp_path
        return
    folder = Path("/dev/shm") / f"vitspeech-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_a_run_killed_at_any_time_ends_as_an_uninterrupted_one(folder, uninterrupted):
    expected, seconds = uninterrupted
    draw = random.Random(KILLS)
    for number in range(KILLS):
        run = folder / f"run{number}"
        process = fork(start(run), folder / "output")
        time.sleep(draw.uniform(0.0, 0.9) * seconds)
        os.kill(process, signal.SIGKILL)
        assert ended(process) in (-signal.SIGKILL, 0)
        finish(run, expected, folder / "output")
        shutil.rmtree(run)


def test_a_run_killed_while_it_writes_a_file_ends_as_an_uninterrupted_one(folder, uninterrupted):
    draw = random.Random(1000 + KILLS)
    for number in range(KILLS):
        run = folder / f"run{number}"
        prepare = kill_while_writing(draw.randrange(1, 40), draw.choice(["before", "half", "after"]))
        assert run_once(start(run), folder / "output", prepare) == -signal.SIGKILL
        finish(run, uninterrupted[0], folder / "output")
        shutil.rmtree(run)


def broken_off(run: Path, output: Path) -> None:
    """Start a run and kill it while it writes the checkpoints of its second epoch."""
    assert run_once(start(run), output, kill_while_writing(12, "half")) == -signal.SIGKILL
    assert (run / "last.ckpt").exists() and not (run / "model").exists()


def test_of_two_starts_at_once_one_is_refused(tmp_path, uninterrupted):
    run, outputs = tmp_path / "run", [tmp_path / "one", tmp_path / "two"]
    small()
    statuses = [ended(process) for process in [fork(start(run), output) for output in outputs]]
    assert sorted(statuses) == [0, 1]
    message = outputs[statuses.index(1)].read_text()
    assert message.count("\n") == 1 and ("is being trained by process" in message or "holds a run" in message)
    assert differences(contents(run), uninterrupted[0]) == []


def test_of_two_resumes_at_once_one_is_refused(tmp_path, uninterrupted):
    run, outputs = tmp_path / "run", [tmp_path / "one", tmp_path / "two"]
    broken_off(run, tmp_path / "output")
    processes = [fork(resume(run), output) for output in outputs]
    statuses = [ended(process) for process in processes]
    assert sorted(statuses) == [0, 1]
    message = outputs[statuses.index(1)].read_text()
    assert message.count("\n") == 1 and f"{run}: is being trained by process {processes[statuses.index(0)]} " in message
    assert differences(contents(run), uninterrupted[0]) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_a_signal_ends_says_how_to_continue(tmp_path, uninterrupted, number):
    run, output = tmp_path / "run", tmp_path / "output"
    process = fork(start(run), output, lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    while not (run / "last.ckpt").exists():
        time.sleep(0.01)
    os.kill(process, number)
    assert ended(process) == 128 + number, output.read_text()
    lines = output.read_text().splitlines()
    assert lines[-1] == f"vitspeech train: interrupted; continue with vitspeech train --resume {run}"
    assert "Traceback" not in output.read_text() and not (run / "model").exists() and not (run / ".lock").exists()
    finish(run, uninterrupted[0], output)


@pytest.mark.parametrize("number", [1, 8, 12])
def test_a_full_disk_ends_a_run_in_one_line_and_leaves_the_last_checkpoint(tmp_path, uninterrupted, number):
    """From the n-th file that is synchronized, no file may be longer than 50 kB, a third of a checkpoint."""

    def prepare() -> None:
        calls, sync = 0, os.fsync

        def limit(file: int) -> None:
            nonlocal calls
            calls += 1
            if calls == number:
                resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            sync(file)

        os.fsync = limit

    run, output = tmp_path / "run", tmp_path / "output"
    assert run_once(start(run), output, prepare) == 1
    file, _, message = output.read_text().splitlines()[-1].partition(".ckpt: ")
    assert file in [f"vitspeech train: {run}/{name}" for name in ("best", "last")]
    assert message == f"a file is too large; make room, then continue with vitspeech train --resume {run}"
    assert "Traceback" not in output.read_text()
    assert not [path for path in run.iterdir() if path.name.endswith(".draft")]
    assert number == 1 or read_checkpoint(run / "last.ckpt")
    finish(run, uninterrupted[0], output)
