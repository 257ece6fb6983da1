"""The lock of a run's folder, so that one process at a time trains the run."""

import errno
import fcntl
import os
import socket
import warnings
from pathlib import Path

from vitspeech.errors import InputError

LOCK = ".lock"


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
        """Lock the folder of a run, which must exist.

        Raises:
            InputError: If another process has locked it; the message names it.
        """
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
