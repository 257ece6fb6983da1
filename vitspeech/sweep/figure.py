"""The figure of a sweep: a dot for each seed, and mean and standard deviation of each variant.

The figure of a sweep: the validation error against the time of training.

The figure of a sweep over sequence tasks: accuracy by the length of the input.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter

from vitspeech.errors import InputError
from vitspeech.files import read_text
from vitspeech.plots.style import BLUE, GRAY, plain, series_styles
from vitspeech.sweep.results import Row, Summary, is_score, label

DPI = 130
WIDE_RANGE = 8  # a numeric key whose values span this factor gets a logarithmic axis
Varied = Mapping[str, Mapping[str, str]]


def draw(rows: Sequence[Row], summaries: Sequence[Summary], varied: Varied, path: Path) -> None:
    """Draw the main metric of every finished run.

    If all variants vary one numeric key, it is the horizontal axis, with a line for each config. Otherwise each variant
    has a line of its own.

    Args:
        rows: The runs.
        summaries: The variants, from the same runs.
        varied: The varied values of each variant.
        path: The PNG file.
    """
    metric = next(row.result.main for row in rows if row.result is not None)
    shown = [summary for summary in summaries if metric in summary.scores]
    key = numeric_key([varied.get(summary.variant, {}) for summary in shown])
    if key is None:
        draw_variants(rows, shown, metric, path)
    else:
        draw_values(rows, shown, metric, key, varied, path)


def numeric_key(variants: Sequence[Mapping[str, str]]) -> str | None:
    """The one key that varies, if it does so in every variant, and its values are at least two numbers."""
    keys = {key for values in variants for key in values}
    if len(keys) != 1 or not all(variants):
        return None
    key = keys.pop()
    texts = {values[key] for values in variants}
    return key if len(texts) > 1 and all(number(text) is not None for text in texts) else None


def number(text: str) -> float | None:
    """A finite number in a text, or `None`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def points(rows: Sequence[Row], variant: str, metric: str) -> dict[int, float]:
    """The value of a metric by seed, in percent if it is an accuracy or an error rate."""
    scale = 100 if is_score(metric) else 1
    return {
        row.seed: scale * row.result.metrics[metric]
        for row in rows
        if row.variant == variant and row.result is not None and metric in row.result.metrics
    }


def axis_label(metric: str) -> str:
    """The label of the metric's axis."""
    lower = " (lower is better)" if metric.endswith("error_rate") else ""
    return f"{label(metric)} on the test set{' (%)' if is_score(metric) else ''}{lower}"


def draw_variants(rows: Sequence[Row], summaries: Sequence[Summary], metric: str, path: Path) -> None:
    """One line of dots for each variant, the first one at the top."""
    figure = Figure(figsize=(7.5, 1.3 + 0.45 * len(summaries)), layout="constrained")
    axes = figure.subplots()
    seeds = sorted({seed for summary in summaries for seed in summary.seeds})
    for place, summary in enumerate(summaries):
        values = points(rows, summary.variant, metric)
        # The same seed is at the same height in every line, so that pairs can be compared.
        heights = [place + 0.36 * ((seeds.index(seed) + 0.5) / len(seeds) - 0.5) for seed in values]
        axes.plot(values.values(), heights, "o", color=GRAY, fillstyle="none", markersize=5)
        scale = 100 if is_score(metric) else 1
        average, deviation = (scale * (value or 0) for value in summary.scores[metric])
        axes.errorbar(average, place, xerr=deviation or None, fmt="D", color=BLUE, markersize=7, capsize=4, zorder=3)
    axes.set_yticks(range(len(summaries)), [f"{plain(s.variant)} ({len(s.seeds)})" for s in summaries])
    axes.set_ylim(len(summaries) - 0.4, -0.6)
    axes.set_xlabel(f"{axis_label(metric)}; circles: seeds, diamonds: mean ± sd")
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=DPI)


