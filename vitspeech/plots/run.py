"""What a finished run shows: its metrics in one table, learning curves and a confusion matrix."""

import csv
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from torch import Tensor

from vitspeech.plots.style import BLUE, COUNTS, VERMILION


def merge_metrics(run: Path) -> list[dict[str, str]]:
    """Join the logs of a run and of its resumptions to `metrics.csv`; a step that was run again counts once."""
    rows: dict[tuple[int, bool, bool], dict[str, str]] = {}
    logs = sorted((run / "logs").glob("*/metrics.csv"), key=lambda log: int(log.parent.name))
    for log in logs:
        with log.open() as file:
            for row in csv.DictReader(file):
                if None in row.values():
                    continue  # the line that a killed run was writing
                place = (int(row["step"]), bool(row.get("val_loss")), bool(row.get("train_loss_epoch")))
                rows[place] = row
    merged = [rows[place] for place in sorted(rows)]
    names = sorted({name for row in merged for name in row})
    with (run / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["epoch", "step", *(name for name in names if name not in ("epoch", "step"))])
        writer.writeheader()
        writer.writerows(merged)
    return merged


def draw_learning_curves(rows: Sequence[dict[str, str]], path: Path) -> None:
    """Loss, and accuracy or error rate, against the epoch: training and validation."""
    figure, (losses, rates) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")

    def draw(axes: pyplot.Axes, name: str, label: str, color: str) -> None:
        points = [(int(row["epoch"]) + 1, float(row[name])) for row in rows if row.get(name)]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                color=color,
                label=label,
                marker="o" if len(points) < 20 else None,
            )

    draw(losses, "train_loss_epoch", "training (augmented, as trained)", VERMILION)
    draw(losses, "val_loss", "validation", BLUE)
    counts_errors = any(row.get("val_error_rate") for row in rows)
    draw(rates, "val_error_rate" if counts_errors else "val_accuracy", "validation", BLUE)
    losses.set(xlabel="epoch", ylabel="loss (nats)")
    rates.set(xlabel="epoch", ylabel="error rate of units" if counts_errors else "accuracy")
    for axes in (losses, rates):
        if counts_errors and all(min(line.get_ydata()) > 0 for line in axes.lines):
            axes.set_yscale("log")  # CTC begins twenty times as high as it ends
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def draw_confusion_matrix(counts: Tensor, labels: Sequence[str], path: Path, items: str = "images") -> None:
    """Shares of each true label's items given each label; the numbers are written in up to 20 classes."""
    shares = (counts / counts.sum(1, keepdim=True).clamp(min=1)).numpy()
    size = max(5.0, min(0.55 * len(labels) + 2, 16))
    figure, axes = pyplot.subplots(figsize=(size, size), layout="constrained")
    axes.imshow(shares, cmap=COUNTS, vmin=0, vmax=1)
    ticks = range(len(labels))
    small = 8 if len(labels) <= 20 else 5
    axes.set_xticks(
        ticks,
        labels,
        rotation=90 if len(labels) > 20 else 45,
        ha="right",
        rotation_mode="anchor",
        fontsize=small,
    )
    axes.set_yticks(ticks, labels, fontsize=small)
    axes.set(xlabel="given label", ylabel="true label", title=f"test {items}, % of each row (n = {counts.sum():,})")
    if len(labels) <= 20:
        for row in ticks:
            for column in ticks:
                if counts[row, column]:
                    shade = "white" if shares[row, column] > 0.5 else "black"
                    axes.text(
                        column,
                        row,
                        f"{100 * shares[row, column]:.1f}",
                        ha="center",
                        va="center",
                        fontsize=7,
                        color=shade,
                    )
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
