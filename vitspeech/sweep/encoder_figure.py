"""The figure of the encoders: accuracy against speed, and which of them stream with which delay."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitspeech.plots.style import BLUE, DARK_GRAY, VERMILION, plain
from vitspeech.sweep.figure import DPI, axis_label
from vitspeech.sweep.results import Summary, is_score

HEIGHT_POINTS = 270  # of the axes, about
LINE, LABEL = 0.07, 0.25  # height and width of a label, as fractions of the axes
Encoder = tuple[Summary, Mapping[str, float | None]]


def draw_encoders(encoders: Sequence[Encoder], metric: str, path: Path) -> None:
    """Draw the mean and standard deviation of each encoder against its clips/s in inference.

    Args:
        encoders: Each with its test metrics, and its costs with `clips_per_second` and `delay_ms`.
        metric: The main metric.
        path: The PNG file.
    """
    scale = 100 if is_score(metric) else 1
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    places, labels = [], []
    for summary, cost in encoders:
        average, deviation = (scale * (value or 0) for value in summary.scores[metric])
        speed, delay = cost["clips_per_second"], cost["delay_ms"]
        color, fill = (VERMILION, "none") if delay is None else (BLUE, "full")
        axes.errorbar(speed, average, deviation, fmt="o", color=color, fillstyle=fill, markersize=9, capsize=4)
        places.append((speed, average))
        labels.append((plain(summary.variant) + ("" if delay is None else f", {delay:.0f} ms"), color))
    right = 1.35 * max(speed for speed, _ in places)  # room for the labels at the right
    axes.set_xlim(0, right)
    axes.margins(y=0.12)
    axes.autoscale_view(scalex=False)
    low, high = axes.get_ylim()
    fractions = [(speed / right, (average - low) / (high - low)) for speed, average in places]
    for place, (_, own), height, (text, color) in zip(places, fractions, spaced(fractions), labels, strict=True):
        offset = (14, (height - own) * HEIGHT_POINTS)
        axes.annotate(text, place, offset, textcoords="offset points", color=color, va="center", size=11)
    axes.set(xlabel="clips/s in inference, in batches", ylabel=axis_label(metric))
    streams = Line2D([], [], color=BLUE, marker="o", markersize=9, linestyle="none")
    others = Line2D([], [], color=VERMILION, marker="o", markersize=9, linestyle="none", fillstyle="none")
    legend = figure.legend(
        [streams, others],
        ["streams with this delay", "does not stream"],
        loc="outside upper center",
        ncols=2,
    )
    for text in legend.get_texts():
        text.set_color(DARK_GRAY)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=DPI)


def spaced(places: Sequence[tuple[float, float]]) -> list[float]:
    """The heights of labels that start at points, moved up where they would overlap.

    Args:
        places: Horizontal and vertical place of each point, as fractions of the axes.
    """
    heights: dict[int, float] = {}
    for index in sorted(range(len(places)), key=lambda index: places[index][1]):
        across, height = places[index]
        near = sorted(other for place, other in heights.items() if abs(places[place][0] - across) < LABEL)
        for other in near:
            if abs(other - height) < LINE:
                height = other + LINE
        heights[index] = height
    return [heights[index] for index in range(len(places))]
