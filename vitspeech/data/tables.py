"""Tables as CSV or Parquet, by the ending of the name: written at once, or input by input and resumed.

Until it is whole, a table that grows is kept in `NAME.partial` beside its place, where an older table stays until the
end. The first line says what the rows are made from; each other line has the rows of a batch of inputs, as JSON. A line
that was cut short by a kill is dropped.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any

from vitspeech.errors import InputError
from vitspeech.files import check_target, lock_beside, replacing, unlock, write_csv, write_text

Columns = Mapping[str, str]  # names with formats: "" for text, "d" for integers, and such as ".6f" for numbers in CSV
Row = Sequence[Any]  # one value for each column; `None` is an empty cell
PARQUET = ".parquet"
GROUP_ROWS = 2**16  # of a row group: a reader holds one in memory, and skips others
KINDS = {"": str, "d": int}  # of values, by the format of their column; others are floats


def write_table(path: Path, columns: Columns, rows: Iterable[Row]) -> None:
    """Write a table atomically; an older one is replaced at the end.

    In CSV, numbers are in the format of their column; in Parquet they are not rounded. Bytes of file names that are not
    UTF-8 become `\\udcff`.
    """
    rows = iter(rows)
    if path.suffix.lower() != PARQUET:
        write_csv(path, list(columns), (formatted(columns, row) for row in rows))
        return
    import pyarrow
    from pyarrow import parquet

    types = {"": pyarrow.string(), "d": pyarrow.int64()}
    schema = pyarrow.schema([(name, types.get(form, pyarrow.float64())) for name, form in columns.items()])
    with replacing(path) as draft, parquet.ParquetWriter(draft, schema) as writer:
        while group := list(islice(rows, GROUP_ROWS)):
            cells = zip(columns.items(), zip(*group, strict=True), strict=True)
            arrays = [values if form else list(map(to_text, values)) for (_, form), values in cells]
            writer.write_table(pyarrow.table(list(map(pyarrow.array, arrays, schema.types)), schema=schema), GROUP_ROWS)


def formatted(columns: Columns, row: Row) -> list[str]:
    """The cells of a row as text."""
    cells = zip(row, columns.values(), strict=True)
    return ["" if value is None else format(value, form) if form else str(value) for value, form in cells]


def to_text(value: Any) -> str | None:
    """A value as text that is UTF-8; bytes of file names that are not become `\\udcff`."""
    return None if value is None else str(value).encode("utf-8", "names").decode()


class GrowingTable:
    """A table to which the rows of one input after the other are added; a context that ends with the whole table.

    If the context ends with an error, or the process is killed, the rows of whole batches stay in `partial` and can be
    resumed; an error before the first whole batch leaves nothing.

    `run` says what the rows are made from, by names with strings or numbers, which must be the same to resume. The rows
    of `batch` inputs are written together; `done` inputs are written, and `last` is the name of the last one of them.
    Of all that were added, `unread` could not be read.
    """

    def __init__(
        self, path: Path, columns: Columns, run: Mapping[str, Any], *, batch: int, resume: bool = False
    ) -> None:
        self.path, self.columns, self.run, self.batch = path, columns, dict(run), batch
        self.target = check_target(path)
        self.partial = self.target.with_name(f"{self.target.name}.partial")
        self.rows: list[Row] = []  # of a batch that is not whole
        self.added, self.done, self.last, self.unread = 0, 0, "", 0
        self.closing = ExitStack()
        self.closing.callback(unlock, lock_beside(self.partial))
        try:
            if os.path.lexists(self.partial) != resume:
                raise InputError(
                    f"{self.partial}: does not exist, so there is nothing to resume; leave out --resume"
                    if resume
                    else f"{self.partial}: was left by an interrupted run; go on with --resume, or remove it to start "
                    "over"
                )
            if not resume:
                write_text(json.dumps(self.run) + "\n", self.partial)
            self.file = self.closing.enter_context(self.partial.open("r+b"))
            self.read_partial()
        except BaseException:
            self.closing.close()
            raise

    def read_partial(self) -> None:
        """Take over the rows of an interrupted run, up to the last whole line; those of a new one are none."""
        lines = self.lines()
        run = next(lines, None)
        if not isinstance(run, dict):
            raise InputError(f"{self.partial}: is not what an interrupted run leaves; remove it to start over")
        for name in {**self.run, **run}:
            was, now = run.get(name), self.run.get(name)
            if was != now:
                change = f"{name} was {was}, and is {now} now" if len(f"{was}{now}") < 60 else f"{name} was another"
                raise InputError(
                    f"{self.partial}: cannot be resumed: {change}; repeat the command as it was, or remove the file to "
                    "start over"
                )
        end = self.file.tell()
        for done, last, unread, _ in lines:
            self.done, self.last, self.unread, end = done, last, unread, self.file.tell()
        self.added = self.done
        self.file.truncate(end)
        self.file.seek(end)

    def lines(self) -> Iterator[Any]:
        """The lines from the beginning, up to one that is not whole."""
        self.file.seek(0)
        while (line := self.file.readline()).endswith(b"\n"):
            try:
                yield json.loads(line)
            except ValueError:  # after a power failure, zeros
                return

    def add(self, name: object, rows: Sequence[Row], *, unread: bool = False) -> None:
        """Add the rows of the next input, which has a name, such as that of a file, and may be `unread`."""
        kinds = [KINDS.get(form, float) for form in self.columns.values()]
        self.rows += [
            [None if value is None else kind(value) for value, kind in zip(row, kinds, strict=True)] for row in rows
        ]
        self.added += 1
        self.unread += unread
        if self.added % self.batch == 0:
            self.file.write(json.dumps([self.added, str(name), self.unread, self.rows]).encode() + b"\n")
            self.file.flush()
            self.done, self.last, self.rows = self.added, str(name), []

    def __enter__(self) -> "GrowingTable":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                batches = (rows for *_, rows in islice(self.lines(), 1, None))
                write_table(self.target, self.columns, chain.from_iterable(chain(batches, [self.rows])))
            if error is None or not self.done:
                self.partial.unlink(missing_ok=True)
        finally:
            self.closing.close()
        if kind is KeyboardInterrupt and self.done:
            raise KeyboardInterrupt(
                f"{self.partial} has the rows of {self.done:,} inputs; go on with --resume"
            ) from None
