"""CSV files that name recordings and what is said in them: read line by line, so that a message can name the line."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path


def rows_of(listing: Path, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Of each row: the file and line that name it, for messages, and its fields in those columns, in their order.

    Raises:
        ValueError: If a column is missing, there are no rows, or one has an empty field or not as many as the header.
    """
    lines = fields_of(listing)
    place, header = next(lines, (f"{listing}: line 1", []))
    for column in columns:
        if column not in header:
            raise ValueError(f"{place}: no column {column!r}; the header must name {' and '.join(columns)}")
    rows = 0
    for place, fields in lines:
        if len(fields) != len(header):
            raise ValueError(f"{place}: {len(fields)} fields, but {len(header)} in the header; quote one with a comma")
        row = dict(zip(header, fields, strict=True))
        for column in columns:
            if not row[column]:
                raise ValueError(f"{place}: empty {column}")
        rows += 1
        yield place, [row[column] for column in columns]
    if not rows:
        raise ValueError(f"{listing}: no rows below the header")


def fields_of(listing: Path) -> Iterator[tuple[str, list[str]]]:
    """The fields of each line of a CSV that is not blank, and the line's file and number.

    Raises:
        ValueError: If it is not UTF-8, or a quote is open at the end of a line.
    """
    content = listing.read_bytes()
    try:
        text = content.decode("utf-8-sig")  # Excel begins UTF-8 with a mark
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{listing}: line {line}: not UTF-8") from None
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        place = f"{listing}: line {number}"
        try:
            # Line by line, for an open quote must not take the lines below it into its field.
            fields = next(csv.reader([line], skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise ValueError(f"{place}: {error} (a quote that is not closed?)") from None
        if line.strip():
            yield place, [field.strip() for field in fields]
