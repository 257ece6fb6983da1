"""Inputs that are not in memory: each row is read when a batch needs it.

Shapes: B batch.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from vitspeech.data.storage.broken import Broken, BrokenFile
from vitspeech.errors import InputError


class Rows:
    """The base class of inputs that are read when they are needed: `rows[indices]` is a tensor with a row for each.

    A subclass implements `__len__` and `row`.
    """

    def __len__(self) -> int:
        raise NotImplementedError

    def row(self, index: int) -> Tensor:
        """Read one row."""
        raise NotImplementedError

    def read(self, indices: Tensor) -> tuple[list[Tensor], Tensor]:
        """Read rows, which may have different lengths.

        Returns:
            The rows, and the index of each: another one than asked for if a row could not be read.
        """
        return [self.row(index) for index in indices.tolist()], indices

    def __getitem__(self, indices: Tensor) -> Tensor:
        return torch.stack(self.read(indices)[0])

    def content(self, index: int) -> bytes:
        """What a pack stores of a row: the bytes of the tensor, or those of the file if it is decoded at reading."""
        return self.row(index).numpy().tobytes()

    def size(self, index: int) -> int:
        """About how many bytes `content` has, known without reading all of it."""
        return self.row(0).nbytes


class FileRows(Rows):
    """Rows that are read from one file each.

    A file that was found good and cannot be read in the middle of a run is replaced by the next row of its batch, as
    far as `broken` allows. All processes count together, so the replacement does not depend on the number of workers.

    Args:
        files: The file of each row.
        read: Reads one file as a tensor.
        broken: Counts the files that cannot be read; `None` allows none.
        encoded: Whether a pack stores the bytes of the files.
        size: About how many bytes of a file a pack stores; `None` is the size of the file, or that of the first row.
    """

    def __init__(
        self,
        files: Sequence[Path],
        read: Callable[[Path], Tensor],
        *,
        broken: Broken | None = None,
        encoded: bool = False,
        size: Callable[[Path], int] | None = None,
    ) -> None:
        self.files, self.read_file, self.broken, self.encoded = files, read, broken or Broken(0, 0), encoded
        self.size_of = size
        # One byte per file, shared with worker processes.
        self.bad = torch.zeros(len(files) if self.broken.spare else 0, dtype=torch.uint8).share_memory_()

    def __len__(self) -> int:
        return len(self.files)

    def row(self, index: int) -> Tensor:
        return self.read_file(self.files[index])

    def read(self, indices: Tensor) -> tuple[list[Tensor], Tensor]:
        if not self.broken.spare:
            return self.read_all(indices)
        found, wanted = {}, indices.tolist()
        for index in wanted:
            try:
                found[index] = self.row(index)
            except (InputError, OSError) as error:
                self.note(index, error)
        if not found:
            raise InputError(f"none of the {len(wanted)} files of a batch can be read, such as {self.files[wanted[0]]}")
        used = [self.readable(place, wanted, found) for place in range(len(wanted))]
        return [found[index] for index in used], torch.tensor(used)

    def read_all(self, indices: Tensor) -> tuple[list[Tensor], Tensor]:
        """Read rows none of which may be broken; the error is one that a worker process passes on as it is."""
        try:
            return super().read(indices)
        except (InputError, OSError) as error:
            raise BrokenFile(str(error)) from None

    def readable(self, place: int, wanted: Sequence[int], found: dict[int, Tensor]) -> int:
        """The first index from `place` on, around the end of the batch, whose row was read."""
        return next(index for index in (*wanted[place:], *wanted[:place]) if index in found)

    def note(self, index: int, error: Exception) -> None:
        """Count a file that broke, and warn of it once."""
        is_new = not self.bad[index]
        self.bad[index] = 1
        self.broken.replace(self.files[index], int(self.bad.sum()), error, warn=is_new)

    def content(self, index: int) -> bytes:
        if not self.encoded:
            return super().content(index)
        self.row(index)  # what is packed can be decoded
        return self.files[index].read_bytes()

    def size(self, index: int) -> int:
        if self.size_of is not None:
            return self.size_of(self.files[index])
        return self.files[index].stat().st_size if self.encoded else self.first_bytes

    @property
    def first_bytes(self) -> int:
        """The size of the first row that can be read."""
        if not hasattr(self, "row_bytes"):
            self.row_bytes = self.row(0).nbytes
        return self.row_bytes


class MemoryRows(Rows):
    """Rows in memory, read like those that are not.

    Args:
        tensors: A tensor with a row for each item, or a list of one tensor for each.
    """

    def __init__(self, tensors: Tensor | Sequence[Tensor]) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors)

    def row(self, index: int) -> Tensor:
        return self.tensors[index]

    def size(self, index: int) -> int:
        return self.tensors[index].nbytes


class JoinedRows(Rows):
    """Rows of files, followed by rows in memory.

    Args:
        rows: The first rows.
        tensor: The rows after them.
    """

    def __init__(self, rows: Rows, tensor: Tensor) -> None:
        self.rows, self.tensor = rows, tensor

    def __len__(self) -> int:
        return len(self.rows) + len(self.tensor)

    def row(self, index: int) -> Tensor:
        return self.rows.row(index) if index < len(self.rows) else self.tensor[index - len(self.rows)]

    def read(self, indices: Tensor) -> tuple[list[Tensor], Tensor]:
        in_files = indices < len(self.rows)
        if not in_files.any():
            return super().read(indices)
        rows, used = self.rows.read(indices[in_files])
        read, rows = iter(zip(used.tolist(), rows, strict=True)), []
        used = indices.clone()
        for place, is_file in enumerate(in_files.tolist()):
            if is_file:
                used[place], row = next(read)
            else:
                row = self.row(int(indices[place]))
            rows.append(row)
        return rows, used

    def content(self, index: int) -> bytes:
        return self.rows.content(index) if index < len(self.rows) else super().content(index)

    def size(self, index: int) -> int:
        return self.rows.size(index) if index < len(self.rows) else self.tensor[0].nbytes
