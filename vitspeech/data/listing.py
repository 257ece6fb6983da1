"""CSV files that list recordings with their labels or transcripts, read line by line so that errors name the line."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from vitspeech.errors import InputError


def read_rows(
    listing: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, list[str | None]]]:
    """Yield (location, fields) for each row: "FILE: line NUMBER" for messages, and the row's fields in `columns`.

    Args:
        listing: The CSV file.
        columns: Columns that it must have.
        optional: Columns whose fields follow; they are `None` if the file has no such column.
    """
    lines = read_fields(listing)
    location, header = next(lines, (f"{listing}: line 1", []))
    for column in columns:
        if column not in header:
            commas = ", separated by commas" if len(header) == 1 and re.search(r"[;\t]", header[0]) else ""
            raise InputError(f"{location}: no column {column!r}; the header must name {' and '.join(columns)}{commas}")
    rows = 0
    for location, fields in lines:
        if len(fields) != len(header):
            raise InputError(
                f"{location}: {len(fields)} fields, but {len(header)} in the header; quote fields that contain a comma"
            )
        row = dict(zip(header, fields, strict=True))
        for column in (*columns, *optional):
            if column in row and not row[column]:
                raise InputError(f"{location}: empty {column}")
        rows += 1
        yield location, [row.get(column) for column in (*columns, *optional)]
    if not rows:
        raise InputError(f"{listing}: no rows below the header")


def read_fields(listing: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (location, fields) for each line of a CSV file that is not blank."""
    content = listing.read_bytes()
    try:
        text = content.decode("utf-8-sig")  # Excel writes a byte order mark
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{listing}: line {line}: not UTF-8") from None
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        location = f"{listing}: line {number}"
        try:
            # Parsed line by line, so that an unclosed quote does not swallow the lines below it.
            fields = next(csv.reader([line], skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise InputError(f"{location}: {error} (a quote that is not closed?)") from None
        if line.strip():
            yield location, [field.strip() for field in fields]
