"""Files about a confusion matrix: the figure, and a table of the classes."""

import csv
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from vitspeech.metrics.confusion import most_confused
from vitspeech.plots.confusion import draw_confusion_matrix

TABLE, FIGURE = "classes.csv", "confusion_matrix.png"


def write_confusion(counts: Tensor, labels: Sequence[str], folder: Path, items: str) -> Path:
    """Write the figure of a confusion matrix, and a table with one row per class, into a folder.

    Columns of the table: the class, the number of its test items, how many of them are right, its accuracy (empty
    without items), the number of items that are predicted as this class, and the class that its items are most often
    confused with, with the number of these items.

    Args:
        counts: Number of items by true label (rows) and predicted label (columns).
        labels: Names of the classes.
        folder: The folder to write into.
        items: What was counted, for the title of the figure.

    Returns:
        The figure's file.
    """
    worst: dict[int, tuple[int, int]] = {}
    for row, column, count in most_confused(counts):
        worst.setdefault(row, (column, count))
    with (folder / TABLE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["class", "items", "correct", "accuracy", "predicted", "most_confused_with", "confused"])
        totals, predicted = counts.sum(1).tolist(), counts.sum(0).tolist()
        for index, label in enumerate(labels):
            correct, total = int(counts[index, index]), totals[index]
            other, confused = worst.get(index, (None, 0))
            accuracy = f"{correct / total:.4f}" if total else ""
            other_label = "" if other is None else labels[other]
            writer.writerow([label, total, correct, accuracy, predicted[index], other_label, confused])
    draw_confusion_matrix(counts, labels, folder / FIGURE, items=items)
    return folder / FIGURE
