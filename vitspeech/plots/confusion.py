"""The confusion matrix of a test set."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.plots.style import COUNTS

MANY_CLASSES = 20  # with more classes, cells have no numbers and labels are small and vertical


def draw_confusion_matrix(counts: Tensor, labels: Sequence[str], output: Path, items: str = "images") -> None:
    """Draw the proportions of predicted labels for each true label.

    Args:
        counts: Number of items by true label (rows) and predicted label (columns).
        labels: Names of the classes.
        output: The figure's file.
        items: What was counted, for the title.
    """
    proportions = (counts / counts.sum(1, keepdim=True).clamp(min=1)).numpy()
    has_numbers = len(labels) <= MANY_CLASSES
    size = max(5.0, min(0.55 * len(labels) + 2, 16))
    figure = Figure(figsize=(size, size), layout="constrained")
    axes = figure.subplots()
    axes.imshow(proportions, cmap=COUNTS, vmin=0, vmax=1)
    ticks, font = range(len(labels)), 8 if has_numbers else 5
    rotation = {"rotation": 45 if has_numbers else 90, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(ticks, labels, fontsize=font, **rotation)
    axes.set_yticks(ticks, labels, fontsize=font)
    title = f"test {items}, % of each row (n = {counts.sum():,})"
    axes.set(xlabel="predicted label", ylabel="true label", title=title)
    if has_numbers:
        for row, column in counts.nonzero().tolist():
            value = proportions[row, column]
            color = "white" if value > 0.5 else "black"
            axes.text(column, row, f"{100 * value:.1f}", ha="center", va="center", fontsize=7, color=color)
    figure.savefig(output, dpi=130)
