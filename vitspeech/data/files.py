"""Finding the files that a user names, writing tables, texts and JSON files atomically, and their checksums."""

import csv
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from vitspeech.errors import InputError
from vitspeech.writing import replacing


def find_files(paths: Iterable[str | Path], endings: Collection[str], kind: str) -> list[Path]:
    """The named files, and all files with one of the endings in the named folders, sorted by name.

    Args:
        paths: Files and folders; folders are searched by `files_below`.
        endings: File name endings to look for, with the dot, in lower case.
        kind: What such a file is called in an error message.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no such file.
    """
    files = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = files_below(path, endings)
            if not inside:
                raise FileNotFoundError(f"{path}: no {kind} in this folder ({', '.join(sorted(endings))})")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise FileNotFoundError(f"{path}: no such file or folder")
    return files


def files_below(folder: Path, endings: Collection[str]) -> list[Path]:
    """The files with one of the endings below a folder, sorted by path; hidden files are left out.

    Links to folders are followed, each folder is entered once, and its own path goes before a link to it.
    """
    entered, files, links = {str(above) for above in folder.resolve().parents}, [], [folder]
    for link in links:  # grows
        for inside, names, file_names in os.walk(link):
            if (real := os.path.realpath(inside)) in entered:
                names.clear()
                continue
            entered.add(real)
            names.sort()
            links += [path for path in (Path(inside, name) for name in names) if path.is_symlink()]
            # On foreign disks and in archives, macOS adds a file ._NAME.wav, not a recording, to each NAME.wav.
            found = (Path(inside, name) for name in file_names if name[0] != ".")
            files += [file for file in found if file.suffix.lower() in endings and file.is_file()]
    return sorted(files)


def check_regular(path: Path) -> None:
    """Refuse what cannot be read as a file: a pipe would be waited for, and a device may be endless.

    Raises:
        FileNotFoundError: If it does not exist.
        InputError: If it is a folder, a device or a pipe, or empty.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: not a regular file")
    if status.st_size == 0:
        raise InputError(f"{path}: empty (0 bytes)")


def write_text(text: str, path: str | Path) -> None:
    """Write a text file atomically."""
    with replacing(path) as draft:
        draft.write_text(text)


def write_json(value: Any, path: str | Path) -> None:
    """Write a JSON file with indentation, atomically; the folder is created if it is missing."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", path)


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Write a table atomically: an error raised while the rows are produced leaves `path` unchanged.

    Bytes of file names that are not UTF-8 are written as `\\udcff`.
    """
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def sha256(path: str | Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
