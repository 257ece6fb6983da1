"""The error for what a user can correct: an option, a config, a card or a file.

Commands print an `InputError` as one line. An error of any other class, except `OSError`, is a bug of the package, and
commands print its traceback (see `vitspeech.command_line`). The functions check numbers that a user gave.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

MOST_SEED = 2**32 - 1  # of NumPy's generators


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


def check_number(name: str, value: float | Sequence[float], low: float = -math.inf, high: float = math.inf) -> None:
    """Refuse a number that is not finite or not within `low` .. `high`, and a pair that is not such a range.

    NaN passes any comparison with `<`, and would end in a wrong result.
    """
    is_pair = isinstance(value, Sequence)
    values = list(value) if is_pair else [value]
    is_range = len(values) == 2 and values[0] <= values[1] if is_pair else not isinstance(value, bool)
    if not is_range or not all(low <= one <= high and abs(one) < math.inf for one in values):
        kind = f"{values} is not a range from low to high" if is_pair else f"{value} is not a number"
        within = f" from {low:.10g}" * (low > -math.inf) + f" to {high:.10g}" * (high < math.inf)
        raise InputError(f"{name}={kind}{', each' * bool(is_pair and within)}{within}")


def check_fraction(name: str, value: float) -> None:
    """Refuse a fraction or probability that is not within 0 .. 1, without 1."""
    if not 0 <= value < 1:
        raise InputError(f"{name}={value} is not within 0 .. 1 (1 excluded)")


def some_names(names: Sequence[object], most: int = 5) -> str:
    """The first names in one line, and how many more there are: `a, b and 7 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def shown(value: Any) -> str:
    """A value as messages show it, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def named(choices: Mapping[str, Any] | Sequence[str], argument: str, name: str) -> Any:
    """Look up a choice by name; the error for an unknown name lists the known ones."""
    if name not in choices:
        raise InputError(f"{argument}={name!r} is unknown; known: {', '.join(choices)}")
    return choices[name] if isinstance(choices, Mapping) else name
