"""Linked paths compared with lists."""

import gc
import weakref

from hypothesis import given, settings
from hypothesis import strategies as draw

from vitspeech.decoding.paths import Prefix, append, extend, nodes_after, to_hypothesis


@settings(deadline=None, max_examples=200)
@given(steps=draw.lists(draw.tuples(draw.integers(0, 9), draw.booleans(), draw.integers(0, 2)), max_size=12))
def test_linked_paths_equal_lists(steps):
    paths = [(None, [])]
    for token, (number, extends, unit) in enumerate(steps):
        last, units = paths[number % len(paths)]
        if extends and units:
            paths.append((extend(last, token), [*units[:-1], (units[-1][0], units[-1][1], token + 1)]))
        else:
            paths.append((append(last, unit, token), [*units, (unit, token, token + 1)]))
    for last, units in paths:
        found = to_hypothesis(last, -1.5)
        assert found.log_probability == -1.5
        assert list(found.units) == [unit for unit, _, _ in units]
        assert list(found.spans) == [(first, end) for _, first, end in units]
        assert (last.count if last else 0) == len(units)


@settings(deadline=None, max_examples=200)
@given(shared=draw.integers(0, 4), before=draw.integers(0, 4), after=draw.integers(0, 4), extends=draw.booleans())
def test_only_the_links_that_are_not_shared_are_returned(shared, before, after, extends):
    def grown(last, count):
        nodes = []
        for token in range(count):
            last = append(last, 0, token)
            nodes.append(last)
        return last, nodes

    middle, _ = grown(None, shared)
    one, _ = grown(middle, before)
    other, nodes = grown(middle, after)
    assert nodes_after(one, other) == nodes
    if extends and middle:
        longer = extend(middle, 99)
        assert nodes_after(one, longer) == [longer]
    assert nodes_after(other, other) == []


def test_paths_of_a_million_units_can_be_freed():
    node, prefix = None, Prefix()
    first = weakref.ref(prefix)
    gc.disable()  # for speed
    try:
        for token in range(1_000_000):
            node, prefix = append(node, 0, token), Prefix(prefix, 0)
        del node, prefix  # an overflow of the C stack would end the process
        assert first() is None
    finally:
        gc.enable()
