"""Finding the files that a user names, writing tables, texts and JSON files atomically, and their checksums."""

import csv
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vitspeech.errors import InputError
from vitspeech.writing import replacing


def find_files(paths: Iterable[str | Path], endings: Collection[str], kind: str) -> list[Path]:
    """The files of `walk_files` as a list."""
    return list(walk_files(paths, endings, kind))


def walk_files(paths: Iterable[str | Path], endings: Collection[str], kind: str) -> Iterator[Path]:
    """The named files, and all files with one of the endings in the named folders, in the order of the paths.

    A folder is listed when its turn comes, so that the first files of a large tree are there at once. Before the first
    file, every path is checked: it exists, and a folder is searched until it gives one file.

    Args:
        paths: Files and folders; folders are walked by `walk_folder`.
        endings: File name endings to look for, with the dot, in lower case.
        kind: What such a file is called in an error message.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no such file.
    """
    paths = [Path(path) for path in paths]
    for path in paths:
        if path.is_dir():
            if next(walk_folder(path, endings), None) is None:
                raise FileNotFoundError(f"{path}: no {kind} in this folder ({', '.join(sorted(endings))})")
        elif not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
    for path in paths:
        if path.is_dir():
            yield from walk_folder(path, endings)
        else:
            yield path


def files_below(folder: Path, endings: Collection[str]) -> list[Path]:
    """The files of `walk_folder` as a list."""
    return list(walk_folder(folder, endings))


def walk_folder(folder: Path, endings: Collection[str]) -> Iterator[Path]:
    """The files with one of the endings below a folder, sorted by path; hidden files are left out.

    The files and folders in a folder are sorted by name together, which is the order of sorted paths. Links to folders
    are followed where they stand. Each folder is entered once: a link is left out if it leads above the folder, or to a
    place inside it, which the walk reaches anyway, or to the target of an earlier link. The names in one folder and in
    those above it are in memory at a time.
    """
    above = {str(parent) for parent in folder.resolve().parents}
    reached = [os.path.realpath(folder)]  # and where links led to; everything below these is walked
    listings = [list_folder(folder, endings)]
    while listings:
        path, is_folder = next(listings[-1], (None, False))
        if path is None:
            listings.pop()
        elif not is_folder:
            yield path
        elif path.is_symlink():
            real = os.path.realpath(path)
            if real not in above and not any(Path(real).is_relative_to(other) for other in reached):
                reached.append(real)
                listings.append(list_folder(path, endings))
        elif len(reached) == 1 or os.path.realpath(path) not in reached:
            listings.append(list_folder(path, endings))


def list_folder(folder: Path, endings: Collection[str]) -> Iterator[tuple[Path, bool]]:
    """The folders, and the files with one of the endings, directly in a folder, sorted by name; none if it is locked.

    Returns:
        Each path, and whether it is a folder.
    """
    names, folders = [], set()
    with suppress(PermissionError, FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            # On foreign disks and in archives, macOS adds a file ._NAME.wav, not a recording, to each NAME.wav.
            wanted = entry.name[0] != "." and os.path.splitext(entry.name)[1].lower() in endings
            with suppress(OSError):  # a loop of links
                if entry.is_dir():
                    folders.add(entry.name)
                    names.append(entry.name)
                elif wanted and entry.is_file():
                    names.append(entry.name)
    names.sort(reverse=True)
    while names:
        name = names.pop()  # frees the memory of what has been walked
        yield folder / name, name in folders


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
    """Write a UTF-8 text file atomically; bytes of file names that are not UTF-8 become escapes, as in `write_csv`."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")


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
