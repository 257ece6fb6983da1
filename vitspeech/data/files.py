"""Files that were named, and what lies in folders that were named."""

from collections.abc import Collection, Iterable
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
