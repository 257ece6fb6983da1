"""Tables that scripts write."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path


def write_csv(file: Path, columns: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Write a table that is there as a whole or not at all, also where making the rows fails halfway."""
    draft = file.with_name(file.name + ".draft")
    try:
        with draft.open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(columns)
            writer.writerows(rows)
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)
