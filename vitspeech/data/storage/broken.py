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


def readable_files(
    files: Sequence[Path], check: Callable[[Path], Any], split: str, most: float = 0.0
) -> tuple[list[int], list[Path]]:
    """Check each file, and leave out those that are broken.

    Args:
        files: The files of a split.
        check: Raises an `InputError` or `OSError` if a file is broken.
        split: The name of the split, for the progress bar and messages.
        most: The largest share of broken files.

    Returns:
        The places of the files that can be read, and the files that cannot.

    Raises:
        InputError: If there are more.

    Warns:
        UserWarning: If there are some.
    """

    def problem(file: Path) -> str | None:
        try:
            check(file)
        except UNREADABLE as error:
            return str(error)
        return None

    with ThreadPoolExecutor(THREADS) as threads:
        found = threads.map(problem, files, chunksize=64)
        bar = tqdm(found, f"checking {split}", total=len(files), disable=len(files) < 500 or None, leave=False)
        problems = list(bar)
    good = [place for place, text in enumerate(problems) if text is None]
    broken = [text for text in problems if text is not None]
    if broken:
        count = f"{len(broken):,} of {len(files):,} files of {split} cannot be read"
        if len(broken) > most * len(files):
            raise InputError(f"{count}, above broken={most:g}; first {broken[0]}")
        warnings.warn(f"{count} and are left out; first {broken[0]}", stacklevel=2)
    return good, [file for file, text in zip(files, problems, strict=True) if text is not None]
