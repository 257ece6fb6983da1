"""The lock of a run's folder: one process at a time, released however the process ends."""

import errno
import fcntl
import os
import signal
import socket
from pathlib import Path

import pytest

from vitspeech.errors import InputError
from vitspeech.training.interrupts import RunLock


def holder(run: Path) -> int:
    """A process that locks the folder and waits to be killed; its id, once it has the lock."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            RunLock().acquire(run)
            os.write(writing, b"locked")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 6) == b"locked"
    os.close(reading)
    return process


def test_a_second_process_is_refused_until_the_first_one_is_killed(tmp_path):
    process = holder(tmp_path)
    lock = RunLock()
    message = f"{tmp_path}: is being trained by process {process} on {socket.gethostname()}"
    try:
        for _ in range(2):
            with pytest.raises(InputError) as refused:
                lock.acquire(tmp_path)
            assert str(refused.value) == message
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    lock.acquire(tmp_path)
    assert (tmp_path / ".lock").read_text() == f"process {os.getpid()} on {socket.gethostname()}\n"
    lock.release()
    assert list(tmp_path.iterdir()) == []
    lock.release()


def test_of_many_processes_that_lock_together_one_at_a_time_holds_the_folder(tmp_path):
    """Each enters the folder, where a second one would find the first one's file."""
    (tmp_path / "run").mkdir()
    processes = []
    for _ in range(8):
        if process := os.fork():
            processes.append(process)
            continue
        status, lock, entered = 1, RunLock(), 0
        try:
            while entered < 150:
                try:
                    lock.acquire(tmp_path / "run")
                except InputError:
                    continue
                inside = os.open(tmp_path / "inside", os.O_CREAT | os.O_EXCL)
                os.close(inside)
                os.unlink(tmp_path / "inside")
                lock.release()
                entered += 1
            status = 0
        finally:
            os._exit(status)
    assert [os.waitpid(process, 0)[1] for process in processes] == [0] * 8


def test_a_lock_does_not_empty_a_file_behind_a_link(tmp_path):
    (tmp_path / "diary").write_text("dear diary")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.lock").symlink_to(tmp_path / "diary")
    with pytest.raises(OSError, match="symbolic links"):
        RunLock().acquire(tmp_path / "run")
    assert (tmp_path / "diary").read_text() == "dear diary"


def test_a_folder_without_locks_is_used_with_a_warning(tmp_path, monkeypatch):
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.warns(UserWarning, match=r"cannot be locked \(No locks available\); do not train it twice"):
        RunLock().acquire(tmp_path)
