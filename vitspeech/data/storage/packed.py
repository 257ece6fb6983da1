"""Reading a pack: its shards are mapped into memory, so that an item is read without those before it.

Memory that is not shared: 8 bytes per item for labels. Pages of the shards belong to the system's file cache.

Shapes: B batch, N samples.
"""

import struct
from bisect import bisect_right
from collections import OrderedDict
from functools import cached_property, partial
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import torch
from torch import Tensor

from vitspeech.data.storage.format import DESCRIPTION, NOISE, SCHEMA, files_of, index_file, read_finished
from vitspeech.errors import InputError

ARROW_ERRORS = (pyarrow.ArrowException, OSError)  # what Arrow raises for a broken file
DICTIONARY = 2  # the type of a message that holds a batch as its field 1
MOST_OPEN = 256  # shards of a split in a process; many systems allow 1024 open files


class Shards:
    """The inputs of a split as bytes, by their indices. Files are opened when they are first read, in each process."""

    def __init__(self, folder: Path, shards: list[dict[str, Any]], rows_per_batch: int) -> None:
        self.files, self.rows_per_batch = [folder / shard["file"] for shard in shards], rows_per_batch
        self.ends = list(accumulate(shard["items"] for shard in shards))
        self.open: OrderedDict[int, pyarrow.RecordBatchFileReader] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"open": OrderedDict()}

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def read(self, index: int) -> memoryview:
        """The bytes of an input, which are not copied."""
        number = bisect_right(self.ends, index)
        begin = self.ends[number - 1] if number else 0
        batch, row = divmod(index - begin, self.rows_per_batch)
        try:
            columns = self.shard(number).get_batch(batch)
        except ARROW_ERRORS as error:
            raise broken(self.files[number], error) from None
        return value(columns, row, self.files[number])

    def shard(self, number: int) -> pyarrow.RecordBatchFileReader:
        """A shard, opened if it is not."""
        if number not in self.open:
            shard = mapped(self.files[number], SCHEMA)
            if len(self.open) == MOST_OPEN:
                self.open.popitem(last=False)
            self.open[number] = shard
        return self.open[number]


def value(columns: pyarrow.RecordBatch, row: int, file: Path) -> memoryview:
    """The input of a row. Offsets are checked, because Arrow would follow wrong ones out of the file."""
    _, offsets, content = columns.column(0).buffers()
    is_there = row < columns.num_rows and content is not None and offsets.size >= 8 * (row + 2)
    begin, end = memoryview(offsets)[8 * row : 8 * row + 16].cast("q") if is_there else (1, 0)
    if not 0 <= begin <= end or end > content.size:
        raise InputError(f"{file}: is broken (an item lies outside of it)")
    return memoryview(content)[begin:end]


def mapped(file: Path, schema: pyarrow.Schema | None = None) -> pyarrow.RecordBatchFileReader:
    """Open an Arrow file, mapped into memory; `schema` is what its columns must be, if it is given."""
    try:
        reader = pyarrow.ipc.open_file(pyarrow.memory_map(str(file)))
        compressed = is_compressed(file)
    except (*ARROW_ERRORS, struct.error, ValueError) as error:
        raise broken(file, error) from None
    if compressed:
        raise InputError(f"{file}: is compressed; packs are not, since a small file could then fill the memory")
    if schema is not None and not reader.schema.equals(schema):
        raise InputError(f"{file}: does not have the columns of a pack")
    return reader


def is_compressed(file: Path) -> bool:
    """Whether an Arrow file has compressed batches, which Arrow would decompress, whatever their size, to read them.

    Its footer lists the messages of the batches. Both are FlatBuffers (File.fbs and Message.fbs of Arrow), in which a
    table begins with the way back to the places of its fields.
    """
    with file.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as content:

        def number(form: str, place: int) -> int:
            return struct.unpack_from(form, content, place)[0]

        def field(table: int, index: int) -> int:
            places = table - number("<i", table)
            there = 4 + 2 * index < number("<H", places) and number("<H", places + 4 + 2 * index)
            return table + there if there else 0

        def followed(place: int) -> int:
            return place + number("<I", place)

        footer = followed(len(content) - 10 - number("<i", len(content) - 10))
        for list_of_blocks in filter(None, (field(footer, 2), field(footer, 3))):  # dictionaries, batches
            blocks = followed(list_of_blocks)
            for place in range(blocks + 4, blocks + 4 + 24 * number("<I", blocks), 24):
                begin = number("<q", place)
                message = followed(begin + (8 if number("<I", begin) == 2**32 - 1 else 4))
                batch = followed(field(message, 2))
                batch = followed(field(batch, 1)) if number("<B", field(message, 1)) == DICTIONARY else batch
                if field(batch, 3):
                    return True
    return False


