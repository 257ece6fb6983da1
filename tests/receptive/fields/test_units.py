"""Which units of a layer are measured."""

import pytest
import torch
from torch import nn

from vitspeech.receptive.fields.effective import central_units, effective_fields, symmetric
from vitspeech.receptive.fields.layers import Layer


def even_grid(count, size):
    """The centers of `count` cells that divide `size` positions evenly."""
    return [(number + 0.5) * size / count - 0.5 for number in range(count)]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9, 100])
@pytest.mark.parametrize("size", range(1, 70))
def test_positions_are_symmetric_about_the_middle_and_within_the_middle_half(size, count):
    places = symmetric(even_grid(size, 96), 96, count)
    assert [size - 1 - place for place in reversed(places)] == places and places == sorted(set(places))
    assert 1 <= len(places) <= count
    assert all(size / 4 <= place + 0.5 <= 3 * size / 4 for place in places)
    # The outermost positions of the middle half are among them, so the offsets reach far to both sides.
    assert size < 4 or (places[0] - 1 + 0.5) < size / 4


@pytest.mark.parametrize(
    "rows, columns, units, places",
    [
        (8, 8, 4, [(row, column) for row in (2, 5) for column in (2, 5)]),
        (8, 8, 9, [(row, column) for row in (2, 5) for column in (2, 5)]),  # an even grid has no middle
        (8, 8, 16, [(row, column) for row in (2, 3, 4, 5) for column in (2, 3, 4, 5)]),
        (3, 3, 9, [(1, 1)]),
        (9, 13, 9, [(row, column) for row in (2, 4, 6) for column in (3, 6, 9)]),
        (9, 13, 1, [(4, 6)]),
        (1, 1, 4, [(0, 0)]),
        (2, 2, 4, [(0, 0), (0, 1), (1, 0), (1, 1)]),
    ],
)
def test_units_of_a_picture_are_spread_over_the_middle_half(rows, columns, units, places):
    assert central_units([even_grid(rows, 117), even_grid(columns, 117)], [117, 117], units) == places


@pytest.mark.parametrize(
    "count, units, places", [(41, 5, [10, 15, 20, 25, 30]), (23, 4, [6, 9, 13, 16]), (23, 1, [11]), (8, 3, [2, 5])]
)
def test_times_are_spread_over_the_middle_half(count, units, places):
    found = central_units([even_grid(count, 98), [0.0]], [98, 80], units, in_time=True)
    assert found == [(place, 0) for place in places]


def test_units_of_a_grid_off_the_middle_are_those_in_the_middle_half_of_the_picture():
    # As in the released CNN: of 31 rows pooling leaves 15, 7 and 3, centered at 4, 12 and 20 of 32.
    network = nn.Sequential(nn.Conv2d(1, 1, 2), nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(2)).eval()
    (fields,) = effective_fields(network, torch.rand(2, 1, 32, 32), [Layer("3")])
    assert fields.grid == (3, 3) and fields.cumulative.center == (12, 12)
    assert fields.cumulative.units == [(1, 1), (1, 2), (2, 1), (2, 2)] and fields.cumulative.window == ((-20, 19),) * 2
