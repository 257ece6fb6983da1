"""Data sets that torchaudio and torchvision download and unpack: by one process at a time.

What an interruption leaves is not taken for the data set.
"""

import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from filelock import FileLock

from vitspeech.errors import InputError

FAILURES = (OSError, RuntimeError, EOFError, HTTPException, tarfile.TarError, zlib.error)


def download_folder(folder: Path, download: Callable[[], object], address: str) -> None:
    """Download and unpack a folder unless it is there; a file beside it says that this is not finished.

    Several processes may call this at once: one of them downloads, and the others wait. The address is for the message
    of an error.
    """
    if folder.is_dir() and not unfinished(folder).exists():
        return
    with downloading(folder, address):
        check_complete(folder)
        if folder.is_dir():  # another process has downloaded it in the meantime
            return
        unfinished(folder).touch()
        try:
            download()
        except FAILURES:
            if not folder.exists():
                unfinished(folder).unlink()
            raise
        unfinished(folder).unlink(missing_ok=True)


@contextmanager
def downloading(folder: Path, address: str) -> Iterator[None]:
    """Wait until no other process is within this context for the same folder, which it may have completed.

    What fails in the context is an `InputError` that says what to do by hand.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_name(f".{folder.name}.lock")
    with FileLock(file):
        try:
            yield
        except InputError:
            raise
        except FAILURES as error:
            failed = f"{folder}: downloading {address} failed ({str(error).strip(' .<>')})"
            raise InputError(
                f"{failed}; start again, or fetch it by other means and unpack it as that folder; first delete what is "
                "incomplete"
            ) from None
        file.unlink(missing_ok=True)  # not after an error: of the processes that wait for it, one has to go on


def check_complete(folder: Path) -> None:
    """Refuse a folder that an interrupted `download_folder` has left."""
    if folder.is_dir() and unfinished(folder).exists():
        raise InputError(
            f"{folder}: unpacking was interrupted, so files are missing; unless another process is unpacking it now, "
            "delete this folder and start again with `--data.download true`, or delete only "
            f"{unfinished(folder).name} beside it if you have completed it"
        )


def unfinished(folder: Path) -> Path:
    """The file that is beside a folder until the folder is complete."""
    return folder.with_name(f"{folder.name}.unfinished")
