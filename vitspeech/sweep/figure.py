"""The figures of a sweep: a dot for each seed, the validation error over the time of training, accuracy by length."""

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter
from numpy import ndarray

from vitspeech.files import read_text
from vitspeech.plots.style import BLUE, GRAY, plain, series_styles
from vitspeech.sweep.results import LENGTHS, Row, Summary, is_score, label, main_metric

DPI = 130
WIDE_RANGE = 8  # a numeric key whose values span this factor gets a logarithmic axis
TICKS = [digit * power for power in (0.1, 1, 10, 100) for digit in (1, 2, 3, 5, 7)]  # percent
BY_LENGTH = "sequence_accuracy"  # of runs on sequence tasks; recognizers have a table of this name with other columns
Varied = Mapping[str, Mapping[str, str]]
Curve = Sequence[ndarray]  # horizontal and vertical values of one seed


def draw(rows: Sequence[Row], summaries: Sequence[Summary], varied: Varied, path: Path) -> None:
    """Draw the main metric of every finished run.

    If all variants vary one numeric key, it is the horizontal axis, with a line for each config. Otherwise each variant
    has a line of its own.
    """
    metric = main_metric(rows)
    shown = [summary for summary in summaries if metric in summary.scores]
    key = numeric_key([varied.get(summary.variant, {}) for summary in shown])
    if key is None:
        draw_variants(rows, shown, metric, path)
    else:
        places = {summary.variant: float(varied[summary.variant][key]) for summary in shown}
        draw_values(rows, metric, key, places, path)


def numeric_key(variants: Sequence[Mapping[str, str]]) -> str | None:
    """The one key that varies, if it does so in every variant, and its values are at least two numbers."""
    keys = {key for values in variants for key in values}
    if len(keys) != 1 or not all(variants):
        return None
    key = keys.pop()
    texts = {values[key] for values in variants}
    try:
        return key if len(texts) > 1 and all(math.isfinite(float(text)) for text in texts) else None
    except ValueError:
        return None


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


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one grid."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    return figure, axes


def draw_variants(rows: Sequence[Row], summaries: Sequence[Summary], metric: str, path: Path) -> None:
    """One line of dots for each variant, the first one at the top."""
    figure, axes = new_figure(7.5, 1.3 + 0.45 * len(summaries))
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
    axes.grid(visible=False, axis="y")
    figure.savefig(path, dpi=DPI)


def draw_values(rows: Sequence[Row], metric: str, key: str, places: Mapping[str, float], path: Path) -> None:
    """The metric against the varied value of each variant, with a line for each config."""
    curves: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for variant, place in places.items():
        seeds = curves.setdefault(variant.split(",")[0], defaultdict(list))
        for seed, value in points(rows, variant, metric).items():
            seeds[seed].append((place, value))
    figure, axes = new_figure(7.5, 4.4)
    draw_curves(
        axes,
        {config: [numpy.array(sorted(curve)).T for curve in seeds.values()] for config, seeds in curves.items()},
    )
    values = sorted({*places.values()})
    if values[0] > 0 and values[-1] / values[0] >= WIDE_RANGE:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set(xlabel=plain(key), ylabel=axis_label(metric), title="open marks: seeds, lines: mean ± sd")
    figure.savefig(path, dpi=DPI)


def draw_curves(axes: Axes, curves: Mapping[str, Sequence[Curve]], *, by_part: bool = False) -> None:
    """Draw the mean of the curves of each variant, and those of its seeds if there are several.

    With `by_part`, curves are averaged at the same part of their length, such as of the training, since seeds take
    different times for the same epochs; they are thin lines then. Otherwise they are open marks, and mean and standard
    deviation are those at each horizontal value.
    """
    for (name, seeds), style in zip(curves.items(), series_styles(len(curves)), strict=True):
        lines = {"linestyle": style.dashes, "linewidth": 0.8, "alpha": 0.4}
        rings = {"linestyle": "none", "marker": style.marker, "fillstyle": "none", "markersize": 5}
        for across, values in seeds if len(seeds) > 1 else ():
            axes.plot(across, values, color=style.color, **(lines if by_part else rings))
        marked = {} if by_part else {"marker": style.marker, "markersize": 5, "capsize": 4, "elinewidth": 0.8}
        mean = mean_of_parts(seeds) if by_part else mean_of_values(seeds)
        text = plain(f"{name} ({len(seeds)})")
        axes.errorbar(*mean, color=style.color, linestyle=style.dashes, linewidth=1.8, label=text, **marked)
    axes.legend(fontsize=8, title="variant (seeds)", title_fontsize=8)


