"""Opening an exported model: its files are checked first. Needs numpy; recordings need soundfile.

Bad input is a ValueError or an OSError, whose message says what is wrong; `run_command` prints it in one line.

Shapes: N samples.
"""

import hashlib
import os
import re
import shlex
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
SHORTEST_S = 0.1  # of a recording
STATED_BYTES = re.compile(r"^ *(?:data|SSND|Data Size) *: (\d+) \(should be (\d+)\)", re.M)  # libsndfile's log
UNKNOWN_BYTES = 0x7FFF0000  # a WAV written to a pipe states this or more: length unknown
UNKNOWN_FRAMES = 2**63 - 1  # libsndfile's SF_COUNT_MAX, of other formats
LOUDEST = 16.0  # decoders of lossy formats exceed ±1; floats beyond this are integers that were not scaled


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


def read_sound(path: str | Path, rate_hz: int, shortest_s: float = SHORTEST_S) -> numpy.ndarray:
    """Read a recording (WAV, FLAC, OGG or MP3), and average its channels: int16 (N,)."""
    import soundfile

    check_file(path)
    name, samples = Path(path).absolute(), numpy.zeros((0, 1))
    try:
        with soundfile.SoundFile(os.fsencode(name) if os.name == "posix" else name) as recording:
            if recording.frames < UNKNOWN_FRAMES:
                samples = recording.read(dtype="float32", always_2d=True)
            problem = truncation(recording, len(samples))
            its_rate_hz = recording.samplerate
    except (RuntimeError, TypeError) as error:  # TypeError: samples without a header
        problem = f"not a recording that can be read ({error})"
    if not problem and its_rate_hz != rate_hz:
        resample = f"ffmpeg -i {shlex.quote(str(path))} -ar {rate_hz} resampled.wav"
        problem = f"has {its_rate_hz} Hz, the model needs {rate_hz} Hz; resample it: {resample}"
    elif not problem and len(samples) < shortest_s * rate_hz:
        problem = f"lasts {len(samples) / rate_hz:.3g} s, below {shortest_s} s"
    elif not problem and not numpy.isfinite(samples).all():
        problem = "has samples that are not finite"
    if problem:
        raise ValueError(f"{path}: {problem}")
    return (samples.mean(1) * 32768).round().clip(-32768, 32767).astype(numpy.int16)


def truncation(recording: Any, read: int) -> str:
    """What is missing of a recording of which some samples were read, by its header and libsndfile's log; or ""."""
    log, frames = recording.extra_info, recording.frames
    if frames == UNKNOWN_FRAMES:
        return "does not state its length (written to a pipe?), so it cannot be read"
    stated = STATED_BYTES.search(log)
    if stated and 0 < int(stated[1]) < UNKNOWN_BYTES:
        return f"truncated: {int(stated[2]):,} of {int(stated[1]):,} bytes of samples are present"
    if frames == 0:
        return "no samples, or a header that states 0 samples (written to a pipe?)"
    if read < frames:
        return f"truncated: {read:,} of {frames:,} samples are present"
    return "truncated: the end of its stream is missing" if "Last page lacks an end-of-stream bit" in log else ""


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


def fit_length(samples: numpy.ndarray, length: int) -> numpy.ndarray:
    """Pad int16 (N,) with zeros on both sides to (length,), or keep the stretch of that length with most energy."""
    missing = length - len(samples)
    if missing >= 0:
        return numpy.pad(samples, (missing // 2, missing - missing // 2))
    total = numpy.append(0, numpy.cumsum(samples.astype(numpy.int64) ** 2))
    energy = total[length:] - total[:-length]
    best = (energy >= energy.max() - energy.max() // 1000).nonzero()[0]
    first = best[len(best) // 2]
    return samples[first : first + length]


def within_one(samples: numpy.ndarray) -> numpy.ndarray:
    """Samples, int16 or floats within ±1, as float32 within ±1, of the same shape.

    A ValueError tells that they are of another type, not finite, or beyond `LOUDEST`.
    """
    samples = numpy.asarray(samples)
    if samples.dtype == numpy.int16:
        return samples / numpy.float32(32768)
    peak = abs(samples).max(initial=0)
    if samples.dtype.kind != "f" or not peak <= LOUDEST:
        what = f"{samples.dtype} up to {peak:g}"
        raise ValueError(f"{what} are not samples within ±1 of float or int16; divide by full scale")
    return samples.astype(numpy.float32)


def softmax(logits: numpy.ndarray) -> numpy.ndarray:
    """Probabilities from logits, over the last axis."""
    powers = numpy.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def most_probable(labels: list[str], probabilities: numpy.ndarray, count: int = 3) -> str:
    """The most probable labels as text: probabilities (C,) -> `cat 0.98, dog 0.01, frog 0.00`."""
    best = numpy.argsort(-probabilities, kind="stable")[:count]
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
