"""Scatter plots of attention heads: mean distance, entropy, similarity to a convolution.

Shapes: L layers, H heads.
"""

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from vitspeech.plots.style import BLACK, SeriesStyle
from vitspeech.plots.style import DEPTH as DEPTH_COLORS
from vitspeech.receptive.compare import Result
from vitspeech.receptive.figures.layout import DEPTH, with_styles


def depths(result: Result) -> numpy.ndarray:
    """The relative depth of each head among the model's attention layers, 1 in the last: (L, H)."""
    count, heads = result.heads.distance.shape
    return numpy.repeat(numpy.arange(1, count + 1)[:, None] / count, heads, axis=1)


def with_heads(results: Sequence[Result]) -> list[tuple[Result, SeriesStyle]]:
    """The models whose attention was measured, with their styles."""
    return [(result, style) for result, style in with_styles(results) if result.heads is not None]


def draw_scatter(axes: Axes, results: Sequence[Result], x: str, y: str) -> PathCollection:
    """Draw two measures against each other; colors are depths, markers are models."""
    for result, style in with_heads(results):
        points = axes.scatter(
            getattr(result.heads, x).numpy(),
            getattr(result.heads, y).numpy(),
            c=depths(result),
            cmap=DEPTH_COLORS,
            vmin=0,
            vmax=1,
            marker=style.marker,
            s=42,
            edgecolors=BLACK,
            linewidths=0.5,
        )
    return points


def draw_against_depth(axes: Axes, results: Sequence[Result], measure: str, label: str) -> None:
    """Draw a measure of every head against its depth, and a line through the means of the layers."""
    for result, style in with_heads(results):
        values = getattr(result.heads, measure)
        if values is not None:
            x = depths(result)
            axes.scatter(x, values.numpy(), color=style.color, marker=style.marker, s=26, alpha=0.55, linewidths=0)
            axes.plot(x[:, 0], values.nanmean(1).numpy(), linestyle=style.dashes, color=style.color)
    axes.set(xlabel=DEPTH, ylabel=label, xlim=(0, 1.06))
