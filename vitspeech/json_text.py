"""JSON that others may have written, read in bounded time; needs nothing but Python, so exported models have a copy.

Duplicate keys, nesting deeper than `DEEPEST`, numbers that JSON does not have and very long ones are refused. A message
names the file and the line, and quotes no lines of the file.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

DEEPEST = 64
TOO_DEEP = f"nested deeper than {DEEPEST} levels"
LONGEST_NUMBER = 40  # characters


def parse_json(text: str, name: str) -> Any:
    """The contents of a JSON text; a ValueError calls it by the `name`."""
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_int=integer, parse_float=finite, parse_constant=finite)
        if depth_of(value) > DEEPEST:
            raise RecursionError
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: cannot be read: line {error.lineno}: {error.msg}") from None
    except ValueError as error:
        raise ValueError(f"{name}: cannot be read: {error}") from None
    except RecursionError:
        raise ValueError(f"{name}: cannot be read: {TOO_DEEP}") from None
    return value


def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The dictionary of a JSON object, without duplicate keys."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:LONGEST_NUMBER]!r} is there twice")
    return mapping


def integer(text: str) -> int:
    """An integer of bounded length."""
    if len(text) > LONGEST_NUMBER:
        raise ValueError("a number that is too long")
    return int(text)


def finite(text: str) -> float:
    """A finite number; Python also reads `NaN`, `Infinity` and `1e999`."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:LONGEST_NUMBER]} is not a number, or a number beyond the range of floats")
    return value


def depth_of(value: Any) -> int:
    """How deep lists and dictionaries are nested."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return int(isinstance(value, dict | list)) + max((depth_of(child) for child in children), default=0)
