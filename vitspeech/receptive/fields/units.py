"""Which units of a layer are measured: a symmetric set whose centers lie in the middle half of the source.

The set is chosen by the units' centers in the source, not by their numbers: pooling that drops a row at the end leaves
grids whose middle is up to half a stride away from the middle of the image.
"""

from collections.abc import Sequence
from math import floor


def central_units(
    centers: Sequence[Sequence[float]], sizes: Sequence[int], units: int, *, in_time: bool = False
) -> list[tuple[int, int]]:
    """Units as (row, column), symmetric about the middle of the units in the middle half of the source.

    They include the outermost units of the middle half, so that the offsets that they see reach far to every side. If
    the middle half has an even number of rows or columns of units, an even number of them is taken, so there may be
    fewer units than asked for. A single unit is the one nearest to the middle.

    Args:
        centers: Of the rows and of the columns of units, in positions of the source.
        sizes: Rows and columns of the source.
        units: Highest number of units.
        in_time: Whether the layer has one column and rows are times.
    """
    counts = (units, 1) if in_time else (max(floor(units**0.5), 1),) * 2
    rows, columns = map(symmetric, centers, sizes, counts)
    return [(row, column) for row in rows for column in columns]


def symmetric(centers: Sequence[float], size: int, count: int) -> list[int]:
    """At most `count` positions along one axis, symmetric within those in the middle half; at least one.

    Args:
        centers: Increasing, in positions of the source.
        size: Length of the source.
        count: Highest number of positions.
    """
    middle = (size - 1) / 2
    inside = [place for place, center in enumerate(centers) if abs(center - middle) <= size / 4 + 1e-6]
    if count == 1 or len(inside) < 2:
        return [min(range(len(centers)), key=lambda place: (round(abs(centers[place] - middle), 6), -place))]
    last = len(inside) - 1
    if last < count:
        return inside
    steps = [floor(number * last / (count - 1) + 0.5) for number in range(count // 2)]
    between = [last // 2] if count % 2 and last % 2 == 0 else []
    return [inside[step] for step in [*steps, *between, *(last - step for step in reversed(steps))]]
