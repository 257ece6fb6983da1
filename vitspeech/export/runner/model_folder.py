"""Opening an exported model: its files are checked first. Needs numpy.

Bad input is a ValueError or an OSError, whose message says what is wrong; `run_command` prints it in one line.
"""

import hashlib
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy

from vitspeech.export.runner.model_schema import SCHEMA, mistakes
from vitspeech.json_text import parse_json
from vitspeech.terminal import one_line, open_outputs, warning_in

MOST_JSON_BYTES, MOST_GRAPH_BYTES = 2**22, 2**31
PACKAGES = {name: name for name in ("numpy", "onnxruntime", "soundfile")} | {"PIL": "pillow"}
FORMAT = 1  # the newest format of model.json that these files know
UNREAD_STATUS = 3


def read_about(folder: str | Path) -> dict[str, Any]:
    """What `model.json` holds: labels, times, preprocessing. All files but run.py, which you may edit, are checked.

    A folder may come from somebody else: only regular files that lie in it are opened, and nothing is taken that does
    not fit `SCHEMA`.
    """
    file = regular(folder, "model.json", MOST_JSON_BYTES)
    about = parse_json(file.read_text("utf-8-sig", errors="replace"), str(file))
    version = about.get("format") if isinstance(about, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(f"{folder}: has the format {version}, newer than {FORMAT}; use the run.py that it came with")
    for mistake in mistakes(about, SCHEMA, "it"):
        raise ValueError(f"{file}: altered, or not the file of an exported model: {mistake.removeprefix('it: ')}")
    for name, checksum in about["files"].items():
        most_bytes = MOST_GRAPH_BYTES if name.endswith(".onnx") else MOST_JSON_BYTES
        with regular(folder, name, most_bytes).open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != checksum and name != "run.py":
                raise ValueError(f"{content.name}: altered; its sha256 is not the one in model.json. Export again")
    return about


def regular(folder: str | Path, name: str, most_bytes: int) -> Path:
    """The path of a file in a folder: not a link, a pipe or a device, and of at most so many bytes."""
    path = Path(folder) / name
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise ValueError(f"{path}: {kind}; put a copy of the file in its place")
    if status.st_size > most_bytes:
        raise ValueError(f"{path}: larger than {most_bytes:,} bytes")
    return path


def check_file(path: str | Path) -> None:
    """Raise a ValueError if a file does not exist, is something else or has no content."""
    path, problem = Path(path), ""
    if path.is_dir():
        problem = "a folder; give files"
    elif not path.exists():
        problem = "no such file"
    elif not path.is_file():
        problem = "a pipe or a device; give files"
    elif path.stat().st_size == 0:
        problem = "empty (0 bytes)"
    if problem:
        raise ValueError(f"{path}: {problem}")


def read_each(names: Iterable[str], read: Callable[[str], numpy.ndarray]) -> Iterator[tuple[str, numpy.ndarray]]:
    """Yield each input of a command and what `read` returns for it.

    One that cannot be read is reported in one line, and the others follow; then the exit status is 3.
    """
    unread = 0
    for name in names:
        try:
            content = read(name)
        except (ValueError, OSError) as error:
            print(f"run.py: {one_line(error)}", file=sys.stderr, flush=True)
            unread += 1
        else:
            yield name, content
    if unread:
        sys.exit(UNREAD_STATUS)


def softmax(logits: numpy.ndarray) -> numpy.ndarray:
    """Probabilities from logits, over the last axis."""
    powers = numpy.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def most_probable(labels: list[str], probabilities: numpy.ndarray) -> str:
    """The three most probable labels as text: probabilities (C,) -> `cat 0.98, dog 0.01, frog 0.00`."""
    best = numpy.argsort(-probabilities, kind="stable")[:3]
    return ", ".join(f"{labels[index]} {probabilities[index]:.3f}" for index in best)


def run_command(command: Callable[[], None]) -> None:
    """Run a command: a bad model and missing packages are one line on standard error, with exit status 1."""
    open_outputs()
    try:
        command()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        package = PACKAGES.get(error.name)
        remedy = f"pip install {package}" if package else "it belongs into the folder of run.py; export again"
        sys.exit(f"run.py: needs {one_line(package or error.name)}: {remedy}")
    except Exception as error:
        if warning := warning_in(error):
            kind = f"{type(warning).__name__}, an error by -W or PYTHONWARNINGS"
            sys.exit(f"run.py: {one_line(warning)} ({kind})")
        if not isinstance(error, ValueError | OSError | MemoryError):
            raise
        sys.exit(f"run.py: {one_line(error) or 'not enough memory'}")
