"""How training ends early: one line, the exit status of a shell, advice that helps; and the lock of a run's folder."""

import errno
import fcntl
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from vitspeech.errors import InputError
from vitspeech.training.interrupts import RunLock, handle_interrupts


def ending(error=None, resume="vitspeech train --resume run"):
    with handle_interrupts("vitspeech train", lambda: resume):
        if error is not None:
            raise error


def test_an_interrupted_run_says_how_to_continue(capsys):
    with pytest.raises(SystemExit) as ended:
        ending(KeyboardInterrupt())
    assert ended.value.code == 130
    assert capsys.readouterr().err.strip() == "vitspeech train: interrupted; continue with vitspeech train --resume run"
    with pytest.raises(SystemExit):
        ending(SystemExit(1), resume="")  # as Lightning does it; there is no run yet
    assert capsys.readouterr().err.strip() == "vitspeech train: interrupted"


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_sigterm_and_sighup_end_a_run_as_ctrl_c_does(capsys, number, status):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended, handle_interrupts("vitspeech train", lambda: "command"):
            os.kill(os.getpid(), number)
            signal.pause()
        assert ended.value.code == status and "interrupted; continue with command" in capsys.readouterr().err
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_sighup_stays_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_interrupts("vitspeech train", lambda: "command"):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_full_disk_says_where_and_how_to_continue():
    message = "run/last.ckpt: the disk is full; make room, then continue with vitspeech train --resume run"
    with pytest.raises(InputError, match=message):
        ending(OSError(errno.ENOSPC, "No space left on device", "run/last.ckpt"))
    with pytest.raises(FileNotFoundError, match="x"):
        ending(FileNotFoundError(errno.ENOENT, "No such file", "x"))


def test_a_process_that_leaves_a_loss_to_the_first_one_to_report_is_not_interrupted(capsys):
    with pytest.raises(SystemExit) as ended, handle_interrupts("vitspeech train", lambda: "command"):
        try:
            raise FloatingPointError("the loss is NaN at step 3")
        except FloatingPointError:
            sys.exit(1)
    assert ended.value.code == 1 and not capsys.readouterr().err


def test_a_loss_that_is_not_finite_is_not_to_be_resumed():
    with pytest.raises(FloatingPointError, match=r"step 3\. Resuming would .*; start a new run with a lower learning"):
        ending(FloatingPointError("the loss is NaN at step 3"))


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
    process, lock = holder(tmp_path), RunLock()
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
    lock.release()
    assert list(tmp_path.iterdir()) == []


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
                os.close(os.open(tmp_path / "inside", os.O_CREAT | os.O_EXCL))
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
