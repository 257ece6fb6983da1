"""Reading the items of a pack: inputs when a batch needs them, labels at once, names and speakers one by one.

Memory: 8 bytes of label for each item in every process that opens the split; the inputs are pages of the files, which
the kernel shares between processes and drops when it needs the memory.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy
import torch
from torch import Tensor

from vitspeech.data.batches import Items
from vitspeech.data.storage.pack import NOISE, Pack
from vitspeech.data.storage.rows import Rows
from vitspeech.data.storage.shards import Shard
from vitspeech.errors import InputError

MOST_OPEN = 128  # shards that a process keeps open; many systems allow 1024 open files


class PackedRows(Rows):
    """The inputs of a split of a pack. Files are opened in each process when it reads the first row of them.

    Args:
        pack: The pack.
        split: The name of the split.
        decode: Makes a tensor from the bytes of an input.
    """

    def __init__(self, pack: Pack, split: str, decode: Callable[[memoryview], Tensor]) -> None:
        self.folder, self.entry, self.decode = pack.folder, pack.splits[split], decode
        self.ends = list(accumulate(shard.rows for shard in self.entry.shards))
        self.opened: OrderedDict[int, Shard] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "opened": OrderedDict()}

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def shard(self, number: int) -> Shard:
        """A shard, opened if it is not."""
        if number not in self.opened:
            if len(self.opened) >= MOST_OPEN:
                self.opened.popitem(last=False)
            entry = self.entry.shards[number]
            self.opened[number] = Shard(self.folder / entry.file, entry.rows, self.entry.rows_per_batch)
        return self.opened[number]

    def locate(self, index: int) -> tuple[Shard, int]:
        """The shard of an item, and its row there."""
        number = bisect_right(self.ends, index)
        if not 0 <= index < len(self):
            raise IndexError(f"{index} is not an item of {len(self):,}")
        return self.shard(number), index - (self.ends[number - 1] if number else 0)

    def row(self, index: int) -> Tensor:
        shard, row = self.locate(index)
        return self.decode(shard.content(row))

    def labels(self) -> Tensor:
        """The label of each item, int64.

        Raises:
            InputError: If a shard has none.
        """
        labels = torch.empty(len(self), dtype=torch.int64)
        end = 0
        for number in range(len(self.entry.shards)):
            for array in self.shard(number).arrays("label"):
                if array.null_count:
                    raise InputError(f"{self.shard(number).path}: an item has no label")
                labels[end : end + len(array)] = torch.from_numpy(array.to_numpy(zero_copy_only=False).copy())
                end += len(array)
        return labels

    def column(self, name: str) -> "Column":
        """The values of a column, which are read when they are used."""
        return Column(self, name)


class Column(Sequence):
    """A column of a split, such as the names of its items: a sequence that holds no values.

    Args:
        rows: The split.
        name: The column.
    """

    def __init__(self, rows: PackedRows, name: str) -> None:
        self.rows, self.name = rows, name

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        shard, row = self.rows.locate(range(len(self))[index])
        return shard.value(self.name, row)

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self.rows.entry.shards)):
            for array in self.rows.shard(number).arrays(self.name):
                yield from array.to_pylist()


def packed_items(pack: Pack, split: str, decode: Callable[[memoryview], Tensor]) -> Items:
    """The items of a split with their labels and, if all are known, their speakers."""
    rows = PackedRows(pack, split, decode)
    return Items(rows, rows.labels(), rows.column("speaker") if rows.entry.speakers else None)


def packed_names(pack: Pack) -> dict[str, list[str]]:
    """The names of the items of each split; empty if they have none."""
    if not all(entry.named for entry in splits_of(pack).values()):
        return {}
    columns = {split: PackedRows(pack, split, raw_samples).column("name") for split in splits_of(pack)}
    return {split: [name for name in column if name is not None] for split, column in columns.items()}


def splits_of(pack: Pack) -> dict[str, Any]:
    """The splits of items, without noise."""
    return {name: entry for name, entry in pack.splits.items() if name != NOISE}


def packed_noise(pack: Pack) -> dict[str, Tensor]:
    """The recordings of noise by name: int16; none if the pack has none."""
    if NOISE not in pack.splits:
        return {}
    rows = PackedRows(pack, NOISE, raw_samples)
    return {name: rows.row(index) for index, name in enumerate(rows.column("name"))}


def raw_samples(content: memoryview) -> Tensor:
    """The samples of a recording: int16 (N,)."""
    return torch.from_numpy(numpy.frombuffer(content, numpy.int16).copy())


def raw_pixels(content: memoryview, side: int) -> Tensor:
    """A decoded picture: uint8 (3, side, side)."""
    return torch.from_numpy(numpy.frombuffer(content, numpy.uint8).reshape(3, side, side).copy())
