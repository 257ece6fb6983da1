"""Finding the files that a user names, writing files atomically, and reading text that others may have written.

YAML and JSON are read in bounded time and memory, with errors of one line: files that are not regular, larger than
`MOST_BYTES` or not UTF-8, duplicate keys, nesting deeper than `DEEPEST`, YAML aliases, and numbers that JSON does not
have are refused. A message names the file and the line, and quotes no lines of the file.
"""

import codecs
import csv
import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from vitspeech.errors import InputError
from vitspeech.json_text import DEEPEST, LONGEST_NUMBER, TOO_DEEP, parse_json


def encode_names(error: UnicodeError) -> tuple[bytes, int]:
    """Names of files in a UTF-8 text: as UTF-8, whatever the locale's encoding is; other bytes become `\\udcff`."""
    names = error.object[error.start : error.end].encode("utf-8", "surrogateescape")
    return names.decode("utf-8", "surrogateescape").encode("utf-8", "backslashreplace"), error.end


codecs.register_error("names", encode_names)


def check_target(path: str | Path, option: str = "") -> Path:
    """Check that a file can be written or replaced, before the work is done.

    Args:
        path: The file, or a symbolic link to it.
        option: The option that names it, for messages, such as "--out".

    Returns:
        The file itself: a symbolic link is followed, also to a file that does not exist yet.
    """
    name = f"{option} {path}" if option else str(path)
    try:
        mode = os.stat(path).st_mode  # not of the resolved path: the kernel resolves /dev/stdout to a pipe or terminal
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error.strerror}") from None
    if mode is not None and not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or another special file"
        raise InputError(f"{name}: is {kind}, not a regular file; name another file")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{name}: the folder {target.parent} does not exist")
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(f"{name}: the file is not writable")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{name}: the folder {target.parent} is not writable")
    return target


@contextmanager
def replacing(path: str | Path, keep: str | Path | None = None) -> Iterator[Path]:
    """Yield a draft to write to; it replaces the file at the end, and is removed if an error is raised.

    A reader, or a run killed in the middle, never meets half a file. The draft has a name of its own beside the file,
    so that two processes that write the same file do not disturb each other: the last one wins. A symbolic link stays,
    and the file that it leads to is replaced; a file keeps its permissions.

    Args:
        path: The file, or a symbolic link to it.
        keep: Where the file that is replaced is moved, once the draft is on the disk; `None` does not keep it.
    """
    target = check_target(path)
    draft = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.draft")
    draft.touch(exist_ok=False)  # O_EXCL: never through a link that somebody put there
    try:
        mode = (target if target.exists() else draft).stat().st_mode
        yield draft
        draft.chmod(stat.S_IMODE(mode))
        sync(draft)
        if keep is not None:
            with suppress(FileNotFoundError):  # somebody has moved it
                os.replace(target, keep)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def check_new(folder: Path) -> None:
    """Refuse a folder that exists, also as a link that leads nowhere."""
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(f"{folder}: exists; name a new folder")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder beside a new one, which it becomes once it is written; nothing is left if that fails."""
    check_new(folder)
    above = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}.", suffix=".draft", dir=folder.parent))
    draft.chmod(0o755)  # it is made readable by its owner alone
    try:
        yield draft
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):  # somebody else has put something there
            for parent in above:
                parent.rmdir()
        raise


def lock_beside(path: Path) -> FileLock:
    """Lock a file or folder against other processes by a file beside it, until `unlock`."""
    path = path.absolute()
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"{path}: another process is writing it") from None
    return lock


def unlock(lock: FileLock) -> None:
    """Release a lock of `lock_beside`."""
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


def sync(path: Path) -> None:
    """Wait until a file is on the disk, so that a power failure after a rename cannot leave it empty."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def walk_files(paths: Iterable[str | Path], endings: Collection[str], kind: str) -> Iterator[Path]:
    """The named files, and all files with one of the endings in the named folders, in the order of the paths.

    A folder is listed when its turn comes, so that the first files of a large tree are there at once. Before the first
    file, every path is checked: it exists, and a folder is searched until it gives one file.

    Args:
        paths: Files and folders; folders are walked by `walk_folder`.
        endings: File name endings to look for, with the dot, in lower case.
        kind: What such a file is called in an error message.
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

    Each comes with whether it is a folder.
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
    """Refuse what cannot be read as a file: a pipe would be waited for, and a device may be endless."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: not a regular file")
    if status.st_size == 0:
        raise InputError(f"{path}: empty (0 bytes)")


