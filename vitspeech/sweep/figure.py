"""The figure of a sweep: a dot for each seed, and mean and standard deviation of each variant."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from vitspeech.plots.style import BLUE, GRAY, plain, series_styles
from vitspeech.sweep.results import Row, is_score, label
from vitspeech.sweep.summaries import Summary

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
