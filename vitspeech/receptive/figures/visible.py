"""Accuracy against how much of the input stays visible: a panel a replacement, a line a model."""

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from vitspeech.receptive.comparison import Result
from vitspeech.receptive.figures.layout import Look, add_legend, sheet, with_looks

KEPT = 0.9
OUTSIDE = {"mean": "the data set's mean", "blur": "the input, blurred", "shuffle": "the input, shuffled"}
BEYOND = 1.2  # where the whole inputs are drawn, in the largest radius below


def draw_visible(results: Sequence[Result], *, unit: str, window: str) -> Figure:
    """Every model that was measured, with the band of its intervals.

    Args:
        results: At least one with `visible`.
        unit: Of lengths: px or ms.
        window: What the radius is of.
    """
    models = [(result, look) for result, look in with_looks(results) if result.visible is not None]
    names = list(dict.fromkeys(name for result, _ in models for name in result.visible.accuracy))
    largest = max(radii_of(result)[-2] for result, _ in models)
    figure, (panels,) = sheet(1, len(names), 4.3, sharex=True, sharey=True)
    for axes, name in zip(panels, names, strict=True):
        for result, look in models:
            if name in result.visible.accuracy:
                draw_curve(axes, result, name, look, BEYOND * largest)
        axes.set(title=f"outside: {OUTSIDE.get(name, name)}", ylim=(-0.02, 1.02), xlabel=f"{window} ({unit})")
    steps = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, largest)
    ticks = [tick for tick in steps if tick <= largest]
    panels[0].set_xticks([*ticks, BEYOND * largest], [*(f"{tick:g}" for tick in ticks), "whole"])
    panels[0].set_ylabel("accuracy (share of the inputs)")
    kept = Line2D([], [], color="0.3", marker="|", markersize=16, markeredgewidth=2, linestyle="")
    kept.set_label(f"{100 * KEPT:.0f} % of the whole accuracy")
    add_legend(figure, models, kept)
    return figure


def radii_of(result: Result) -> numpy.ndarray:
    """The radii in px or ms."""
    return result.main.layers[0].cell * numpy.array(result.visible.radii)


def draw_curve(axes: Axes, result: Result, name: str, look: Look, whole: float) -> None:
    """One model's accuracy with one replacement, and a tick from where on it stays near that of whole inputs.

    Args:
        axes: Where.
        result: The model.
        name: Of the replacement.
        look: Of the model.
        whole: Where on x the whole inputs are drawn.
    """
    visible, radii = result.visible, radii_of(result)
    drawn = numpy.append(radii[:-1], whole)
    axes.fill_between(drawn, *numpy.transpose(visible.interval[name]), color=look.color, alpha=0.12, linewidth=0)
    line = {"linestyle": look.dashes, "color": look.color, "marker": look.marker, "markersize": 4.5}
    axes.plot(drawn, visible.accuracy[name], **line)
    kept = numpy.interp(visible.keeps(KEPT)[name] * result.main.layers[0].cell, radii, drawn)
    axes.plot(kept, KEPT * visible.whole, "|", color=look.color, markersize=18, markeredgewidth=2.2)
