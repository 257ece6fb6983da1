"""Files in batches through a network; a file that can't be read stops the run or is reported and left out."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from torch import Tensor
from tqdm import tqdm

Result = TypeVar("Result")
OnError = Callable[[Path, Exception], None]


def run_in_batches(
    files: Sequence[Path],
    read: Callable[[Path], Tensor],
    run: Callable[[list[Path], list[Tensor]], Sequence[Result]],
    *,
    batch: int,
    on_error: OnError | None = None,
    progress: bool = False,
) -> Iterator[tuple[Path, Result]]:
    """Yield each file with its result, in order.

    Args:
        files: The files; a file may be named more than once.
        read: Reads one file.
        run: Computes the results of files from what was read; called for up to `batch` files at once.
        batch: Files that are read at once.
        on_error: Called in place of a result, with a file that can't be read and the ValueError or OSError of `read`;
            `None` raises it.
        progress: Show a progress bar if there is more than one batch.
    """
    with tqdm(total=len(files), desc="files", disable=not progress or len(files) <= batch, leave=False) as bar:
        for start in range(0, len(files), batch):
            batch_files = files[start : start + batch]
            inputs, errors = {}, {}
            for index, file in enumerate(batch_files):
                try:
                    inputs[index] = read(file)
                except (ValueError, OSError) as error:
                    if on_error is None:
                        raise
                    errors[index] = error
            good = [batch_files[index] for index in inputs]
            results = dict(zip(inputs, run(good, list(inputs.values())), strict=True)) if inputs else {}
            for index, file in enumerate(batch_files):
                if index in errors:
                    on_error(file, errors[index])
                else:
                    yield file, results[index]
            bar.update(len(batch_files))
