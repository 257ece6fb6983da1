"""The figure of the encoders: accuracy against FLOPs, and which of them stream with which delay."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from vitspeech.plots.style import BLUE, DARK_GRAY, VERMILION, plain
from vitspeech.sweep.figure import DPI, axis_label
from vitspeech.sweep.results import is_score
from vitspeech.sweep.summaries import Summary

LINE = 0.075  # smallest distance of two labels, as a fraction of the height
Encoder = tuple[Summary, Mapping[str, float | None]]


def draw_encoders(encoders: Sequence[Encoder], metric: str, path: Path) -> None:
    """Draw the mean and standard deviation of each encoder against its FLOPs for a second of sound.

    Args:
        encoders: Each with its test metrics, and its costs with `flops_per_second` and `delay_ms`.
        metric: The main metric.
        path: The PNG file.
    """
    scale = 100 if is_score(metric) else 1
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    places, labels = [], []
    for summary, cost in encoders:
        average, deviation = (scale * (value or 0) for value in summary.scores[metric])
        flops, delay = cost["flops_per_second"] / 1e6, cost["delay_ms"]
        color, fill = (VERMILION, "none") if delay is None else (BLUE, "full")
        axes.errorbar(flops, average, deviation, fmt="o", color=color, fillstyle=fill, markersize=9, capsize=4)
        places.append((flops, average))
        labels.append((plain(summary.variant) + ("" if delay is None else f", {delay:.0f} ms"), color))
    axes.set_xscale("log")
    low, high = min(flops for flops, _ in places), max(flops for flops, _ in places)
    axes.set_xlim(low / 1.25, high * max(1.6, (high / low) ** 0.35))  # room for the labels at the right
    axes.margins(y=0.12)
    low, high = axes.get_ylim()
    heights = spaced([(average - low) / (high - low) for _, average in places])
    for (flops, average), height, (text, color) in zip(places, heights, labels, strict=True):
        axes.annotate(
            text,
            (flops, average),
            xytext=(14, (height - (average - low) / (high - low)) * 72 * 4),
            textcoords="offset points",
            color=color,
            va="center",
            fontsize=11,
        )
    axes.set_ylim(low, high)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(ticks(places))
    axes.set(xlabel="MFLOPs for a second of sound", ylabel=axis_label(metric))
    streams = Line2D([], [], color=BLUE, marker="o", markersize=9, linestyle="none")
    others = Line2D([], [], color=VERMILION, marker="o", markersize=9, linestyle="none", fillstyle="none")
    legend = figure.legend(
        [streams, others],
        ["streams, with this delay", "needs the whole recording"],
        loc="outside upper center",
        ncols=2,
    )
    for text in legend.get_texts():
        text.set_color(DARK_GRAY)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=DPI)


def spaced(heights: Sequence[float]) -> list[float]:
    """Heights of labels as fractions of the axis, at least `LINE` apart, in their order."""
    result, last = dict.fromkeys(range(len(heights)), 0.0), float("-inf")
    for place in sorted(range(len(heights)), key=lambda place: heights[place]):
        last = result[place] = max(heights[place], last + LINE)
    over = max(0.0, last - (1 - LINE / 2))
    return [result[place] - over for place in range(len(heights))]


def ticks(places: Sequence[tuple[float, float]]) -> list[float]:
    """Round numbers on the logarithmic axis."""
    low, high = min(flops for flops, _ in places) / 1.25, 1.6 * max(flops for flops, _ in places)
    steps = [10.0**power * digit for power in range(-6, 12) for digit in (1, 2, 3, 5)]
    return [step for step in steps if low <= step <= high]
