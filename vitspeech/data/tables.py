"""Tables as CSV or Parquet: their columns, and writing a whole table at once."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitspeech.writing import replacing

if TYPE_CHECKING:
    import pyarrow

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
