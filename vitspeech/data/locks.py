"""Locks between processes; the system releases a lock when its process ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vitspeech.errors import InputError


def lock(file: int, path: Path, *, wait: bool = False) -> None:
    """Lock an open file or folder until it is closed; nothing where the file system has no locks.

    Args:
        file: Its descriptor.
        path: Its path, for the message.
        wait: Wait until no other process has locked it.

    Raises:
        InputError: If another process has locked it, and `wait` is false.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{path}: another process is writing it") from None
    except OSError:
        pass  # a file system without locks


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a folder, or a file, which is created if it is missing, within this context; see `lock`."""
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        lock(file, path, wait=wait)
        yield
    finally:
        os.close(file)
