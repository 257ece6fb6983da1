"""Finding the files that a user names, and writing files whole or not at all."""

import csv
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path


def find_files(paths: Iterable[str | Path], endings: Collection[str], kind: str) -> list[Path]:
    """The files named, and in each folder named all below it with one of the endings, in order of their names.

    Args:
        paths: Files and folders.
        endings: Of the files looked for, with the dot, in small letters.
        kind: What such a file is called in a message.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no such file.
    """
    found = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in endings and file.is_file())
            if not inside:
                raise FileNotFoundError(f"{path}: no {kind} in this folder ({', '.join(sorted(endings))})")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise FileNotFoundError(f"{path}: no such file or folder")
    return found


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
