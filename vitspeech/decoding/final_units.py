"""Units of a CTC search that no later token can change; without them, a search over hours keeps a constant size."""

from collections.abc import Iterable

from vitspeech.decoding.ctc import GreedySearch, PrefixBeamSearch
from vitspeech.decoding.paths import PathNode, Prefix, nodes_after


def take_final(search: GreedySearch | PrefixBeamSearch, *, longest: int | None = None) -> list[PathNode]:
    """Take off the units that are final, in order; the search goes on with those after them.

    A unit is final if the best paths of all hypotheses in the beam share it, with its times, and the next token can't
    extend it. What the search finds does not change: the units taken off, and then those of `search.best()`, are those
    that `best()` would have returned.

    Two hypotheses of almost equal probability may stay in the beam for hours, because what follows is the same for
    both. With `longest`, those that differ from the best one before the last `longest` tokens are dropped.

    Args:
        search: A search after a push.
        longest: Tokens that hypotheses may differ in; `None` does not limit them.
    """
    if isinstance(search, GreedySearch):
        lasts = [search.last]
    else:
        if longest is not None:
            drop_others(search, search.tokens - longest)
        lasts = [last for pair in search.paths for score, last in pair if last is not None or score > float("-inf")]
        forget_shared(search)
    final = shared(last.previous if last is not None and last.end == search.tokens else last for last in lasts)
    if final is None:
        return []
    taken = nodes_after(None, final)
    copies = {final: None}  # nodes are immutable, since transcripts of earlier pushes hold them
    new = {last: without(last, copies) for last in lasts}
    if isinstance(search, GreedySearch):
        search.last = new[search.last]
    else:
        search.paths = [tuple((score, new.get(last)) for score, last in pair) for pair in search.paths]
    return taken


def shared(lasts: Iterable[PathNode | None]) -> PathNode | None:
    """The last unit that all paths share; `None` if they share none."""
    ends = set(lasts)
    while len(ends) > 1 and None not in ends:
        longest = max(ends, key=lambda node: node.count)
        ends.remove(longest)
        ends.add(longest.previous)
    return None if None in ends else ends.pop()


def without(last: PathNode | None, copies: dict[PathNode, PathNode | None]) -> PathNode | None:
    """The path that ends in `last` as a copy that begins after the nodes whose copy is `None`."""
    new = []
    while last is not None and last not in copies:
        new.append(last)
        last = last.previous
    copy = None if last is None else copies[last]
    for node in reversed(new):
        copy = copies[node] = PathNode(copy, node.unit, node.first, node.end, node.count)
    return copy


def drop_others(search: PrefixBeamSearch, token: int) -> None:
    """Drop the hypotheses whose paths differ from the best one's in the units that end before a token."""
    last = search.last
    while last is not None and last.end > token:
        last = last.previous
    if last is None:
        return
    kept = [index for index, pair in enumerate(search.paths) if all(holds(end, last) for _, end in pair)]
    if search.ranking[0] in kept:
        if search.language is not None:
            search.states, search.totals = [search.states[index] for index in kept], search.totals[kept]
        search.prefixes = [search.prefixes[index] for index in kept]
        search.paths = [search.paths[index] for index in kept]
        search.in_blank, search.in_unit = search.in_blank[kept], search.in_unit[kept]


def holds(end: PathNode | None, node: PathNode) -> bool:
    """Whether the path that ends in `end` has the unit `node`; true if `end` is `None`, which stands for no path."""
    if end is None:
        return True
    while end.count > node.count:
        end = end.previous
    return end is node


def forget_shared(search: PrefixBeamSearch) -> None:
    """Drop the prefixes that all others begin with, but the longest: none of them can be in the beam again."""
    depths = {prefix: depth for depth, prefix in enumerate(lineage(search.prefixes[0]))}
    shortest = 0
    for prefix in search.prefixes[1:]:
        shortest = max(shortest, next(depths[one] for one in lineage(prefix) if one in depths))
    prefix = list(depths)[shortest]
    while prefix.parent is not None:  # from the end, so that no chain of thousands is freed by recursion
        parent, prefix.parent = prefix.parent, None
        search.extensions.pop((parent, prefix.unit), None)
        prefix = parent


def lineage(prefix: Prefix | None) -> Iterable[Prefix]:
    """A prefix, its parent, and so on."""
    while prefix is not None:
        yield prefix
        prefix = prefix.parent
