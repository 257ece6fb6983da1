"""Linked paths compared with lists."""

import gc
import weakref

from hypothesis import given, settings
from hypothesis import strategies as draw

from vitspeech.decoding.paths import Prefix, append, extend, links_after, to_hypothesis


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
        links = []
        for token in range(count):
            last = append(last, 0, token)
            links.append(last)
        return last, links

    middle, _ = grown(None, shared)
    one, _ = grown(middle, before)
    other, links = grown(middle, after)
    assert links_after(one, other) == links
    if extends and middle:
        longer = extend(middle, 99)
        assert links_after(one, longer) == [longer]
    assert links_after(other, other) == []


def test_paths_of_a_million_units_can_be_freed():
    link, prefix = None, Prefix()
    first = weakref.ref(prefix)
    gc.disable()  # for speed
    try:
        for token in range(1_000_000):
            link, prefix = append(link, 0, token), Prefix(prefix, 0)
        del link, prefix  # an overflow of the C stack would end the process
        assert first() is None
    finally:
        gc.enable()
