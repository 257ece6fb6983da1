"""Inputs in batches through a network, and the table of their results, which an interrupted command goes on with.

A file that can't be read stops the run, or is reported and left out.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from vitspeech.checkpoint.model import Model
from vitspeech.command_line import UnreadFiles
from vitspeech.data.audio.reading import (
    IN_PARTS,
    LONGEST_S,
    AudioParts,
    Notes,
    TooLongError,
    clip_of,
    read_clip,
    states_rate,
    to_sound,
)
from vitspeech.data.tables import Columns, GrowingTable, Row
from vitspeech.errors import InputError, check_number

Read, Result = TypeVar("Read"), TypeVar("Result")
Input = Any  # a Path, or an image or sound in memory
OnError = Callable[[Input, Exception], None]
READERS = min(4, os.cpu_count() or 1)  # threads; they read and decode without Python's lock
BATCHES_AHEAD = 2  # that are read, or waiting to be read, while the network runs


@dataclass(frozen=True)
class Position:
    """Where a run over files stopped."""

    count: int  # files that are done; a multiple of the batch, so that later batches are those of an uninterrupted run
    last: str  # the last one of them


def is_single(inputs: Any, axes: int) -> bool:
    """Whether this is one input, and not a folder or several inputs.

    An array or tensor of up to so many axes is one, and of more axes several.
    """
    if isinstance(inputs, str | os.PathLike):
        return not Path(inputs).is_dir()
    if states_rate(inputs) or isinstance(inputs, bytes):
        return True
    return inputs.ndim <= axes if hasattr(inputs, "ndim") else not isinstance(inputs, Iterable)


def walk_inputs(inputs: Any, axes: int, walk: Callable[[Iterable[Any]], Iterator[Path]]) -> Iterator[Input]:
    """One input or several ones, in order; folders are replaced by their files.

    Args:
        inputs: A path, an image or sound in memory, an array of several ones, or any iterable of these.
        axes: As in `is_single`.
        walk: Gives the files of paths.
    """
    several = [inputs] if isinstance(inputs, str | os.PathLike) or is_single(inputs, axes) else inputs
    for is_path, group in groupby(several, key=lambda one: isinstance(one, str | os.PathLike)):
        if is_path:
            yield from walk(group)
        else:
            yield from group


def read_recording(
    source: Input, sample_rate_hz: int, refusal: str | None, notes: Notes, sample_rate: int | None = None
) -> Tensor | AudioParts | tuple[Tensor, ...]:
    """Read a recording of up to LONGEST_S: int16 (N,); a longer one is read later, part by part.

    `refusal` says why long recordings are refused; `None` accepts them. Sound in memory has that `sample_rate`.
    """
    rate_hz = sample_rate or sample_rate_hz
    try:
        is_file = isinstance(source, Path)
        return read_clip(source, sample_rate_hz, notes) if is_file else clip_of(source, rate_hz, sample_rate_hz)
    except TooLongError as error:
        if refusal is not None:
            raise InputError(str(error).removesuffix(IN_PARTS) + refusal) from None
    if is_file:
        return AudioParts(source, sample_rate_hz)
    return to_sound(source, rate_hz, sample_rate_hz).split(round(LONGEST_S) * sample_rate_hz)


def run_in_batches(
    files: Iterable[Input],
    read: Callable[[Input], Read],
    run: Callable[[list[Input], list[Read]], Iterable[Result | Exception]],
    *,
    batch: int,
    on_error: OnError | None = None,
    progress: bool = False,
    after: Position | None = None,
) -> Iterator[tuple[Input, Result]]:
    """Yield each file with its result, in order.

    Threads read the next files while the network runs; of `files`, few more are taken than are needed for this.

    Args:
        files: The files, or what is in memory in their place; a file may be named more than once.
        read: Reads one file; called in several threads.
        run: Computes the results of files from what was read, in order; called for up to `batch` files at once. An
            error in place of a result is handled as one of `read`.
        batch: Files that are run at once.
        on_error: Called in place of a result, with a file that can't be read and the ValueError or OSError of `read`;
            `None` raises it.
        progress: Show a progress bar if there is more than one batch. It knows the number of files once the last one
            has been found.
        after: Leave out the files up to this position.

    Raises:
        InputError: If `batch` is below 1, or the file at the position `after` is another one now.
    """
    check_number("batch", batch, 1)
    found, done = (skipped(iter(files), after), after.count) if after else (iter(files), 0)
    waiting: deque[tuple[Input, Future[Read]]] = deque()
    readers = ThreadPoolExecutor(READERS, thread_name_prefix="read")

    def fill() -> bool:
        """Have files read ahead; whether there are more files."""
        for file in islice(found, BATCHES_AHEAD * batch - len(waiting)):
            waiting.append((file, readers.submit(read, file)))
        return len(waiting) == BATCHES_AHEAD * batch

    with ExitStack() as closing:
        closing.callback(readers.shutdown, cancel_futures=True)
        more = fill()
        bar = None
        if progress and (more or len(waiting) > batch):
            from tqdm import tqdm

            bar = closing.enter_context(tqdm(desc="files", initial=done, leave=False))
        while waiting:
            taken = [waiting.popleft() for _ in range(min(batch, len(waiting)))]
            inputs, errors = {}, {}
            for index, (_, reading) in enumerate(taken):
                try:
                    inputs[index] = reading.result()
                except (ValueError, OSError) as error:
                    if on_error is None:
                        raise
                    errors[index] = error
            more = more and fill()
            done += len(taken)
            if bar is not None and bar.total is None and not more:
                bar.total = done + len(waiting)
                bar.refresh()
            good = [taken[index][0] for index in inputs]
            results = iter(run(good, list(inputs.values())) if inputs else ())
            for index, (file, _) in enumerate(taken):
                result = errors[index] if index in errors else next(results)
                if not isinstance(result, Exception):
                    yield file, result
                elif on_error is None:
                    raise result
                else:
                    on_error(file, result)
            if bar is not None:
                bar.update(len(taken))


def skipped(files: Iterator[Input], after: Position) -> Iterator[Input]:
    """The files after a position, unless there are fewer or the last one of those before is another one."""
    last = deque(enumerate(islice(files, after.count), 1), maxlen=1)
    if [(number, str(file)) for number, file in last] != [(after.count, after.last)]:
        raise InputError(
            f"{after.last}: is no longer file {after.count:,} of those named, as when the run stopped; start over"
        )
    return files


def write_results(
    path: Path,
    columns: Columns,
    rows_of: Callable[[Input, Result], Sequence[Row]],
    results: Callable[..., Iterable[tuple[Input, Result]]],
    model: Model,
    paths: Sequence[str],
    *,
    command: str,
    batch: int,
    resume: bool,
    **settings: str | float,
) -> UnreadFiles:
    """Write the table of a command's results, or go on with an interrupted one, and print its name.

    It is resumed only with the same model, paths, batch and settings; a model is known by the checksums on its card.

    `results` is `predict` or `transcribe` of the `paths` that the user named, with all arguments but `on_error` and
    `after`; `rows_of` makes the rows of one. The settings are the device, and what else changes the rows.

    Returns:
        The files that could not be read.
    """
    named = hashlib.sha256("\0".join(paths).encode(errors="surrogateescape")).hexdigest()
    sums = {"weights": model.card["sha256"], "model_config": model.card["config_sha256"], "paths": named}
    run = sums | {"batch": batch, "command": command} | settings
    with GrowingTable(path, columns, run, batch=batch, resume=resume) as table:
        unread, after = UnreadFiles(command, table), Position(table.done, table.last) if table.done else None
        for one, result in results(on_error=unread.add, after=after):
            table.add(one, rows_of(one, result))
    print(path)
    return unread
