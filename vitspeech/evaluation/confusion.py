"""The confusion matrix: a table of classes, and a figure with each class's accuracy and the most confused pairs."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.files import write_csv
from vitspeech.plots.style import BLUE, COUNTS, HIGHLIGHT_GRAY, plain

TABLE, FIGURE = "classes.csv", "confusion_matrix.png"
COLUMNS = ["class", "items", "correct", "accuracy", "predicted", "most_confused_with", "confused"]
LARGEST_CELL, SMALLEST_CELL, SMALLEST_MATRIX, LARGEST_MATRIX = 0.55, 0.17, 3.3, 11.0  # inches
GAP, BARS, LINE, PAIRS = 0.15, 1.2, 0.22, 30  # inches, inches, inches, number
LONGEST_NAME = 24  # characters
MOST_NAMED = 150  # classes; the figure of more would need gigabytes


def write_confusion(counts: Tensor, labels: Sequence[str], folder: Path, items: str) -> Path:
    """Write the figure of a confusion matrix, and a table with one row per class, into a folder; return the figure.

    A class without items has no accuracy. `most_confused_with` is the class that its items are most often taken for,
    and `confused` the number of these items.

    Counts are by true label (rows) and predicted label (columns); `items` says what was counted, for the title.
    """
    worst = {row: (labels[column], count) for row, column, count in reversed(most_confused(counts))}
    totals, correct, predicted = (side.tolist() for side in (counts.sum(1), counts.diag(), counts.sum(0)))
    accuracies = [f"{right / total:.4f}" if total else "" for right, total in zip(correct, totals, strict=True)]
    confused = [worst.get(index, ("", 0)) for index in range(len(labels))]
    rows = zip(labels, totals, correct, accuracies, predicted, *zip(*confused, strict=True), strict=True)
    write_csv(folder / TABLE, COLUMNS, rows)
    draw_confusion_matrix(counts, labels, folder / FIGURE, items=items)
    return folder / FIGURE


def draw_confusion_matrix(counts: Tensor, labels: Sequence[str], output: Path, items: str = "images") -> None:
    """Draw the percentages of predicted labels (columns) for each true label (rows).

    Up to 40 classes, cells have numbers. Long names are shortened. Above 150 classes, the names and accuracies of the
    classes are left out, so that the figure does not grow.
    """
    names = [plain(label if len(label) <= LONGEST_NAME else f"{label[: LONGEST_NAME - 1]}…") for label in labels]
    is_named = len(names) <= MOST_NAMED
    smallest = SMALLEST_CELL if is_named else 0
    cell = max(min(LARGEST_CELL, LARGEST_MATRIX / len(names)), smallest, SMALLEST_MATRIX / len(names))
    side, font = cell * len(names), 9 if cell > 0.3 else 7.5
    figure = Figure(figsize=(side + BARS + 4, side))  # it grows by what is outside when it is saved

    def panel(left: float, width: float, **options: object) -> Axes:
        return figure.add_axes((left / (side + BARS + 4), 0, width / (side + BARS + 4), 1), **options)

    matrix = panel(0, side)
    draw_cells(matrix, counts, cell)
    ticks = range(len(names)) if is_named else ()
    rotation = {"rotation": 90 if cell < 0.5 else 45, "ha": "right", "rotation_mode": "anchor"}
    matrix.set_xticks(ticks, names if is_named else (), fontsize=font, **rotation)
    matrix.set_yticks(ticks, names if is_named else (), fontsize=font)
    matrix.set(xlabel="predicted label", ylabel="true label")
    matrix.set_title(f"test {items}, % of each row (n = {counts.sum():,})", fontsize=11)
    if is_named:
        draw_accuracies(panel(side + GAP, BARS, sharey=matrix), counts, font)
    draw_pairs(panel(side + 2 * GAP + BARS, 3), counts, names, side)
    figure.savefig(output, dpi=130, bbox_inches="tight")


def draw_cells(axes: Axes, counts: Tensor, cell: float) -> None:
    """Draw the matrix, with numbers if its cells, of `cell` inches, are large enough for them."""
    proportions, scale = (counts / counts.sum(1, keepdim=True).clamp(min=1)).numpy(), PowerNorm(0.5, 0, 1)
    axes.imshow(proportions, cmap=COUNTS, norm=scale)  # the root makes rare errors visible
    if 1 < len(counts) <= MOST_NAMED:
        borders = [place - 0.5 for place in range(1, len(counts))]
        axes.set_xticks(borders, minor=True)
        axes.set_yticks(borders, minor=True)
        axes.grid(which="minor", color=HIGHLIGHT_GRAY, linewidth=0.5)
        axes.tick_params(which="minor", length=0)
    if cell >= 0.25:
        for row, column in counts.nonzero().tolist():
            value = proportions[row, column]
            short = f"{100 * value:.0f}" if value >= 0.005 else "<1"
            text, size = (f"{100 * value:.1f}", 7.5) if cell >= 0.4 else (short, 6.5)
            color = "white" if scale(value) > 0.6 else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=size, color=color)


def draw_accuracies(axes: Axes, counts: Tensor, font: float) -> None:
    """Draw each class's accuracy as a bar beside its row."""
    for row, (correct, total) in enumerate(zip(counts.diag().tolist(), counts.sum(1).tolist(), strict=True)):
        if total:
            axes.barh(row, correct / total, 0.8, color=BLUE, alpha=0.35)
        axes.text(0.03, row, f"{100 * correct / total:.1f}" if total else "no items", va="center", fontsize=font - 1)
    axes.tick_params(left=False, labelleft=False, labelsize=font)
    axes.tick_params(which="minor", length=0)
    axes.set(xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0", "50", "100"])
    axes.set_title("accuracy (%)", fontsize=11)


def draw_pairs(axes: Axes, counts: Tensor, names: Sequence[str], inches: float) -> None:
    """List the most confused pairs of labels, as many as fit, with their number and percentage of the true label."""
    axes.axis("off")
    axes.set_title("most confused: true → predicted", fontsize=11, loc="left")
    pairs = most_confused(counts)[: min(PAIRS, int(inches / LINE))]
    for place, (row, column, count) in enumerate(pairs):
        share = 100 * count / counts[row].sum()
        number = f"{count:,} ({share:.1f} %)"
        axes.text(0, 1 - (place + 0.5) * LINE / inches, number, va="center", fontsize=9)
        axes.text(0.36, 1 - (place + 0.5) * LINE / inches, f"{names[row]} → {names[column]}", va="center", fontsize=9)
    if not pairs:
        axes.text(0, 1 - 0.5 * LINE / inches, "none", va="center", fontsize=9)


def most_confused(counts: Tensor) -> list[tuple[int, int, int]]:
    """The pairs of different classes that were confused, the most frequent first.

    Shape:
        (C, C), the number of items by true class (rows) and predicted class (columns)
        -> true class, predicted class and number of items of each pair
    """
    pairs = [(row, column, int(counts[row, column])) for row, column in counts.nonzero().tolist() if row != column]
    return sorted(pairs, key=lambda pair: -pair[2])
