"""One file of a pack: an Arrow IPC file of record batches of the same number of rows, mapped into memory.

Shapes: A Arrow file has the columns `input` (bytes), `label` (integer) or `transcript` (text), `speaker`, `name` and,
of sound, `samples`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow

from vitspeech.errors import InputError


class Row(NamedTuple):
    """One item as it is packed.

    Attributes:
        input: The bytes of its tensor or of its file.
        target: Its label's index or its transcript.
        speaker: Who speaks, if known.
        name: Its name, if it has one.
        samples: Its length, if it is sound.
    """

    input: bytes
    target: int | str
    speaker: str | None
    name: str | None
    samples: int | None


def row_schema(width: int | None, target: str, *, sound: bool) -> pyarrow.Schema:
    """The columns of a shard.

    Args:
        width: Bytes of every input; `None` if they differ.
        target: `label` or `transcript`.
        sound: Whether the items are sound.
    """
    columns = {
        "input": pyarrow.large_binary() if width is None else pyarrow.binary(width),
        target: pyarrow.string() if target == "transcript" else pyarrow.int64(),
        "speaker": pyarrow.string(),
        "name": pyarrow.string(),
        **({"samples": pyarrow.int64()} if sound else {}),
    }
    return pyarrow.schema(list(columns.items()))


def write_shard(path: Path, schema: pyarrow.Schema, batches: Iterable[Sequence[Row]]) -> int:
    """Write a shard batch by batch, and return its number of rows. The same rows give the same bytes."""
    count = 0
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
        for rows in batches:
            columns = list(zip(*rows, strict=True))[: len(schema)]
            arrays = [pyarrow.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
            count += len(rows)
    return count


class Shard:
    """An open shard.

    Args:
        path: The Arrow file.
        rows: The rows that it must have.
        rows_per_batch: Rows of each record batch but the last.

    Raises:
        InputError: If it cannot be read or has other rows.
    """

    def __init__(self, path: Path, rows: int, rows_per_batch: int) -> None:
        self.path, self.rows, self.rows_per_batch = path, rows, rows_per_batch
        try:
            self.reader = pyarrow.ipc.open_file(pyarrow.memory_map(str(path)))
            batches = self.reader.num_record_batches
            last = self.reader.get_batch(batches - 1).num_rows if batches else 0
        except pyarrow.ArrowInvalid as error:
            raise InputError(f"{path}: not a shard that can be read ({str(error).splitlines()[0]})") from None
        found = max(batches - 1, 0) * rows_per_batch + last
        if found != rows:
            raise InputError(f"{path}: has {found:,} rows, and pack.json states {rows:,}")

    def content(self, row: int) -> memoryview:
        """The bytes of a row's input, without a copy.

        Raises:
            InputError: If the file contradicts itself.
        """
        batch = self.reader.get_batch(row // self.rows_per_batch)
        row %= self.rows_per_batch
        column = batch.column(0)
        if pyarrow.types.is_large_binary(column.type):
            _, offsets, data = column.buffers()
            start, end = memoryview(offsets).cast("q")[row : row + 2]
        else:
            data = column.buffers()[1]
            start, end = row * column.type.byte_width, (row + 1) * column.type.byte_width
        if not (row < batch.num_rows and 0 <= start <= end <= data.size):
            raise InputError(f"{self.path}: its row {row:,} is not inside of it")
        return memoryview(data)[start:end]

    def value(self, column: str, row: int) -> Any:
        """A value of a column; `None` if it is missing."""
        batch = self.reader.get_batch(row // self.rows_per_batch)
        return batch.column(column)[row % self.rows_per_batch].as_py()

    def arrays(self, column: str) -> Iterator[pyarrow.Array]:
        """A column, record batch by record batch.

        Raises:
            InputError: If there is no such column, or the batches have other rows than they should have.
        """
        if column not in self.reader.schema.names:
            raise InputError(f"{self.path}: has no column {column!r}")
        for number in range(self.reader.num_record_batches):
            array = self.reader.get_batch(number).column(column)
            expected = min(self.rows_per_batch, self.rows - number * self.rows_per_batch)
            if len(array) != expected:
                raise InputError(f"{self.path}: its part {number:,} has {len(array):,} rows, not {expected:,}")
            yield array
