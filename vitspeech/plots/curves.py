"""Learning curves of a run, from the rows of its metrics.csv."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitspeech.plots.style import BLUE, VERMILION

MARKED_POINTS = 20  # curves of fewer points have markers


def draw_learning_curves(rows: Sequence[dict[str, str]], output: Path) -> None:
    """Draw the training and validation loss, and the validation accuracy or error rate, against the epoch."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    losses, rates = figure.subplots(1, 2)
    has_error_rate = any(row.get("val_error_rate") for row in rows)
    draw_curve(losses, rows, "train_loss_epoch", "training (augmented)", VERMILION)
    draw_curve(losses, rows, "val_loss", "validation", BLUE)
    draw_curve(rates, rows, "val_error_rate" if has_error_rate else "val_accuracy", "validation", BLUE)
    losses.set(xlabel="epoch", ylabel="loss (nats)")
    rates.set(xlabel="epoch", ylabel="error rate of units" if has_error_rate else "accuracy")
    for axes in (losses, rates):
        if has_error_rate and all(min(line.get_ydata()) > 0 for line in axes.lines):
            axes.set_yscale("log")  # the CTC loss falls by a factor of about twenty
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()
    figure.savefig(output, dpi=130)


def draw_curve(axes: Axes, rows: Sequence[dict[str, str]], name: str, label: str, color: str) -> None:
    """Draw one metric against the epoch, unless no row has it; several values in an epoch are spread over it."""
    values: dict[int, list[float]] = {}
    for row in rows:
        if row.get(name):
            values.setdefault(int(row["epoch"]), []).append(float(row[name]))
    points = [
        (epoch + number / len(inside), value)
        for epoch, inside in values.items()
        for number, value in enumerate(inside, start=1)
    ]
    if points:
        marker = "o" if len(points) < MARKED_POINTS else None
        axes.plot(*zip(*points, strict=True), color=color, label=label, marker=marker)
