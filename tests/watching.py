"""Watches code: it opens no foreign file and runs no foreign module or program, in bounded time and memory."""

import os
import resource
import signal
import site
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
READABLE = [str(ROOT), sys.prefix, sys.base_prefix, *site.getsitepackages(), "/usr/share", "/dev/null", "/proc/"]
CODE = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect")
CPU_S = 20  # of one case
MEMORY_BYTES = 3 * 2**30  # beyond what the process has

_violations: list[str] | None = None
_folders: tuple[str, ...] = ()


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook; Python cannot remove it, so it does nothing unless `watched` is active."""
    if _violations is None:
        return
    if event == "open" and isinstance(arguments[0], str | bytes):
        path, flags = os.path.realpath(os.fsdecode(arguments[0])), arguments[2] or 0
        is_written = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) and path != os.devnull
        if not path.startswith(_folders if is_written else (*_folders, *READABLE)):
            _violations.append(f"{'wrote' if is_written else 'read'} {path}")
    elif event == "ctypes.dlopen":  # PyTorch looks for the driver of a GPU, by its name
        if "/" in str(arguments[0]):
            _violations.append(f"{event} {arguments[0]}")
    elif event in CODE or (event == "import" and arguments[0].partition(".")[0] == "mine"):
        _violations.append(f"{event} {arguments!r:.200}")


sys.addaudithook(_watch)


class TooSlow(Exception):
    """One case took more than `CPU_S` of CPU time."""


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Run code that gets a MemoryError before it takes `MEMORY_BYTES` more than the process has."""
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stack
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + MEMORY_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Run code that may read and write in `folder` alone, besides reading Python's own files and the package's.

    Raises:
        AssertionError: If it opened another file, ran a program, connected or imported the module `mine`.
        TooSlow: If it took more than `CPU_S` seconds of CPU time.
        MemoryError: If it took more than `MEMORY_BYTES`.
    """
    global _violations, _folders

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {CPU_S} s of CPU time")

    _folders = (str(folder.resolve()), os.path.realpath(tempfile.gettempdir()))
    found: list[str] = []
    handler = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    _violations = found
    try:
        with bounded_memory():
            yield
    finally:
        _violations = None
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)
    assert not found, found
