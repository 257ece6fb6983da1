"""Tables as CSV or Parquet: their columns, and writing a whole table at once.

Tables that grow row by row while their inputs are worked on, and can be resumed after an interruption.

Until it is whole, such a table is kept beside its place, where an older table stays until the end:

rows.csv.partial        the rows so far
rows.csv.partial.json   the state: what the rows are made from, the inputs done, and the size of the file then
rows.parquet.parts/     the same for Parquet: files with some of the rows each, and `state.json`

Tables that grow, as CSV and as Parquet.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitspeech.files import replacing

if TYPE_CHECKING:
    import pyarrow

import json
import os
import shutil
import stat
import time

from vitspeech.data.locks import lock
from vitspeech.errors import InputError
from vitspeech.files import check_target, read_json, sync

Columns = Mapping[str, str]  # names with formats: "" for text, "d" for integers, and such as ".6f" for numbers in CSV
Row = Sequence[Any]  # one value for each column; `None` is an empty cell
PARQUET = ".parquet"
GROUP_ROWS = 2**16  # of a row group: a reader holds one in memory, and skips others


def write_table(path: Path, columns: Columns, rows: Iterable[Row]) -> None:
    """Write a table atomically: Parquet if the name ends with `.parquet`, else CSV.

    Args:
        path: The file; an older one is replaced at the end.
        columns: Their names and formats.
        rows: Its rows.
    """
    rows = iter(rows)
    with replacing(path) as draft:
        if path.suffix.lower() == PARQUET:
            groups = iter(lambda: list(islice(rows, GROUP_ROWS)), [])
            write_parquet(draft, columns, (to_arrow(columns, group) for group in groups))
        else:
            with draft.open("wb") as file:
                file.write(to_csv([columns]))
                file.writelines(to_csv([formatted(columns, row)]) for row in rows)


def formatted(columns: Columns, row: Row) -> list[str]:
    """The cells of a row as text."""
    cells = zip(row, columns.values(), strict=True)
    return ["" if value is None else format(value, form) if form else str(value) for value, form in cells]


def to_csv(rows: Iterable[Iterable[str]]) -> bytes:
    """Rows as lines of CSV; bytes of file names that are not UTF-8 become `\\udcff`."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def to_arrow(columns: Columns, rows: Sequence[Row]) -> "pyarrow.Table":
    """Rows as a table of Arrow: text as in `to_csv`, integers of 64 bits, and numbers that are not rounded."""
    import pyarrow

    schema, arrays = arrow_schema(columns), []
    for index, (form, field) in enumerate(zip(columns.values(), schema, strict=True)):
        values = [row[index] for row in rows]
        arrays.append(pyarrow.array(values if form else map(to_text, values), field.type))
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def to_text(value: Any) -> str | None:
    """A value as text that is UTF-8; bytes of file names that are not become `\\udcff`."""
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode()


def arrow_schema(columns: Columns) -> "pyarrow.Schema":
    """The types of the columns by their formats: text, integers or numbers."""
    import pyarrow

    types = {"": pyarrow.string(), "d": pyarrow.int64()}
    return pyarrow.schema([(name, types.get(form, pyarrow.float64())) for name, form in columns.items()])


def write_parquet(path: Path, columns: Columns, tables: Iterable["pyarrow.Table"]) -> None:
    """Write tables, of any number of rows each, to one Parquet file, whose row groups have `GROUP_ROWS` rows each.

    The bytes of the file depend on the rows alone, not on how they are split into tables.
    """
    import pyarrow
    from pyarrow import parquet

    schema = arrow_schema(columns)
    with parquet.ParquetWriter(path, schema) as writer:
        rest = schema.empty_table()
        for table in tables:
            rest = pyarrow.concat_tables([rest, table.cast(schema)])
            while rest.num_rows >= GROUP_ROWS:
                writer.write_table(rest[:GROUP_ROWS].combine_chunks(), GROUP_ROWS)
                rest = rest[GROUP_ROWS:]
        if rest.num_rows:
            writer.write_table(rest.combine_chunks(), GROUP_ROWS)


STATE = {"run": dict, "inputs": int, "last": str, "unread": int, "size": int}


