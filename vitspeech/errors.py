"""The error for what a user can correct: an option, a config, a card or a file.

Commands print an `InputError` as one line. An error of any other class, except `OSError`, is a bug of the package, and
commands print its traceback (see `vitspeech.command_line`). The functions check numbers that a user gave.
"""

import math
from collections.abc import Sequence

MOST_SEED = 2**32 - 1  # of NumPy


class InputError(ValueError):
    """A value, a file or a combination of settings that the user gave is wrong; the message says which and why.

    A process that reads batches passes its error on with a traceback as the message, of which the last line is kept.
    """

    def __init__(self, *arguments: object) -> None:
        if arguments and str(arguments[0]).startswith(f"Caught {type(self).__name__} in "):
            arguments = (str(arguments[0]).rpartition(f".{type(self).__name__}: ")[2].strip(),)
        super().__init__(*arguments)


class MissingExtraError(InputError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""


def check_number(name: str, value: float, low: float = -math.inf, high: float = math.inf) -> None:
    """Refuse a number that is not finite or out of its range; NaN passes any comparison with `<`.

    Args:
        name: Name of the argument.
        value: The number.
        low: Smallest value.
        high: Largest value.

    Raises:
        InputError: If it is.
    """
    if not (low <= value <= high and abs(value) < math.inf):
        bounds = f" from {low:g}" * (low > -math.inf) + f" to {high:g}" * (high < math.inf)
        raise InputError(f"{name}={value} is not a number{bounds}")


def check_seed(name: str, seed: int) -> None:
    """Refuse a number that is no seed of NumPy's generators.

    Raises:
        InputError: If it is not within 0 .. 2³² - 1.
    """
    if isinstance(seed, bool) or not 0 <= seed <= MOST_SEED:
        raise InputError(f"{name}={seed}: a seed is a number from 0 to {MOST_SEED}")


def check_fraction(name: str, value: float) -> None:
    """Refuse a fraction or probability that is not within 0 .. 1.

    Raises:
        InputError: If `value` is negative, 1 or more, or NaN.
    """
    if not 0 <= value < 1:
        raise InputError(f"{name}={value} is not within 0 .. 1 (1 excluded)")


def check_range(name: str, bounds: Sequence[float]) -> None:
    """Refuse a range that does not have two finite bounds, the lower one first.

    Raises:
        InputError: If it does not.
    """
    if len(bounds) != 2 or not -math.inf < bounds[0] <= bounds[1] < math.inf:
        raise InputError(f"{name}={list(bounds)} is not a range from low to high")


def some_names(names: Sequence[object], most: int = 5) -> str:
    """The first names in one line, and how many more there are: `a, b and 7 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
