"""Data sets that torchaudio downloads and unpacks: what an interruption leaves is not taken for the data set."""

from collections.abc import Callable
from pathlib import Path

from vitspeech.errors import InputError


def download_folder(folder: Path, download: Callable[[], object]) -> None:
    """Download and unpack a folder unless it is there; a file beside it says that this is not finished.

    Args:
        folder: The folder that `download` creates.
        download: Downloads an archive and unpacks it.

    Raises:
        InputError: If the folder is there, but was not completely unpacked.
    """
    check_complete(folder)
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished(folder).touch()
    download()
    unfinished(folder).unlink()


def check_complete(folder: Path) -> None:
    """Check that a folder was not left by an interrupted `download_folder`.

    Raises:
        InputError: If it was.
    """
    if folder.is_dir() and unfinished(folder).exists():
        raise InputError(
            f"{folder}: unpacking was interrupted, so files are missing; delete this folder and start again with "
            f"`--data.download true`, or delete only {unfinished(folder).name} beside it if you have completed it"
        )


def unfinished(folder: Path) -> Path:
    """The file that is beside a folder until the folder is complete."""
    return folder.with_name(f"{folder.name}.unfinished")