def check_links(folder: str | Path, names: Iterable[str | Path]) -> None:
    """Refuse links that lead out of a folder, which somebody else may have put there, before it is read or written.

    Args:
        folder: The folder, or a link to it.
        names: Files and folders in it, as paths, that are checked with all that is in them.
    """
    root = Path(os.path.realpath(folder))

    def leads_out(path: Path) -> bool:
        return not Path(os.path.realpath(path)).is_relative_to(root)

    for name in names:
        for path in chain([root / name], (root / name).rglob("*")):
            if leads_out(path):
                above = [parent for parent in path.parents if parent.is_relative_to(root)]
                link = next(filter(leads_out, [*reversed(above), path]))
                raise InputError(
                    f"{Path(folder) / link.relative_to(root)}: a link to a file outside of the folder; put a copy of "
                    "the file in its place"
                )


def write_text(text: str, path: str | Path) -> None:
    """Write a UTF-8 text file atomically; bytes of file names that are not UTF-8 become escapes, as in `write_csv`."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="names")


def write_json(value: Any, path: str | Path) -> None:
    """Write a JSON file with indentation, atomically; the folder is created if it is missing."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", path)


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Write a table atomically: an error raised while the rows are produced leaves `path` unchanged.

    Bytes of file names that are not UTF-8 are written as `\\udcff`.
    """
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8", errors="names") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def sha256(path: str | Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


MOST_BYTES = 2**20


def read_text(path: str | Path, *, most_bytes: int = MOST_BYTES) -> str:
    """Read a text file; one that is not regular, larger than `most_bytes` or not UTF-8 is an `InputError`.

    Lines end with a line feed, whatever the editor wrote, and its byte order mark is left out.
    """
    path = Path(path)
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would wait for ever
        raise InputError(f"{path}: not a regular file")
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise InputError(f"{path}: larger than {most_bytes:,} bytes, so it is not what it should be")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: not UTF-8; save it as UTF-8 text") from None


def read_json(path: str | Path, *, most_bytes: int = MOST_BYTES) -> Any:
    """The contents of a JSON file."""
    try:
        return parse_json(read_text(path, most_bytes=most_bytes), str(path))
    except ValueError as error:
        raise InputError(str(error)) from None


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """PyYAML's safe loader, which refuses duplicate keys and long numbers, and leaves dates as strings."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        """A dictionary. Parsers keep the last of duplicate keys silently."""
        seen = set()
        for key, _ in node.value:
            if (name := (key.tag, str(key.value))) in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {name[1][:LONGEST_NUMBER]!r} is there twice", problem_mark=key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """An integer of bounded length: reading one takes a time that grows with its square."""
        if len(node.value) > LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(problem="a number that is too long", problem_mark=node.start_mark)
        return self.construct_yaml_int(node)


Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_integer)


def read_yaml(path: str | Path) -> Any:
    """The contents of a YAML file: `None`, booleans, numbers, strings, lists and dictionaries. Dates stay strings."""
    text = read_text(path)
    try:
        depth = 0
        for event in yaml.parse(text, Loader):  # before nodes are made: for deep nesting, libyaml overflows the stack
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise yaml.MarkedYAMLError(problem=TOO_DEEP, problem_mark=event.start_mark)
            if isinstance(event, yaml.AliasEvent):  # a few lines of aliases can stand for billions of values
                raise yaml.MarkedYAMLError(problem="aliases are not read", problem_mark=event.start_mark)
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}: " if mark else ""
        raise InputError(f"{path}: cannot be read: {place}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise InputError(f"{path}: cannot be read: {error.reason}") from None
    except (ValueError, LookupError, AttributeError, OverflowError):  # `!!int x`, `!!int`, `!!bool x`, `!!timestamp x`
        raise InputError(f"{path}: cannot be read: a value does not fit its tag") from None
