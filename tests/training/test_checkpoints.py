"""The checkpoints of a run: written as a whole or not at all; a broken one is never resumed from."""

import errno
import io
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from running import one_line
from safetensors.torch import load_file
from tiny import TINY

from vitspeech.errors import InputError
from vitspeech.tasks import Classification
from vitspeech.training.callbacks import RunCallback
from vitspeech.training.checkpoints import CheckpointFiles, check_same_run
from vitspeech.training.train import TrainingCLI, train

THREE = [*TINY, "--data.init_args.count=60", "--data.init_args.batch=20", "--trainer.max_epochs=3"]


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def hole(path: Path) -> None:
    """What a loss of power leaves: a block in the middle that was not written."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(4096))


def one_bit(path: Path) -> None:
    """Change one bit in the numbers of the largest tensor: torch loads such a file without an error."""
    with zipfile.ZipFile(path) as archive:
        tensors = [part for part in archive.infolist() if "/data/" in part.filename]
        part = max(tensors, key=lambda part: part.file_size)
    content = bytearray(path.read_bytes())
    lengths = struct.unpack("<HH", content[part.header_offset + 26 : part.header_offset + 30])  # of name and extra
    content[part.header_offset + 30 + sum(lengths) + part.file_size // 2] ^= 1
    path.write_bytes(content)
    torch.load(path, weights_only=True)


def other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "not a checkpoint")


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50_000_000))


class Code:
    """Creates a file when it is unpickled."""

    def __reduce__(self) -> tuple:
        return Path.touch, (Path("code-was-run"),)


def without_tensor(path: Path) -> None:
    content = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(path, "w") as new:
        for name in [name for name in old.namelist() if not name.endswith("/data/3")]:
            new.writestr(name, old.read(name))


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def altered(change: Callable[[dict], object]) -> Callable[[Path], None]:
    """A checkpoint whose contents are changed and saved again."""

    def alter(path: Path) -> None:
        checkpoint = torch.load(path, weights_only=True)
        change(checkpoint)
        torch.save(checkpoint, path)

    return alter


BROKEN = {
    "half": (halve, "incomplete"),
    "empty": (lambda path: os.truncate(path, 0), "incomplete"),
    "hole": (hole, "is broken"),
    "one bit": (one_bit, r"is broken \(a checksum differs\)"),
    "other zip": (other_zip, "is broken"),
    "bomb": (bomb, "compressed"),
    "code": (lambda path: torch.save(Code(), path), "is broken"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps(Code())), "incomplete"),
    "missing tensor": (without_tensor, "is broken"),
    "missing": (Path.unlink, "does not exist"),
    "folder": (folder, "is not a file"),
    "a tensor": (lambda path: torch.save(torch.zeros(3), path), "is broken"),
    "no log": (altered(lambda saved: saved.pop("metrics")), "is not a checkpoint of this version"),
    "no table": (altered(lambda saved: saved.update(metrics="a,b\n1,2\n")), "not a table"),
    "no optimizer": (altered(lambda saved: saved["optimizer_states"].clear()), "is broken"),
    "other rate": (
        altered(lambda saved: saved["optimizer_states"][0]["param_groups"][0].update(initial_lr=0.5)),
        "was saved with lr=0.5 of the optimizer, not ",
    ),
    "other momentum": (
        altered(lambda saved: saved["optimizer_states"][0]["param_groups"][-1].update(momentum=0.5)),
        "was saved with momentum=0.5 of the optimizer, not ",
    ),
    "other optimizer": (
        altered(lambda saved: saved["optimizer_states"][0]["param_groups"][0].pop("betas")),
        "is of another optimizer",
    ),
    "other groups": (
        altered(lambda saved: saved["optimizer_states"][0]["param_groups"].pop()),
        "is of another optimizer",
    ),
    "other seed": (altered(lambda saved: saved["progress"].update(seed=7)), "was saved with seed_everything=7, not 0"),
}


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory) -> tuple[Path, Path]:
    """A run of three epochs, and the same one broken off in the third."""
    parent = tmp_path_factory.mktemp("runs")
    alone, run = parent / "alone", parent / "run"
    TrainingCLI([*THREE, f"--run={alone}"]).train()
    healthy = Classification.loss

    def breaks(task: Classification, batch: tuple) -> torch.Tensor:
        if task.global_step == 7:
            raise RuntimeError("the power is gone")
        return healthy(task, batch)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match="the power is gone"):
        patch.setattr(Classification, "loss", breaks)
        TrainingCLI([*THREE, f"--run={run}"]).train()
    return alone, run


@pytest.fixture(scope="module")
def files(broken_off) -> CheckpointFiles:
    cli = TrainingCLI(THREE)
    cli.datamodule.setup("fit")
    return CheckpointFiles(lambda checkpoint: check_same_run(checkpoint, cli.model, cli.datamodule))


@pytest.mark.parametrize("kind", BROKEN)
def test_instead_of_a_broken_checkpoint_the_one_before_is_read(broken_off, files, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(broken_off[1], tmp_path / "run")
    assert files.load_checkpoint(run / "last.ckpt")["epoch"] == 1
    change, reason = BROKEN[kind]
    change(run / "last.ckpt")
    with pytest.warns(UserWarning, match=f"last.ckpt .*{reason}.*; resuming from previous.ckpt") as warnings:
        assert files.load_checkpoint(run / "last.ckpt")["epoch"] == 0
    assert len(warnings) == 1 and "\n" not in str(warnings[0].message)
    (run / "previous.ckpt").unlink()
    with pytest.raises(InputError, match=f"cannot be resumed, since last.ckpt .*{reason}.*; previous.ckpt does not"):
        files.load_checkpoint(run / "last.ckpt")
    assert not Path("code-was-run").exists()


def test_a_run_resumed_from_the_checkpoint_before_ends_as_an_uninterrupted_one(broken_off, tmp_path, capsys):
    alone, run = broken_off[0], shutil.copytree(broken_off[1], tmp_path / "run")
    halve(run / "last.ckpt")
    (run / ".last.ckpt.0123456789ab.draft").write_text("half")
    (run / "mine.draft").write_text("dear diary")
    with pytest.warns(UserWarning, match=r"last.ckpt is broken .*; resuming from previous.ckpt"):
        train([f"--resume={run}"])
    assert "resuming after 1 of 3 epochs" in capsys.readouterr().out
    expected = load_file(alone / "model/model.safetensors")
    for name, tensor in load_file(run / "model/model.safetensors").items():
        assert torch.equal(tensor, expected[name]), name
    assert (run / "metrics.csv").read_text() == (alone / "metrics.csv").read_text()
    assert {path.name for path in run.iterdir()} == {path.name for path in alone.iterdir()} | {"mine.draft"}


def test_a_run_that_cannot_be_resumed_is_left_as_it_was(broken_off, tmp_path):
    run = shutil.copytree(broken_off[1], tmp_path / "run")
    for name in ("last.ckpt", "previous.ckpt"):
        halve(run / name)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"previous.ckpt is broken .*; start again with --config .*config.yaml"):
        train([f"--resume={run}", "--trainer.max_epochs=5"])
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: saved["state_dict"].update(dict.fromkeys(saved["state_dict"], torch.zeros(11, 3))),
        lambda saved: saved["state_dict"].pop("network.head.weight"),
        lambda saved: saved["loops"].clear(),
    ],
    ids=["another width", "another network", "no progress"],
)
def test_a_whole_checkpoint_of_another_network_is_refused_in_one_line_and_left(broken_off, tmp_path, change, command):
    run = shutil.copytree(broken_off[1], tmp_path / "run")
    altered(change)(run / "last.ckpt")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    line = one_line(command("train", f"--resume={run}"))
    assert "last.ckpt: cannot be resumed" in line and len(line) < 1000
    assert before.items() <= {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}.items()


@pytest.mark.parametrize("hook", ["on_validation_start", "on_train_batch_end"])
def test_a_run_that_a_bug_stops_before_its_first_checkpoint_resumes(broken_off, tmp_path, monkeypatch, command, hook):
    def fail(*arguments: object) -> None:
        raise RuntimeError("a bug in my code")

    run, expected = tmp_path / "run", load_file(broken_off[0] / "model/model.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(RunCallback, hook, fail)
        stopped = command("train", *THREE, f"--run={run}")
    assert stopped.returncode == 70 and "Traceback" in stopped.stderr and "a bug in my code" in stopped.stderr
    assert (run / "config.yaml").exists() and not (run / "last.ckpt").exists()
    train([f"--resume={run}"])
    for name, tensor in load_file(run / "model/model.safetensors").items():
        assert torch.equal(tensor, expected[name]), name


def test_a_checkpoint_that_cannot_be_written_leaves_those_before(tmp_path, monkeypatch):
    files = CheckpointFiles(lambda checkpoint: None)
    last = tmp_path / "last.ckpt"
    for epoch in range(2):
        files.save_checkpoint({"epoch": epoch}, last)

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*last.ckpt"):
        files.save_checkpoint({"epoch": 2}, last)
    assert {path.name: torch.load(path)["epoch"] for path in tmp_path.iterdir()} == {"last.ckpt": 1, "previous.ckpt": 0}


def test_a_checkpoint_on_another_disk_stays_there_and_is_found_again(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "last.ckpt").symlink_to("disk/last.ckpt")
    files = CheckpointFiles(lambda checkpoint: None)
    for epoch in range(2):
        files.save_checkpoint({"epoch": epoch}, tmp_path / "last.ckpt")
    assert (tmp_path / "last.ckpt").is_symlink()
    assert {path.name: torch.load(path)["epoch"] for path in (tmp_path / "disk").iterdir()} == {
        "last.ckpt": 1,
        "previous.ckpt": 0,
    }


@pytest.mark.filterwarnings("error")
def test_a_checkpoint_read_under_a_relative_name_is_kept_as_the_one_before(broken_off, files, tmp_path, monkeypatch):
    run = shutil.copytree(broken_off[1], tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    files.load_checkpoint("run/last.ckpt")
    files.save_checkpoint({"epoch": 2}, run / "last.ckpt")
    assert torch.load(run / "previous.ckpt", weights_only=True)["epoch"] == 1


@pytest.mark.parametrize("kind", ["half", "folder"])
def test_a_broken_checkpoint_does_not_replace_the_one_before(tmp_path, kind):
    before = CheckpointFiles(lambda checkpoint: None)
    for epoch in range(2):
        before.save_checkpoint({"epoch": epoch}, tmp_path / "last.ckpt")
    BROKEN[kind][0](tmp_path / "last.ckpt")
    CheckpointFiles(lambda checkpoint: None).save_checkpoint({"epoch": 1}, tmp_path / "last.ckpt")
    assert [torch.load(tmp_path / name)["epoch"] for name in ("previous.ckpt", "last.ckpt")] == [0, 1]