class GrowingTable:
    """A table to which the rows of one input after the other are added; a context that ends with the whole table.

    Rows are written after each batch of inputs. If the context ends with an error, or the process is killed, they stay
    beside the table's place and can be resumed; an error before the first whole batch leaves nothing.

    Args:
        path: The table.
        columns: Their names and formats; see `data.tables`.
        run: What the rows are made from: names with strings or numbers. They must be the same to resume.
        batch: Inputs whose rows are written together.
        resume: Go on with the rows that an interrupted run left.

    Attributes:
        done: Number of inputs whose rows are written: whole batches.
        last: The name of the last one of them.
        unread: Number of inputs that could not be read, of all that were added.
        body: Where the rows are until the table is whole.

    Raises:
        InputError: If there are rows of an interrupted run and `resume` is false, or there are none and it is true, or
            they are of another `run`, or another process is writing them.
    """

    ending = ".partial"  # of the body
    save_s = 1.0  # the state is saved again after that many seconds: so much work is lost at most
    is_body = staticmethod(stat.S_ISREG)

    def __init__(
        self, path: Path, columns: Columns, run: Mapping[str, Any], *, batch: int, resume: bool = False
    ) -> None:
        self.path, self.columns, self.run, self.batch = path, columns, dict(run), batch
        self.target = check_target(path)
        self.body = self.target.with_name(self.target.name + self.ending)
        self.rows: list[Row] = []  # of a batch that is not whole
        self.added, self.unread, self.saved_s = 0, 0, time.monotonic()
        self.done, self.last, self.done_unread, self.size = 0, "", 0, 0
        self.file: int | None = None
        self.writing = False  # while the rows and `done` may not fit each other
        if os.path.lexists(self.body) != resume:
            raise InputError(
                f"{self.body}: does not exist, so there is nothing to resume; leave out --resume"
                if resume
                else f"{self.body}: was left by an interrupted run; go on with --resume, or remove it to start over"
            )
        try:
            if not resume:
                self.state.unlink(missing_ok=True)
                self.create()
            self.open()
            if self.state.exists():
                self.read_state()
                self.cut()
            else:  # also of a run that was killed before it had one
                self.clear()
                self.save()
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> Path:
        """The file with the state."""
        return self.body.with_name(f"{self.body.name}.json")

    def add(self, name: object, rows: Sequence[Row], *, unread: bool = False) -> None:
        """Add the rows of the next input.

        Args:
            name: The input's name, such as that of a file.
            rows: Its rows.
            unread: Whether it could not be read.
        """
        self.rows += rows
        self.added += 1
        self.unread += unread
        if self.added % self.batch == 0:
            self.writing = True
            self.write()
            self.done, self.last, self.done_unread = self.added, str(name), self.unread
            if self.is_due():
                self.save()
            self.writing = False

    def __enter__(self) -> "GrowingTable":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                self.write()
                self.sync()
                self.finish()
            if error is None or not self.done:
                self.remove()
            elif not self.writing:  # otherwise, the state that was saved before is the right one
                self.save()
        finally:
            self.close()
        if kind is KeyboardInterrupt and self.done:
            raise KeyboardInterrupt(f"{self.body} has the rows of {self.done:,} inputs; go on with --resume") from None

    def open(self) -> None:
        """Open the body, and exclude other processes until it is closed.

        Raises:
            InputError: If another process has it open, or it is not what a run leaves.
        """
        if not self.is_body(os.lstat(self.body).st_mode):
            raise InputError(f"{self.body}: is not what an interrupted run leaves; rename or remove it")
        self.file = os.open(self.body, os.O_NOFOLLOW | (os.O_RDONLY if self.body.is_dir() else os.O_RDWR))
        lock(self.file, self.body)

    def close(self) -> None:
        """Close the body."""
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def is_due(self) -> bool:
        """Whether it is time to save the state."""
        return time.monotonic() - self.saved_s >= self.save_s

    def save(self) -> None:
        """Write the state, after the rows are on the disk."""
        self.sync()
        done = {"inputs": self.done, "last": self.last, "unread": self.done_unread, "size": self.size}
        draft = self.state.with_name(f"{self.state.name}.new")
        draft.write_text(json.dumps({"run": self.run} | done, indent=2) + "\n")
        sync(draft)
        os.replace(draft, self.state)
        self.saved_s = time.monotonic()

    def read_state(self) -> None:
        """Take over the state of an interrupted run.

        Raises:
            InputError: If it is broken, or that of another run.
        """
        state = read_json(self.state)
        sound = isinstance(state, dict) and all(isinstance(state.get(key), kind) for key, kind in STATE.items())
        if not sound or min(state["inputs"], state["unread"], state["size"]) < 0:
            raise InputError(f"{self.state}: is not the state of an interrupted run; remove {self.body} to start over")
        for name in {**self.run, **state["run"]}:
            was, now = state["run"].get(name), self.run.get(name)
            if was != now:
                change = f"{name} was {was}, and is {now} now" if len(f"{was}{now}") < 60 else f"{name} was another"
                raise InputError(
                    f"{self.body}: cannot be resumed: {change}; repeat the command as it was, or remove the file to "
                    "start over"
                )
        self.done = self.added = state["inputs"]
        self.unread = self.done_unread = state["unread"]
        self.last, self.size = state["last"], state["size"]

    def create(self) -> None:
        """Create the body."""
        raise NotImplementedError

    def clear(self) -> None:
        """Make of it a body without rows."""
        raise NotImplementedError

    def cut(self) -> None:
        """Remove from the body what was written after the state was saved.

        Raises:
            InputError: If something is missing.
        """
        raise NotImplementedError

    def write(self) -> None:
        """Write `rows`, which are those of a whole batch or the last ones, and empty it."""
        raise NotImplementedError

    def sync(self) -> None:
        """Wait until what was written is on the disk; `size` is its size."""
        raise NotImplementedError

    def finish(self) -> None:
        """Put the whole table in its place."""
        raise NotImplementedError

    def remove(self) -> None:
        """Remove the body and the state."""
        self.body.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)


