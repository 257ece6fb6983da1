"""Reading YAML and JSON files that others may have written: in bounded time and memory, and with errors of one line.

Refused are files that are no regular files, are larger than `MOST_BYTES` or are not UTF-8; duplicate keys, of which
parsers keep the last one silently; nesting deeper than `DEEPEST`; YAML aliases that multiply to more than `MOST_NODES`
values; and in JSON numbers that are not finite. A message names the file and the line, and quotes no lines of the file.
"""

import json
import math
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from vitspeech.errors import InputError

MOST_BYTES = 2**20
MOST_NODES = 500_000
DEEPEST = 64
TOO_DEEP = f"nested deeper than {DEEPEST} levels"
LONGEST_NUMBER = 40  # characters
MAPPING, TIMESTAMP, INTEGER = (f"tag:yaml.org,2002:{name}" for name in ("map", "timestamp", "int"))


def read_text(path: str | Path, *, most_bytes: int = MOST_BYTES) -> str:
    """Read a text file.

    Raises:
        FileNotFoundError: If it does not exist.
        InputError: If it is not a regular file, larger than `most_bytes`, or not UTF-8.
    """
    path = Path(path)
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would wait for ever
        raise InputError(f"{path}: not a regular file")
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise InputError(f"{path}: larger than {most_bytes:,} bytes, so it is not what it should be")
    try:
        return content.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: not UTF-8") from None


def read_yaml(path: str | Path) -> Any:
    """The contents of a YAML file: `None`, booleans, numbers, strings, lists and dictionaries. Dates stay strings.

    Raises:
        FileNotFoundError: If it does not exist.
        InputError: If it cannot be read, see the top of this file.
    """
    return parse_yaml(read_text(path), str(path))


def read_json(path: str | Path, *, most_bytes: int = MOST_BYTES) -> Any:
    """The contents of a JSON file.

    Raises:
        FileNotFoundError: If it does not exist.
        InputError: If it cannot be read, see the top of this file.
    """
    return parse_json(read_text(path, most_bytes=most_bytes), str(path))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """PyYAML's safe loader, which refuses duplicate keys, deep nesting, and aliases that multiply."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self) -> yaml.Node | None:
        """The document's root, which is checked before any value is made from it."""
        root = super().get_single_node()
        if root is not None:
            check_node(root, {})
        return root

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """An integer of bounded length: reading one takes a time that grows with its square."""
        if len(node.value) > LONGEST_NUMBER:
            raise refusal(node, "a number that is too long")
        return self.construct_yaml_int(node)


Loader.add_constructor(INTEGER, Loader.construct_integer)


def check_nesting(text: str) -> None:
    """Refuse deep nesting before nodes are made: libyaml's function for that ends the process by a stack overflow.

    Raises:
        yaml.MarkedYAMLError: If it is nested deeper than `DEEPEST`.
    """
    depth = 0
    for event in yaml.parse(text, Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=TOO_DEEP, problem_mark=event.start_mark)


def refusal(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    """The error about a node."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def check_node(node: yaml.Node, known: dict[int, tuple[int, int] | None], depth: int = 0) -> tuple[int, int]:
    """The number of values in a node and how deep collections are nested in it; an alias counts as a copy.

    Args:
        node: A node of the document.
        known: The results for nodes that were visited before; `None` for those that contain this node.
        depth: The number of collections around it.

    Raises:
        yaml.MarkedYAMLError: If it contains itself, too many values, or duplicate keys, or is nested too deep.
    """
    if id(node) in known:
        if known[id(node)] is None:
            raise refusal(node, "an alias that contains itself")
        size, height = known[id(node)]
    else:
        known[id(node)], size, height = None, 1, int(isinstance(node, yaml.CollectionNode))
        if isinstance(node, yaml.MappingNode):
            check_keys(node)
            children = [child for pair in node.value for child in pair]
        else:
            children = node.value if isinstance(node, yaml.SequenceNode) else ()
        for child in children:
            child_size, child_height = check_node(child, known, depth + 1)
            size, height = size + child_size, max(height, child_height + 1)
            if size > MOST_NODES:
                raise refusal(node, f"its aliases multiply to more than {MOST_NODES:,} values")
        known[id(node)] = size, height
    if depth + height > DEEPEST:
        raise refusal(node, TOO_DEEP)
    return size, height


def check_keys(node: yaml.MappingNode) -> None:
    """Refuse a mapping that has a key twice.

    Raises:
        yaml.MarkedYAMLError: If there is one.
    """
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in seen:
                raise refusal(key, f"the key {key.value[:LONGEST_NUMBER]!r} is there twice")
            seen.add((key.tag, key.value))


def parse_yaml(text: str, name: str) -> Any:
    """The contents of a YAML text.

    Args:
        text: The text.
        name: What it is called in messages.

    Raises:
        InputError: If it cannot be read.
    """
    try:
        check_nesting(text)
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}: " if mark else ""
        raise InputError(f"{name}: cannot be read: {place}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise InputError(f"{name}: cannot be read: {error.reason}") from None
    except (ValueError, LookupError, AttributeError, OverflowError):  # `!!int x`, `!!int`, `!!bool x`, `!!timestamp x`
        raise InputError(f"{name}: cannot be read: a value does not fit its tag") from None


def parse_json(text: str, name: str) -> Any:
    """The contents of a JSON text.

    Args:
        text: The text.
        name: What it is called in messages.

    Raises:
        InputError: If it cannot be read.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=unique, parse_int=integer, parse_float=number, parse_constant=refuse_constant
        )
        check_depth(value)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}: cannot be read: line {error.lineno}: {error.msg}") from None
    except InputError as error:
        raise InputError(f"{name}: cannot be read: {error}") from None
    except RecursionError:
        raise InputError(f"{name}: cannot be read: {TOO_DEEP}") from None
    return value


def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The dictionary of a JSON object.

    Raises:
        InputError: If a key is there twice.
    """
    mapping = {}
    for key, value in pairs:
        if key in mapping:
            raise InputError(f"the key {key[:LONGEST_NUMBER]!r} is there twice")
        mapping[key] = value
    return mapping


def integer(text: str) -> int:
    """An integer of bounded length.

    Raises:
        InputError: If it is longer.
    """
    if len(text) > LONGEST_NUMBER:
        raise InputError("a number that is too long")
    return int(text)


def number(text: str) -> float:
    """A finite number.

    Raises:
        InputError: If it is beyond the range of floats.
    """
    if not math.isfinite(value := float(text)):
        raise InputError("a number beyond the range of floats")
    return value


def refuse_constant(name: str) -> None:
    """Refuse `NaN` and `Infinity`, which are not JSON.

    Raises:
        InputError: Always.
    """
    raise InputError(f"{name} is not a number")


def check_depth(value: Any) -> None:
    """Refuse nested lists and dictionaries that are too deep for what reads them later.

    Raises:
        InputError: If they are nested deeper than `DEEPEST`.
    """
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    if any(isinstance(item, dict | list) for item in level):
        raise InputError(TOO_DEEP)
