"""Items that are read from their files when a batch needs them.

Shapes: B batch.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitspeech.errors import InputError

UNREADABLE = (InputError, OSError)
MOST_SKIPPED = 16  # where so many items in a row cannot be read, the disk is likely the reason


class FileRows:
    """Inputs of one shape, each read from its file when it is needed; the `inputs` of `TensorItems`.

    Args:
        files: The file of each row.
        read: Reads a file as a row. Worker processes call it, so it is a function of a module, or a `partial` of one.
        replace: Whether another row stands for one that cannot be read; not in a test, whose items must be those that
            it names.
    """

    def __init__(self, files: Sequence[Path], read: Callable[[Path], Tensor], *, replace: bool = True) -> None:
        self.files, self.read, self.replace = files, read, replace

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, indices: Tensor) -> Tensor:
        return self.take(indices)[0]

    def row(self, index: int) -> Tensor:
        """Read one row."""
        return self.read(self.files[index])

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
    """Read items; in place of one that cannot be read, another of the same batch is taken, with a warning.

    If none of the batch can be read, the first of the next `MOST_SKIPPED` items that can be read is taken.

    Files are checked before training as far as their headers tell. So a file that breaks a batch costs only itself.

    Args:
        indices: Which items.
        read: Reads the item of an index.
        count: The number of items.
        replace: Whether another item may be taken.

    Returns:
        The items, and the index of each.
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


class JoinedRows:
    """Several inputs of the same shape, one after another: tensors, or rows that are read when they are needed.

    Args:
        parts: The inputs.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __getitem__(self, indices: Tensor) -> Tensor:
        return self.take(indices)[0]

    def row(self, index: int) -> Tensor:
        """As `FileRows.row`."""
        for part in self.parts:
            if index < len(part):
                return row(part, index)
            index -= len(part)
        raise IndexError(index)

    def take(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """As `FileRows.take`."""
        rows, read, start = {}, indices.clone(), 0
        for part in self.parts:
            places = ((indices >= start) & (indices < start + len(part))).nonzero()[:, 0]
            if len(places):
                values, taken = take(part, indices[places] - start)
                read[places] = taken + start
                rows |= dict(zip(places.tolist(), values, strict=True))
            start += len(part)
        return torch.stack([rows[place] for place in range(len(indices))]), read


def take(inputs: Any, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of a tensor, or of inputs that are read when they are needed, and the indices of the rows that were read."""
    return (inputs[indices], indices) if isinstance(inputs, Tensor) else inputs.take(indices)


def row(inputs: Any, index: int) -> Tensor:
    """One row of a tensor, or of inputs that are read when they are needed."""
    return inputs[index] if isinstance(inputs, Tensor) else inputs.row(index)


class FileSounds(Sequence):
    """Recordings of any length, each read when it is needed: `sounds[index]` is int16 (N,).

    Args:
        files: The file of each recording.
        read: Reads a file.
    """

    def __init__(self, files: Sequence[Path], read: Callable[[Path], Tensor]) -> None:
        self.files, self.read = files, read

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        return self.read(self.files[index])