def draw_values(
    rows: Sequence[Row], summaries: Sequence[Summary], metric: str, key: str, varied: Varied, path: Path
) -> None:
    """The metric against the varied value, with a line through the means of each config."""
    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    axes = figure.subplots()
    configs: dict[str, list[Summary]] = {}
    for summary in summaries:
        configs.setdefault(summary.variant.split(",")[0], []).append(summary)
    values = sorted({number(varied[summary.variant][key]) for summary in summaries})
    scale = 100 if is_score(metric) else 1
    for (config, variants), style in zip(configs.items(), series_styles(len(configs)), strict=True):
        variants.sort(key=lambda summary: number(varied[summary.variant][key]))
        places = [number(varied[summary.variant][key]) for summary in variants]
        averages, deviations = zip(*(summary.scores[metric] for summary in variants), strict=True)
        axes.errorbar(
            places,
            [scale * average for average in averages],
            [scale * (deviation or 0) for deviation in deviations],
            color=style.color,
            linestyle=style.dashes,
            marker=style.marker,
            capsize=4,
            label=plain(config),
        )
        for place, summary in zip(places, variants, strict=True):
            scores = points(rows, summary.variant, metric).values()
            axes.plot([place] * len(scores), scores, style.marker, color=style.color, fillstyle="none", markersize=5)
    if values[0] > 0 and values[-1] / values[0] >= WIDE_RANGE:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set(xlabel=plain(key), ylabel=axis_label(metric), title="one mark for each seed, a line through mean ± sd")
    axes.grid(alpha=0.3)
    if len(configs) > 1:
        axes.legend()
    figure.savefig(path, dpi=DPI)


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
        draw_curves(curves, metrics.pop(), output)
        return True
    return False


def draw_curves(curves: Mapping[str, Sequence[tuple[numpy.ndarray, numpy.ndarray]]], metric: str, output: Path) -> None:
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


LENGTHS = "lengths.csv"  # of a run
MAIN = "sequence_accuracy"  # of runs on sequence tasks; recognizers have a table of this name with other columns
Curve = dict[int, float]


def draw_lengths(folder: Path, rows: Sequence[Row], output: Path) -> bool:
    """Draw the sequence accuracy of each variant by length, if they are of sequence tasks; say whether.

    Lines are means over seeds, dots the seeds. The dotted line is at the longest length of training.

    Args:
        folder: The folder of the sweep.
        rows: Its runs.
        output: The PNG file.

    Raises:
        InputError: If a `lengths.csv` is not one.
    """
    curves, trained = defaultdict(list), 0
    for row in rows:
        file = folder / row.variant / f"seed-{row.seed}" / LENGTHS
        if row.result is not None and row.result.main == MAIN and file.is_file():
            curve, longest = read_lengths(file)
            curves[row.variant].append(curve)
            trained = max(trained, longest)
    if curves:
        draw_panels(curves, trained, output)
    return bool(curves)


def read_lengths(file: Path) -> tuple[Curve, int]:
    """The sequence accuracy by number of input symbols, and the largest number in the first test set, as in training.

    Raises:
        InputError: If it is not such a table.
    """
    rows = list(csv.DictReader(read_text(file).splitlines()))
    try:
        curve = {int(row["input_symbols"]): float(row["sequence_accuracy"]) for row in rows}
        return curve, max(int(row["input_symbols"]) for row in rows if row["test_set"] == rows[0]["test_set"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: not a table of accuracies by length ({error!r}); remove it") from None


def draw_panels(curves: Mapping[str, Sequence[Curve]], trained: int, output: Path) -> None:
    """Draw the curves of each variant, one per seed."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for (name, seeds), style in zip(curves.items(), series_styles(len(curves)), strict=True):
        lengths = sorted({length for curve in seeds for length in curve})
        means = [100 * mean(curve[length] for curve in seeds if length in curve) for length in lengths]
        line = {"color": style.color, "linestyle": style.dashes, "marker": style.marker, "markersize": 5}
        axes.plot(lengths, means, **line, label=plain(f"{name} ({len(seeds)})"))
        for curve in seeds if len(seeds) > 1 else ():
            values = [100 * curve[length] for length in sorted(curve)]
            axes.plot(sorted(curve), values, ".", color=style.color, alpha=0.4, markersize=5)
    axes.axvline(trained, color=GRAY, linestyle=":", linewidth=1.2)
    axes.set(xlabel="input symbols (dotted: the longest in training)", ylabel="sequences right (%)", ylim=(-3, 103))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, title="variant (seeds)", title_fontsize=8)
    figure.savefig(output, dpi=110)