def mean_of_parts(seeds: Sequence[Curve]) -> Curve:
    """The mean of curves at the same parts of each."""
    parts = numpy.linspace(0, 1, max(len(across) for across, _ in seeds))
    stretched = [[numpy.interp(parts, numpy.linspace(0, 1, len(side)), side) for side in seed] for seed in seeds]
    return numpy.mean(stretched, axis=0)


def mean_of_values(seeds: Sequence[Curve]) -> tuple[ndarray, ndarray, ndarray]:
    """Each horizontal value of some seed, with mean and sample standard deviation over the seeds that have it."""
    across, values = (numpy.concatenate(sides) for sides in zip(*seeds, strict=True))
    places = numpy.unique(across)
    groups = [values[across == place] for place in places]
    deviations = [group.std(ddof=1) if len(group) > 1 else 0 for group in groups]
    return places, numpy.array([group.mean() for group in groups]), numpy.array(deviations)


def draw_progress(rows: Sequence[Row], path: Path) -> bool:
    """Draw the validation error of each variant against the minutes of training, and say whether there is one.

    The error is the error rate, or 100 % minus the accuracy. Its axis is logarithmic, since good variants differ in
    tenths of a percent, and linear if some error is 0. The epochs of a run count as equally long.
    """
    curves, metrics = defaultdict(list), set()
    for row in rows:
        for metric, curve in row.result.progress.items() if row.result is not None else ():
            if len(curve) > 1:
                epochs, values = numpy.array(curve).T
                errors = values if metric.endswith("error_rate") else 1 - values
                curves[row.variant].append((epochs / epochs[-1] * row.result.minutes, 100 * errors))
                metrics.add(metric)
    if len(metrics) != 1:  # two of different kinds have no common axis
        return False
    figure, axes = new_figure(7.5, 4.4)
    draw_curves(axes, curves, by_part=True)
    metric = metrics.pop()
    name = metric.removeprefix("val_").replace("_", " ")
    error = name if metric.endswith("error_rate") else f"100 − {name}"
    axes.set(xlabel="minutes of training", ylabel=f"{error} in validation (%)")
    if min(values.min() for seeds in curves.values() for _, values in seeds) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(FixedLocator(TICKS))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlim(left=0)
    figure.savefig(path, dpi=DPI)
    return True


def draw_lengths(folder: Path, rows: Sequence[Row], path: Path) -> bool:
    """Draw the sequence accuracy of each variant by length, if they are of sequence tasks; say whether.

    The dotted line is at the longest length of training.
    """
    curves, trained = defaultdict(list), 0
    for row in rows:
        file = folder / row.variant / f"seed-{row.seed}" / LENGTHS
        if row.result is not None and row.result.main == BY_LENGTH and file.is_file():
            curve, longest = read_lengths(file)
            curves[row.variant].append(curve)
            trained = max(trained, longest)
    if not curves:
        return False
    figure, axes = new_figure(7, 4)
    draw_curves(axes, curves)
    axes.axvline(trained, color=GRAY, linestyle=":", linewidth=1.2)
    axes.set(xlabel="input symbols (dotted: the longest in training)", ylabel="sequences right (%)", ylim=(-3, 103))
    axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(path, dpi=DPI)
    return True


def read_lengths(file: Path) -> tuple[Curve, int]:
    """The sequence accuracy in percent by number of input symbols, and the largest number in training."""
    rows = list(csv.DictReader(read_text(file).splitlines()))
    curve = sorted((int(row["input_symbols"]), 100 * float(row["sequence_accuracy"])) for row in rows)
    trained = max(int(row["input_symbols"]) for row in rows if row["test_set"] == rows[0]["test_set"])
    return numpy.array(curve).T, trained
