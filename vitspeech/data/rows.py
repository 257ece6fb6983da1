"""Items that are read from their files when a batch needs them, and broken files, which are found before training.

Shapes: B batch.
"""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from vitspeech.errors import InputError

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
UNREADABLE = (InputError, OSError)
THREADS, AT_ONCE = 8, 1000  # threads that check files, which mostly wait for the disk; files that wait for them
MOST_NAMED = 50  # broken files in a message
MOST_SKIPPED = 16  # where so many items in a row cannot be read, the disk is likely the reason


class Content:
    """The bytes of a file that lies in a table; readers take it in place of a `Path`, and messages have its name."""

    def __init__(self, content: "pyarrow.Buffer", name: str) -> None:
        self.content, self.name, self.suffix = content, name, PurePath(name).suffix

    def open(self, mode: str = "rb") -> BytesIO:
        """A file to be read."""
        return BytesIO(self.content)

    def __str__(self) -> str:
        return self.name


class FileRows:
    """Inputs of one shape, each read from its file when it is needed; the `inputs` of `TensorItems`.

    Inputs at hand, such as cuts of silence, may be among the files as tensors. Worker processes call `read`, so
    it is a function of a module, or a `partial` of one. `replace` says whether another row stands for one that cannot
    be read; not in a test, whose items must be those that it names.
    """

    def __init__(self, files: Sequence[Any], read: Callable[[Any], Tensor], *, replace: bool = True) -> None:
        self.files, self.read, self.replace = files, read, replace

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, indices: Tensor) -> Tensor:
        return self.take(indices)[0]

    def row(self, index: int) -> Tensor:
        """Read one row."""
        file = self.files[index]
        return file if isinstance(file, Tensor) else self.read(file)

    def take(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Read rows; see `readable`.

        Shape:
            (B,) -> (B, ...) and the indices of the rows that were read (B,)
        """
        rows, read = readable(indices.tolist(), self.row, len(self), replace=self.replace)
        return torch.stack(rows), torch.tensor(read)


def readable(
    indices: Sequence[int], read: Callable[[int], Any], count: int, *, replace: bool = True
) -> tuple[list[Any], list[int]]:
    """Read `count` items by their indices: the items, and the index of each.

    In place of one that cannot be read, another of the same batch is taken, with a warning, if it may be replaced. If
    none of the batch can be read, the first of the next `MOST_SKIPPED` items that can be read is taken. Files are
    checked before training as far as their headers tell. So a file that breaks a batch costs only itself.
    """
    items, errors = {}, []

    def keep(index: int) -> None:
        try:
            items[index] = read(index)
        except UNREADABLE as error:
            if not replace:
                raise InputError(str(error)) from None
            errors.append(error)
            warnings.warn(f"{error}; another item is taken in its place", stacklevel=3)

    for index in indices:
        keep(index)
    for step in range(1, min(MOST_SKIPPED, count - 1) + 1):
        if items:
            break
        keep((indices[-1] + step) % count)
    if not items:
        raise InputError(f"{errors[0]}; no item of this batch can be read")
    good = list(items)
    taken = [index if index in items else good[place % len(good)] for place, index in enumerate(indices)]
    return [items[index] for index in taken], taken


class Each(Sequence):
    """The results of a function for the items of a sequence, each made when it is asked for."""

    def __init__(self, items: Sequence[Any], make: Callable[[Any], Any]) -> None:
        self.items, self.make = items, make

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return [*map(self.make, self.items[index])] if isinstance(index, slice) else self.make(self.items[index])


class BrokenFilesError(InputError):
    """More files of a split cannot be read than may be; the message names them."""


def readable_files(
    files: Sequence[T], check: Callable[[T], Any], split: str, most: float = 0.0, *, verb: str = "checking"
) -> tuple[list[int], list[Any]]:
    """Check or read each file of a split, and leave out broken ones with a warning: the indices of the others.

    `check` raises an `InputError` or `OSError` if a file is broken; what it returns for the others is returned as well.
    `most` is the largest share of broken files; if there are more, this is a `BrokenFilesError`. Several threads call
    `check`. A progress bar that begins with the `verb` is shown from 500 files on.
    """
    from tqdm import tqdm

    def outcome(file: T) -> tuple[Any, str | None]:
        try:
            return check(file), None
        except UNREADABLE as error:
            return None, str(error)

    good, known, broken = [], [], []
    bar = tqdm(total=len(files), desc=f"{verb} {split}", disable=len(files) < 500 or None, leave=False)
    with bar, ThreadPoolExecutor(THREADS) as threads:
        for start in range(0, len(files), AT_ONCE):
            for place, (result, problem) in enumerate(threads.map(outcome, files[start : start + AT_ONCE]), start):
                bar.update()
                if problem is None:
                    good.append(place)
                    known.append(result)
                else:
                    broken.append(problem)
    report_broken(broken, len(files), split, most)
    return good, known


def report_broken(problems: Sequence[str], count: int, split: str, most: float = 0.0) -> None:
    """Say which of so many files of a split cannot be read: a warning, or a `BrokenFilesError` if they are too many."""
    if problems:
        more = f"; and {len(problems) - MOST_NAMED:,} more" if len(problems) > MOST_NAMED else ""
        text = f"{len(problems):,} of {count:,} files of {split} cannot be read"
        names = "; ".join(problems[:MOST_NAMED]) + more
        if len(problems) > most * count:
            raise BrokenFilesError(f"{text}{f', above broken={most:g}' * bool(most)}: {names}")
        warnings.warn(f"{text} and are left out: {names}", stacklevel=3)