def broken(file: Path, error: Exception) -> InputError:
    """What Arrow says about a file that it cannot read, in one line."""
    return InputError(f"{file}: is broken ({str(error).partition(chr(10))[0]})")


class PackedRows:
    """Inputs of one shape from a pack; the `inputs` of `TensorItems`. `decode` makes a tensor of an input's bytes."""

    def __init__(self, shards: Shards, decode: Any) -> None:
        self.shards, self.decode = shards, decode

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, indices: Tensor) -> Tensor:
        return torch.stack([self.decode(self.shards.read(index)) for index in indices.tolist()])

    def take(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """As `FileRows.take`."""
        return self[indices], indices


def numbers(content: memoryview, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of an input's bytes; it is copied, since a pack cannot be written to."""
    try:
        return torch.from_numpy(numpy.frombuffer(content, dtype).reshape(shape).copy())
    except ValueError as error:
        raise InputError(f"an item of a pack is broken ({error})") from None


class Pack:
    """A data set in a pack, with its labels, preprocessing and, if it has any, heard words."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.description = read_finished(self.folder)
        self.labels, self.preprocessing = self.description["labels"], self.description["preprocessing"]
        self.heard_words = self.description.get("heard_words")
        for name, (size, _) in files_of(self.description).items():
            file = self.folder / name
            if not file.is_file():
                raise FileNotFoundError(f"{file}: is missing; the pack was written with it")
            if (found := file.stat().st_size) != size:
                raise InputError(f"{file}: has {found:,} bytes, not {size:,}; copy it again")

    def shards(self, split: str) -> Shards:
        """The inputs of a split as bytes."""
        return Shards(self.folder, self.description["splits"][split], self.description["rows_per_batch"])

    def rows(self, split: str, decode: Any = None) -> PackedRows:
        """The inputs of a split as tensors of one shape; `decode` is for a pack that holds the bytes of files."""
        form = self.description["input"]
        if form["kind"] == "numbers":
            decode = partial(numbers, dtype=form["dtype"], shape=tuple(form["shape"]))
        return PackedRows(self.shards(split), decode)

    def table(self, split: str) -> pyarrow.Table:
        """What describes the items of a split, mapped into memory as well."""
        file = index_file(self.folder, split)
        try:
            table = mapped(file, DESCRIPTION).read_all()
            table.validate(full=True)
        except ARROW_ERRORS as error:
            raise broken(file, error) from None
        return table

    def item_labels(self, split: str) -> Tensor:
        """The index of each item's label (items,)."""
        column = self.table(split).column("label")
        return torch.from_numpy(column.to_numpy().copy())  # it is mapped into memory that cannot be written to

    def speakers(self, split: str) -> list[str] | None:
        """The speaker of each item; `None` if one is unknown."""
        return None if (column := self.table(split).column("speaker")).null_count else column.to_pylist()

    def item_names(self) -> dict[str, list[str]]:
        """The names of the items of each split but of those without one, such as silence; empty if none has one."""
        names = {split: self.table(split).column("name").drop_null() for split in self.description["splits"]}
        return {split: column.to_pylist() for split, column in names.items()} if all(map(len, names.values())) else {}

    @cached_property
    def noise(self) -> Tensor | None:
        """The noise that augmentation mixes in, int16 (N,); `None` if there is none."""
        if not (self.folder / NOISE).exists():
            return None
        try:
            content = mapped(self.folder / NOISE).get_batch(0)
        except ARROW_ERRORS as error:
            raise broken(self.folder / NOISE, error) from None
        return numbers(value(content, 0, self.folder / NOISE), "int16", (-1,))

    def check(self, labels: list[str], preprocessing: dict[str, Any]) -> None:
        """Refuse a pack of another data set."""
        asked, packed = {"labels": list(labels)} | preprocessing, {"labels": self.labels} | self.preprocessing
        self.compare({name: packed.get(name) for name in asked}, asked)

    def check_arguments(self, arguments: dict[str, Any]) -> None:
        """Refuse a pack of other items than the arguments in a config ask for: a card names those."""
        self.compare(self.description["data"].get("init_args", {}), arguments)

    def compare(self, packed: dict[str, Any], asked: dict[str, Any]) -> None:
        """Refuse a pack that was written with another value of something that is asked for."""
        for name, value in packed.items():
            if (other := asked.get(name, value)) != value:
                raise InputError(
                    f"{self.folder}: was packed with {name}={value!s:.200}; the config asks for {other!s:.200}"
                )
