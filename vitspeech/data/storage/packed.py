"""Reading a pack: its shards are mapped into memory, so that an item is read without those before it.

Memory that is not shared: 8 bytes per item for labels. Pages of the shards belong to the system's file cache.

Shapes: B batch, N samples.
"""

from bisect import bisect_right
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import torch
from torch import Tensor

from vitspeech.data.storage.format import NOISE, index_file, read_description
from vitspeech.errors import InputError


class Shards:
    """The inputs of a split as bytes, by their indices.

    Files are opened when they are first read, in each process.

    Args:
        folder: The pack.
        shards: The `shards` of the split in `pack.json`.
        rows_per_batch: Items in a record batch; only the last one of a shard has fewer.
    """

    def __init__(self, folder: Path, shards: list[dict[str, Any]], rows_per_batch: int) -> None:
        self.files, self.rows_per_batch = [folder / shard["file"] for shard in shards], rows_per_batch
        self.ends = list(accumulate(shard["items"] for shard in shards))
        self.open: dict[int, pyarrow.RecordBatchFileReader] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"open": {}}

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def read(self, index: int) -> pyarrow.Buffer:
        """The bytes of an input, which are not copied."""
        number = bisect_right(self.ends, index)
        if number not in self.open:
            self.open[number] = mapped(self.files[number])
        batch, row = divmod(index - (self.ends[number - 1] if number else 0), self.rows_per_batch)
        return self.open[number].get_batch(batch).column(0)[row].as_buffer()


def mapped(file: Path) -> pyarrow.RecordBatchFileReader:
    """Open an Arrow file, mapped into memory.

    Raises:
        InputError: If it is not one.
    """
    try:
        return pyarrow.ipc.open_file(pyarrow.memory_map(str(file)))
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{file}: is broken ({str(error).partition(chr(10))[0]})") from None


class PackedRows:
    """Inputs of one shape from a pack; the `inputs` of `Items`.

    Args:
        shards: The inputs as bytes.
        decode: Makes a tensor of an input's bytes and its index.
    """

    def __init__(self, shards: Shards, decode: Any) -> None:
        self.shards, self.decode = shards, decode

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, indices: Tensor) -> Tensor:
        return torch.stack([self.decode(self.shards.read(index)) for index in indices.tolist()])

    def take(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """As `FileRows.take`."""
        return self[indices], indices


def numbers(content: pyarrow.Buffer, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of an input's bytes; it is copied, since a pack cannot be written to."""
    return torch.from_numpy(numpy.frombuffer(content, dtype).reshape(shape).copy())


class Pack:
    """A data set in a pack.

    Args:
        folder: The pack.

    Attributes:
        labels: The label of each class or unit.
        preprocessing: As that of the data set.
        heard_words: As that of the data set; `None` if it has none.

    Raises:
        FileNotFoundError: If there is no pack, or one of its files is missing.
        InputError: If it is not finished, or a file has not the size that it was written with.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.description = read_description(self.folder)
        if not self.description["complete"]:
            raise InputError(f"{self.folder}: is not finished; run the same `vitspeech pack` again")
        self.labels, self.preprocessing = self.description["labels"], self.description["preprocessing"]
        self.heard_words = self.description.get("heard_words")
        for shards in self.description["splits"].values():
            for shard in shards:
                file = self.folder / shard["file"]
                if not file.is_file():
                    raise FileNotFoundError(f"{file}: is missing; the pack was written with it")
                if file.stat().st_size != shard["bytes"]:
                    raise InputError(
                        f"{file}: has {file.stat().st_size:,} bytes, not {shard['bytes']:,}; copy it again"
                    )

    def shards(self, split: str) -> Shards:
        """The inputs of a split as bytes."""
        return Shards(self.folder, self.description["splits"][split], self.description["rows_per_batch"])

    def rows(self, split: str, decode: Any = None) -> PackedRows:
        """The inputs of a split as tensors of one shape.

        Args:
            split: `train`, `validation` or `test`.
            decode: Decodes an input, if a pack of this data set holds the bytes of files.
        """
        form = self.description["input"]
        if form["kind"] == "numbers":
            decode = partial(numbers, dtype=form["dtype"], shape=tuple(form["shape"]))
        return PackedRows(self.shards(split), decode)

    def table(self, split: str) -> pyarrow.Table:
        """What describes the items of a split; columns that are not used are not read."""
        return mapped(index_file(self.folder, split)).read_all()

    def column(self, split: str, name: str) -> list[str]:
        """One description of each item."""
        return self.table(split).column(name).to_pylist()

    def item_labels(self, split: str) -> Tensor:
        """The index of each item's label (items,)."""
        return torch.from_numpy(self.table(split).column("label").to_numpy().copy())

    def speakers(self, split: str) -> list[str] | None:
        """The speaker of each item; `None` if one is unknown."""
        return None if (column := self.table(split).column("speaker")).null_count else column.to_pylist()

    def item_names(self) -> dict[str, list[str]]:
        """The names of the items of each split; empty if they have none."""
        names = {split: self.table(split).column("name") for split in self.description["splits"]}
        if any(column.null_count for column in names.values()):
            return {}
        return {split: column.to_pylist() for split, column in names.items()}

    @cached_property
    def noise(self) -> Tensor | None:
        """The noise that augmentation mixes in, int16 (N,); `None` if there is none."""
        if not (self.folder / NOISE).exists():
            return None
        content = mapped(self.folder / NOISE).get_batch(0).column(0)[0].as_buffer()
        return numbers(content, "int16", (-1,))

    def check(self, labels: list[str], preprocessing: dict[str, Any]) -> None:
        """Refuse a pack of another data set.

        Raises:
            InputError: If its labels or its preprocessing are others.
        """
        if list(labels) != self.labels:
            raise InputError(f"{self.folder}: holds the labels {some(self.labels)}; the config asks for {some(labels)}")
        for name, value in preprocessing.items():
            if self.preprocessing.get(name) != value:
                raise InputError(
                    f"{self.folder}: was packed with {name}={self.preprocessing.get(name)}; the config asks for {value}"
                )


def some(labels: list[str]) -> str:
    """The first labels in one line."""
    return ", ".join(labels[:10]) + (f" and {len(labels) - 10:,} more" if len(labels) > 10 else "")