class GrowingCsv(GrowingTable):
    """CSV: the body is a file, which becomes the table."""

    def create(self) -> None:
        self.body.open("xb").close()

    def clear(self) -> None:
        os.ftruncate(self.file, 0)
        self.size = os.pwrite(self.file, to_csv([self.columns]), 0)

    def cut(self) -> None:
        if os.fstat(self.file).st_size < self.size:
            raise InputError(f"{self.body}: is shorter than {self.size:,} bytes; remove it to start over")
        os.ftruncate(self.file, self.size)

    def write(self) -> None:
        lines, end = to_csv(formatted(self.columns, row) for row in self.rows), self.size
        while lines:
            written = os.pwrite(self.file, lines, end)
            end, lines = end + written, lines[written:]
        self.size = end
        self.rows.clear()

    def sync(self) -> None:
        os.fsync(self.file)

    def finish(self) -> None:
        if self.target.exists():
            os.fchmod(self.file, stat.S_IMODE(self.target.stat().st_mode))
        os.replace(self.body, self.target)


class GrowingParquet(GrowingTable):
    """Parquet: the body is a folder of files, which are joined at the end."""

    ending = ".parts"
    save_s = 10.0  # a file each
    is_body = staticmethod(stat.S_ISDIR)

    def __init__(self, path: Path, columns: Columns, run: Mapping[str, Any], **options: Any) -> None:
        self.waiting: list[Row] = []  # for the next file
        super().__init__(path, columns, run, **options)

    @property
    def state(self) -> Path:
        return self.body / "state.json"

    def part(self, number: int) -> Path:
        """One of the files."""
        return self.body / f"{number:06}.parquet"

    def create(self) -> None:
        self.body.mkdir()

    def clear(self) -> None:
        self.size = 0

    def cut(self) -> None:
        missing = [part for part in map(self.part, range(self.size)) if not part.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: is missing; remove {self.body} to start over")

    def write(self) -> None:
        self.waiting += self.rows
        self.rows.clear()

    def is_due(self) -> bool:
        return len(self.waiting) >= GROUP_ROWS or super().is_due()

    def sync(self) -> None:
        if self.waiting:
            write_parquet(self.part(self.size), self.columns, [to_arrow(self.columns, self.waiting)])
            sync(self.part(self.size))
            self.size += 1
            self.waiting.clear()

    def finish(self) -> None:
        from pyarrow import parquet

        with replacing(self.target) as draft:
            parts = map(self.part, range(self.size))
            write_parquet(draft, self.columns, (parquet.read_table(part, use_threads=False) for part in parts))

    def remove(self) -> None:
        self.state.unlink(missing_ok=True)  # first: without it, a body is one without rows
        shutil.rmtree(self.body, ignore_errors=True)


def open_table(
    path: Path, columns: Columns, run: Mapping[str, Any], *, batch: int, resume: bool = False
) -> GrowingTable:
    """A table that grows: Parquet if the name ends with `.parquet`, else CSV; see `GrowingTable`."""
    kind = GrowingParquet if path.suffix.lower() == PARQUET else GrowingCsv
    return kind(path, columns, run, batch=batch, resume=resume)
