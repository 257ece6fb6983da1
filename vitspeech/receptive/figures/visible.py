"""Accuracy or agreement when only a window of the input is visible: one panel per replacement, one line per model."""

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from vitspeech.plots.style import DARK_GRAY, SeriesStyle
from vitspeech.receptive.compare import Result
from vitspeech.receptive.figures.layout import add_legend, readable, subplots, with_styles

KEPT = 0.9
OUTSIDE = {"mean": "training mean", "blur": "blurred input", "shuffle": "shuffled input"}
BEYOND = 1.2  # x position of the complete inputs, relative to the largest radius below


@readable
def draw_visible(results: Sequence[Result], *, unit: str, window: str) -> Figure:
    """The accuracy or agreement of every measured model with the band of its intervals.

    Args:
        results: The models, at least one with `visible`.
        unit: Unit of length: px or ms.
        window: Description of the radius.
    """
    models = [(result, style) for result, style in with_styles(results) if result.visible is not None]
    names = list(dict.fromkeys(name for result, _ in models for name in result.visible.accuracy))
    largest = max(radii_of(result)[-2] for result, _ in models)
    figure, (panels,) = subplots(1, len(names), 3.9, sharex=True, sharey=True)
    for axes, name in zip(panels, names, strict=True):
        for result, style in models:
            if name in result.visible.accuracy:
                draw_curve(axes, result, name, style, BEYOND * largest)
        axes.set(title=f"outside:\n{OUTSIDE.get(name, name)}", ylim=(-0.02, 1.02))
    steps = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, largest)
    ticks = [tick for tick in steps if tick <= 0.9 * largest]
    panels[0].set_xticks([*ticks, BEYOND * largest], [*(f"{tick:g}" for tick in ticks), "all"])
    panels[0].set_ylabel(quantity(results))
    figure.supxlabel(f"{window} ({unit})", fontsize="medium")
    threshold = Line2D([], [], color=DARK_GRAY, marker="|", markersize=16, markeredgewidth=2, linestyle="")
    threshold.set_label(f"{100 * KEPT:.0f} % of the full {quantity(results)}")
    add_legend(figure, models, threshold)
    return figure


def quantity(results: Sequence[Result]) -> str:
    """What the curves show: accuracy, agreement, or either."""
    return " or ".join(sorted({result.visible.quantity for result in results if result.visible is not None}))


def agreement_note(results: Sequence[Result]) -> str:
    """A sentence for the caption on the models without matching labels; empty if there are none."""
    names = [result.subject.name for result in results if result.visible is not None and result.visible.agreement]
    if not names:
        return ""
    return (
        f" For {', '.join(names)}, whose labels do not match the data, agreement with the model's own predictions for "
        "complete inputs is shown instead of accuracy."
    )


def radii_of(result: Result) -> numpy.ndarray:
    """The radii of the windows in px or ms."""
    return result.main.layers[0].cell * numpy.array(result.visible.radii)


def draw_curve(axes: Axes, result: Result, name: str, style: SeriesStyle, complete: float) -> None:
    """Draw one model's curve for one replacement, and a tick where it reaches `KEPT` of its full value.

    Args:
        axes: The panel.
        result: The model.
        name: Name of the replacement.
        style: Style of the model.
        complete: x position of the complete inputs.
    """
    visible, radii = result.visible, radii_of(result)
    positions = numpy.append(radii[:-1], complete)
    axes.fill_between(positions, *numpy.transpose(visible.interval[name]), color=style.color, alpha=0.12, linewidth=0)
    line = {
        "linewidth": 1.7,
        "linestyle": style.dashes,
        "color": style.color,
        "marker": style.marker,
        "markersize": 4.5,
    }
    axes.plot(positions, visible.accuracy[name], **line)
    threshold = numpy.interp(visible.keeps(KEPT)[name].value * result.main.layers[0].cell, radii, positions)
    axes.plot(threshold, KEPT * visible.whole, "|", color=style.color, markersize=20, markeredgewidth=2.4)
