"""How training ends early, in one line that says why and how to go on; and the lock of a run's folder."""

import errno
import fcntl
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from vitspeech.errors import InputError

FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "a file is too large"}
LOCK = ".lock"


@contextmanager
def handle_interrupts(program: str, resume: Callable[[], str]) -> Iterator[None]:
    """End with one line if training is interrupted, its loss is not finite, or the disk is full.

    SIGTERM, which schedulers send, and SIGHUP, which the end of a connection sends, are treated as Ctrl-C. Nothing is
    saved then; the last checkpoint remains. The exit status is 128 plus the number of the signal, as in a shell.

    Args:
        program: The command, which precedes the line.
        resume: Returns the command that resumes the run, or nothing if there is no run yet.
    """
    received = signal.SIGINT

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received = number
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # only there can signals be handled
    under_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = [signal.SIGTERM, *([] if under_nohup else [signal.SIGHUP])] if is_main else []
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as ending:  # Lightning exits at Ctrl-C
        if isinstance(ending.__context__, FloatingPointError):  # the first process reports it, see `training_errors`
            raise
        command = resume()
        print(file=sys.stderr)  # ends the line of the progress bar
        print(f"{program}: interrupted{f'; continue with {command}' if command else ''}", file=sys.stderr)
        sys.exit(128 + received)
    except FloatingPointError as error:
        raise FloatingPointError(
            f"{error}. Resuming would meet it again; start a new run with a lower learning rate (--model.optimizer.lr)"
        ) from error
    except OSError as error:
        if error.errno not in FULL:
            raise
        command = resume()
        file = f"{error.filename}: " if error.filename else ""
        advice = f"; make room, then continue with {command}" if command else ""
        raise InputError(f"{file}{FULL[error.errno]}{advice}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class RunLock:
    """A lock on the file `.lock` in a run's folder, which says which process holds it.

    The system releases it when the process ends, however it ends. It excludes other processes, also of other machines
    if the folder is on a network file system with locks (NFS 4). Where there are no locks, a warning says so. In a run
    on several devices, the first process holds it.
    """

    def __init__(self) -> None:
        self.file: int | None = None
        self.path: Path | None = None

    def acquire(self, run: Path) -> None:
        """Lock the folder of a run, which must exist."""
        self.release()
        path = run / LOCK
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            try:
                # Unlike a lock of flock, it is not inherited by workers that read data, which may survive a kill.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(file, 400, 0).decode(errors="replace").strip()
                os.close(file)
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise InputError(f"{run}: is being trained by {holder or 'another process'}") from None
                warnings.warn(f"{run} cannot be locked ({error.strerror}); do not train it twice at once", stacklevel=2)
                return
            try:
                if os.path.samestat(os.fstat(file), path.stat()):
                    break
            except FileNotFoundError:
                pass
            os.close(file)  # of a process that ended in the meantime and removed the file
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self.file, self.path = file, path

    def release(self) -> None:
        """Unlock the folder, if it is locked, and remove the file."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.file)
            self.file = None
