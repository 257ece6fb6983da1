"""Which units of a layer are measured: a symmetric set in the middle half of its grid.

Shapes: B inputs, C channels, R rows, W columns.
"""

from math import ceil, floor

from torch import Tensor


def central_units(grid: Tensor, units: int) -> list[tuple[int, int]]:
    """Units as (row, column), symmetric about the middle of the grid along both axes, within its middle half.

    They include the corners of the middle half, so that the offsets that they see reach far to every side. Of an even
    number of rows or columns an even number is taken, so there may be fewer units than asked for. A single unit is the
    one at the middle, of an even grid the one after it.

    Args:
        grid: The layer's output (B, C, R, W); with a single column, positions are times.
        units: Highest number of units.
    """
    rows, columns = grid.shape[2:]
    down, across = (units, 1) if columns == 1 else (max(floor(units**0.5), 1),) * 2
    return [(row, column) for row in symmetric(rows, down) for column in symmetric(columns, across)]


def symmetric(size: int, count: int) -> list[int]:
    """At most `count` of `size` positions, within the middle half and symmetric about the middle."""
    if count == 1:
        return [size // 2]
    first = ceil(size / 4 - 0.5)  # the centers of the cells lie within 1/4 .. 3/4 of the side
    inside = size - 2 * first
    if inside <= count:
        return list(range(first, size - first))
    steps = [floor(number * (inside - 1) / (count - 1) + 0.5) for number in range(count // 2)]
    middle = [size // 2] if count % 2 and size % 2 else []
    return [*(first + step for step in steps), *middle, *(size - 1 - first - step for step in reversed(steps))]
