"""Files that cannot be read: named and counted, left out up to a share of a split, and refused above it."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from vitspeech.errors import InputError

T, R = TypeVar("T"), TypeVar("R")
NAMED = 3  # files that a message names
AT_ONCE = 4096  # files that threads are given at a time
THREADS = 16


class BrokenFile(InputError):
    """A file cannot be read; the message names it.

    A worker process raises its error anew with its traceback as the message. Only the last line of it is kept.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rpartition(f"{__name__}.{type(self).__name__}: ")[2].strip())


class Broken:
    """The broken files of one split.

    Args:
        share: The largest share of the files that may be broken.
        count: The number of files.
        split: The split's name, for messages.

    Attributes:
        places: Which files were left out, by their place in the list of all.
        left: How many more may break.
    """

    def __init__(self, share: float, count: int, split: str = "") -> None:
        self.share, self.count, self.split, self.most = share, count, split, int(share * count)
        self.places: list[int] = []
        self.reasons: list[str] = []

    @property
    def left(self) -> int:
        return self.most - len(self.places)

    @property
    def spare(self) -> int:
        """How many files may break in the middle of a run: none of validation and test, whose items must stay."""
        return self.left if self.split == "train" else 0

    def check(self, header: Callable[[T], object], whole: Callable[[T], object]) -> Callable[[T], object]:
        """How a file is checked before training: by its header, or as a whole if it could not be replaced later."""
        return whole if self.share and self.split != "train" else header

    def add(self, place: int, error: Exception) -> None:
        """Leave out a file.

        Raises:
            InputError: If it is one too many; the error itself if no file may be broken.
        """
        if not self.share:
            raise error
        self.places.append(place)
        self.reasons.append(str(error))
        if self.left < 0:
            raise BrokenFile(self.text(f"more than broken={self.share:g} allows ({self.most:,})"))

    def refuse_all(self, errors: dict[int, Exception]) -> None:
        """Leave out files that were found at once.

        Raises:
            InputError: If they are too many; the message has their number.
        """
        self.places += errors
        self.reasons += map(str, errors.values())
        if self.left < 0:
            raise BrokenFile(self.text(f"more than broken={self.share:g} allows ({self.most:,})"))

    def each(self, files: Iterable[T], read: Callable[[T], R]) -> Iterator[R]:
        """Read files one after another; those that cannot be read are left out.

        Raises:
            InputError: If they are too many.
        """
        for place, file in enumerate(files):
            try:
                result = read(file)
            except (InputError, OSError) as error:
                self.add(place, error)
                continue
            yield result

    def text(self, consequence: str) -> str:
        """How many files cannot be read, what follows from it, and the first ones with their reasons."""
        count, named = len(self.reasons), "; ".join(self.reasons[:NAMED])
        more = f"; and {count - NAMED:,} more" if count > NAMED else ""
        files = "file" if self.count == 1 else "files"
        return f"{count:,} of {self.count:,} {self.split} {files} cannot be read, {consequence}: {named}{more}"

    def warn(self) -> None:
        """Warn once about the files that were left out, if there are any."""
        if self.places:
            warnings.warn(self.text("and are left out"), stacklevel=3)

    def kept(self) -> list[int]:
        """The places of the files that were not left out."""
        left_out = set(self.places)
        return [place for place in range(self.count) if place not in left_out]

    def replace(self, file: Path, count: int, error: Exception, *, warn: bool) -> None:
        """Let another row of its batch stand for a file that broke in the middle of a run.

        Args:
            file: The file.
            count: How many files broke in this run, this one included.
            error: Why.
            warn: Whether to warn about it.

        Raises:
            InputError: If it is one too many.
        """
        if count > self.left:
            allowed = f"broken={self.share:g} allows {self.most:,} of {self.count:,} {self.split} files"
            raise BrokenFile(f"{error} ({allowed})") from None
        if warn:
            warnings.warn(f"{error}; other items of its batches are in its place", stacklevel=4)


def leave_out(broken: Broken, files: Sequence[T], check: Callable[[T], object], threads: int = THREADS) -> list[int]:
    """Check files with threads, and leave out those that cannot be read, with a warning.

    Args:
        broken: Counts them.
        files: The files, or what else `check` takes.
        check: Raises an `InputError` or an `OSError` for a file that cannot be read.
        threads: Number of threads.

    Returns:
        The places of the others.

    Raises:
        InputError: If too many cannot be read.
    """
    errors: dict[int, Exception] = {}

    def checked(file: T) -> Exception | None:
        try:
            check(file)
        except (InputError, OSError) as error:
            return error
        return None

    progress = tqdm(total=len(files), desc=f"checking {broken.split}", disable=len(files) < 500 or None, leave=False)
    remaining = enumerate(files)
    with ThreadPoolExecutor(threads) as pool, progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about odd metadata; threads share the filters
        while some := list(islice(remaining, AT_ONCE)):
            for (place, _), error in zip(some, pool.map(checked, [file for _, file in some]), strict=True):
                progress.update()
                if error is not None and not broken.share:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise error
                if error is not None:
                    errors[place] = error
    broken.refuse_all(errors)
    broken.warn()
    return broken.kept()
