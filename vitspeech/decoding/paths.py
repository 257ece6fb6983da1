"""Paths and prefixes of CTC searches as linked lists of units, and the hypotheses that they become."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Hypothesis:
    """A labeling.

    Args:
        units: The units in order.
        log_probability: Natural logarithm; whether of one path or of several is documented at each search.
        spans: The first token of each unit and the one after its last, in the best path.
    """

    units: tuple[int, ...]
    log_probability: float
    spans: tuple[tuple[int, int], ...]


@dataclass(eq=False, repr=False, slots=True)
class PathNode:
    """A unit of a path, linked to the one before. Paths share their common beginnings, and a unit is added in O(1).

    Args:
        previous: The unit before, or `None`.
        unit: The unit.
        first: Its first token.
        end: The token after its last.
        count: Number of units up to this one.
    """

    previous: "PathNode | None"
    unit: int
    first: int
    end: int
    count: int


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class Prefix:
    """A prefix of the beam: its parent, which is the prefix without the last unit, and that unit.

    There is at most one object for a prefix, so prefixes are equal only if they are the same object.
    """

    parent: "Prefix | None" = None
    unit: int | None = None


def append(node: PathNode | None, unit: int, token: int) -> PathNode:
    """The path that ends in `node`, with one more unit, which begins at `token`."""
    return PathNode(node, unit, token, token + 1, node.count + 1 if node else 1)


def extend(node: PathNode, token: int) -> PathNode:
    """The same path, with the last unit lasting until `token`."""
    return PathNode(node.previous, node.unit, node.first, token + 1, node.count)


def nodes_after(before: PathNode | None, last: PathNode | None) -> list[PathNode]:
    """The units of the path that ends in `last` which it does not share with the path that ends in `before`, in order.

    Takes time proportional to the number of units that are not shared.
    """
    nodes = []
    while last is not before:
        count, count_before = last.count if last else 0, before.count if before else 0
        if count >= count_before:
            nodes.append(last)
            last = last.previous
        if count_before >= count:
            before = before.previous
    return nodes[::-1]


def to_hypothesis(last: PathNode | None, log_probability: float) -> Hypothesis:
    """The labeling and the spans of the path that ends in `last`."""
    nodes = nodes_after(None, last)
    spans = tuple((node.first, node.end) for node in nodes)
    return Hypothesis(tuple(node.unit for node in nodes), log_probability, spans)


def to_rows(kind: type, lasts: Sequence[Any]) -> tuple[list[tuple], list[int]]:
    """Flatten linked objects, because copying and pickling would follow the nodes recursively.

    Args:
        kind: Their dataclass; its first field is the object before, or `None`.
        lasts: The last object of each chain, or `None`. Chains may share their beginnings.

    Returns:
        A row for each object: the number of the object before, from 1 (0 is `None`), and the other fields.
        The number of each last object.
    """
    before, *others = kind.__match_args__
    numbers = {None: 0}
    for last in lasts:
        new = []
        while last not in numbers:
            new.append(last)
            last = getattr(last, before)
        for item in reversed(new):
            numbers[item] = len(numbers)
    rows = [
        (numbers[getattr(item, before)], *(getattr(item, name) for name in others))
        for item in numbers
        if item is not None
    ]
    return rows, [numbers[last] for last in lasts]


def from_rows(kind: type, rows: Sequence[tuple], lasts: Sequence[int]) -> list[Any]:
    """Rebuild linked objects from `to_rows`; returns the last object of each chain."""
    items = [None]
    for before, *others in rows:
        items.append(kind(items[before], *others))
    return [items[last] for last in lasts]
