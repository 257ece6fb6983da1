"""Every attention head as a point: how far it looks, how widely, and how much like a convolution.

Shapes: L layers, H heads.
"""

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from vitspeech.receptive.comparison import Result
from vitspeech.receptive.figures.layout import Look, with_looks

DEPTH = "depth (share of the attention layers)"


def depths(result: Result) -> numpy.ndarray:
    """How deep each head lies among the model's layers of attention, 1 in the last: (L, H)."""
    count, heads = result.heads.distance.shape
    return numpy.repeat(numpy.arange(1, count + 1)[:, None] / count, heads, axis=1)


def with_heads(results: Sequence[Result]) -> list[tuple[Result, Look]]:
    """Models whose attention was measured, and how they look."""
    return [(result, look) for result, look in with_looks(results) if result.heads is not None]


def scatter(axes: Axes, results: Sequence[Result], x: str, y: str) -> PathCollection:
    """Two measures against each other; colors are depths, markers models."""
    for result, look in with_heads(results):
        points = axes.scatter(
            getattr(result.heads, x).numpy(),
            getattr(result.heads, y).numpy(),
            c=depths(result),
            cmap="cividis",
            vmin=0,
            vmax=1,
            marker=look.marker,
            s=42,
            edgecolors="black",
            linewidths=0.5,
        )
    return points


def against_depth(axes: Axes, results: Sequence[Result], measure: str, label: str) -> None:
    """A measure of every head against its depth, and a line through the means of layers."""
    for result, look in with_heads(results):
        values = getattr(result.heads, measure)
        if values is not None:
            places = depths(result)
            axes.scatter(places, values.numpy(), color=look.color, marker=look.marker, s=26, alpha=0.55, linewidths=0)
            axes.plot(places[:, 0], values.nanmean(1).numpy(), linestyle=look.dashes, color=look.color, linewidth=1.5)
    axes.set(xlabel=DEPTH, ylabel=label, xlim=(0, 1.05))
