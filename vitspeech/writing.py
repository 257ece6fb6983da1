"""Writing files atomically, and checking beforehand that a file can be written."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vitspeech.errors import InputError


def check_target(path: str | Path, option: str = "") -> Path:
    """Check that a file can be written or replaced.

    Args:
        path: The file, or a symbolic link to it.
        option: The option that names it, for messages, such as "--csv".

    Returns:
        The file itself: a symbolic link is followed, also to a file that does not exist yet.

    Raises:
        FileNotFoundError: If its folder does not exist.
        InputError: If `path` is a folder, a device, a pipe or another special file, or a loop of links.
        PermissionError: If the file or its folder is not writable.
    """
    name = f"{option} {path}" if option else str(path)
    try:
        mode = os.stat(path).st_mode  # not of the resolved path: the kernel resolves /dev/stdout to a pipe or terminal
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error.strerror}") from None
    if mode is not None and not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or another special file"
        raise InputError(f"{name}: is {kind}, not a regular file; name another file")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{name}: the folder {target.parent} does not exist")
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(f"{name}: the file is not writable")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{name}: the folder {target.parent} is not writable")
    return target


@contextmanager
def replacing(path: str | Path, keep: str | Path | None = None) -> Iterator[Path]:
    """Yield a draft to write to; it replaces the file at the end, and is removed if an error is raised.

    A reader, or a run killed in the middle, never meets half a file. The draft has a name of its own beside the file,
    so that two processes that write the same file do not disturb each other: the last one wins. A symbolic link stays,
    and the file that it leads to is replaced; a file keeps its permissions.

    Args:
        path: The file, or a symbolic link to it.
        keep: Where the file that is replaced is moved, once the draft is on the disk; `None` does not keep it.

    Raises:
        FileNotFoundError, InputError, PermissionError: If `check_target` refuses it.
    """
    target = check_target(path)
    draft = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.draft")
    draft.touch(exist_ok=False)  # O_EXCL: never through a link that somebody put there
    try:
        mode = (target if target.exists() else draft).stat().st_mode
        yield draft
        draft.chmod(stat.S_IMODE(mode))
        sync(draft)
        if keep is not None:
            with suppress(FileNotFoundError):  # somebody has moved it
                os.replace(target, keep)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file is on the disk, so that a power failure after a rename cannot leave it empty."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
