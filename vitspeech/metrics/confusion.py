"""Confusions between classes, from a confusion matrix.

Shapes: C classes.
"""

from torch import Tensor


def most_confused(counts: Tensor) -> list[tuple[int, int, int]]:
    """The pairs of different classes that were confused, the most frequent first.

    Shape:
        (C, C), the number of items by true class (rows) and predicted class (columns)
        -> true class, predicted class and number of items of each pair
    """
    pairs = [(row, column, int(counts[row, column])) for row, column in counts.nonzero().tolist() if row != column]
    return sorted(pairs, key=lambda pair: -pair[2])
