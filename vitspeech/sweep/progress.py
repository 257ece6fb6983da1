"""The figure of a sweep: the validation error against the time of training."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from vitspeech.plots.style import plain, series_styles
from vitspeech.sweep.results import Row

TICKS = [digit * power for power in (0.1, 1, 10, 100) for digit in (1, 2, 3, 5, 7)]  # percent


def is_error(metric: str) -> bool:
    """Whether lower values of the metric are better."""
    return metric.endswith("error_rate")


def draw_progress(rows: Sequence[Row], output: Path) -> bool:
    """Draw the validation error of each variant against the minutes of training, and say whether there is one.

    The error is the error rate, or 100 % minus the accuracy. Its axis is logarithmic, since good variants differ in
    tenths of a percent, and linear if some error is 0. The epochs of a run count as equally long. Thin lines are the
    seeds, the thick one is their mean.

    Args:
        rows: The runs of the sweep.
        output: The PNG file.
    """
    curves, metrics = defaultdict(list), set()
    for row in rows:
        for metric, curve in row.result.progress.items() if row.result is not None else ():
            if len(curve) > 1:
                epochs, values = zip(*curve, strict=True)
                minutes = numpy.array(epochs) / epochs[-1] * row.result.minutes
                errors = numpy.array(values) if is_error(metric) else 1 - numpy.array(values)
                curves[row.variant].append((minutes, 100 * errors))
                metrics.add(metric)
    if len(metrics) == 1:  # two of different kinds have no common axis
        draw(curves, metrics.pop(), output)
        return True
    return False


def draw(curves: Mapping[str, Sequence[tuple[numpy.ndarray, numpy.ndarray]]], metric: str, output: Path) -> None:
    """Draw the curves of each variant: minutes and percent of each seed."""
    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    axes = figure.subplots()
    for (name, seeds), style in zip(curves.items(), series_styles(len(curves)), strict=True):
        line = {"color": style.color, "linestyle": style.dashes}
        for minutes, values in seeds if len(seeds) > 1 else ():
            axes.plot(minutes, values, linewidth=0.8, alpha=0.4, **line)
        # Seeds take different times for the same epochs: the mean is over the seeds at the same part of the training.
        parts = numpy.linspace(0, 1, max(len(minutes) for minutes, _ in seeds))
        mean_minutes, mean_values = (
            numpy.mean(
                [numpy.interp(parts, numpy.linspace(0, 1, len(seed[axis])), seed[axis]) for seed in seeds], axis=0
            )
            for axis in (0, 1)
        )
        axes.plot(mean_minutes, mean_values, linewidth=1.8, label=plain(f"{name} ({len(seeds)})"), **line)
    name = metric.removeprefix("val_").replace("_", " ")
    axes.set(xlabel="minutes of training", ylabel=f"{name if is_error(metric) else f'100 − {name}'} in validation (%)")
    if min(values.min() for seeds in curves.values() for _, values in seeds) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(FixedLocator(TICKS))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, title="variant (seeds)", title_fontsize=8)
    figure.savefig(output, dpi=110)
