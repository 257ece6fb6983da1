"""Broken files: found by their headers before training, and left out up to the share that a config allows."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from vitspeech.data.storage.rows import UNREADABLE
from vitspeech.errors import InputError

THREADS = 8  # which mostly wait for the disk
AT_ONCE = 1000


def decodes(read: Callable[[Path], Any]) -> Callable[[Path], None]:
    """A check for `readable_files` that reads a whole file, and keeps nothing of it."""

    def check(file: Path) -> None:
        read(file)

    return check


def readable_files(
    files: Sequence[Path], check: Callable[[Path], Any], split: str, most: float = 0.0
) -> tuple[list[int], list[Any]]:
    """Check each file, and leave out those that are broken.

    Args:
        files: The files of a split.
        check: Raises an `InputError` or `OSError` if a file is broken; else returns what is known of it.
        split: The name of the split, for the progress bar and messages.
        most: The largest share of broken files.

    Returns:
        The indices of the files that can be read, and what `check` returned for each of them.

    Raises:
        InputError: If there are more.

    Warns:
        UserWarning: If there are some.
    """

    def checked(file: Path) -> tuple[Any, str | None]:
        try:
            return check(file), None
        except UNREADABLE as error:
            return None, str(error)

    good, known, broken = [], [], []
    bar = tqdm(total=len(files), desc=f"checking {split}", disable=len(files) < 500 or None, leave=False)
    with bar, ThreadPoolExecutor(THREADS) as threads:
        for start in range(0, len(files), AT_ONCE):  # each file that waits for a thread takes memory
            for place, (result, problem) in enumerate(threads.map(checked, files[start : start + AT_ONCE]), start):
                bar.update()
                if problem is not None:
                    broken.append(problem)
                    continue
                good.append(place)
                known.append(result)
    if broken:
        count = f"{len(broken):,} of {len(files):,} files of {split} cannot be read"
        if len(broken) > most * len(files):
            raise InputError(f"{count}, above broken={most:g}; first {broken[0]}")
        warnings.warn(f"{count} and are left out; first {broken[0]}", stacklevel=2)
    return good, known
