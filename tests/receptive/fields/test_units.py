"""Which units of a layer are measured.

Shapes: B inputs, C channels, R rows, W columns.
"""

import pytest
import torch

from vitspeech.receptive.fields.units import central_units, symmetric


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9, 100])
@pytest.mark.parametrize("size", range(1, 70))
def test_positions_are_symmetric_about_the_middle_and_within_the_middle_half(size, count):
    places = symmetric(size, count)
    assert [size - 1 - place for place in reversed(places)] == places and places == sorted(set(places))
    assert 1 <= len(places) <= count or (size % 2 == 0 and len(places) == 2)
    assert all(size / 4 <= place + 0.5 <= 3 * size / 4 for place in places)
    # The outermost positions of the middle half are among them, so the offsets reach far to both sides.
    assert size < 4 or (places[0] - 1 + 0.5) < size / 4


@pytest.mark.parametrize(
    "shape, units, places",
    [
        ((2, 3, 8, 8), 4, [(row, column) for row in (2, 5) for column in (2, 5)]),
        ((2, 3, 8, 8), 9, [(row, column) for row in (2, 5) for column in (2, 5)]),  # an even grid has no middle
        ((2, 3, 8, 8), 16, [(row, column) for row in (2, 3, 4, 5) for column in (2, 3, 4, 5)]),
        ((2, 3, 3, 3), 9, [(1, 1)]),
        ((2, 3, 9, 13), 9, [(row, column) for row in (2, 4, 6) for column in (3, 6, 9)]),
        ((2, 3, 9, 13), 1, [(4, 6)]),
        ((2, 3, 1, 1), 4, [(0, 0)]),
        ((2, 3, 2, 2), 4, [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ((2, 3, 41, 1), 5, [(10, 0), (15, 0), (20, 0), (25, 0), (30, 0)]),
        ((2, 3, 23, 1), 4, [(6, 0), (9, 0), (13, 0), (16, 0)]),
    ],
)
def test_units_are_spread_over_the_middle_half(shape, units, places):
    assert central_units(torch.zeros(shape), units) == places
