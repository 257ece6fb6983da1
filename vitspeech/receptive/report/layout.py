"""What the figures share: the style of each model and state, fonts, legends, finite numbers.

A model has the same color and marker in every figure. Dashes distinguish states where several are drawn, and models
elsewhere, so that every figure can be read in grayscale. Fonts are chosen so that a figure scaled to 400 px stays
readable.

Shapes: L layers.
"""

from collections.abc import Iterable, Sequence
from math import isfinite, nan
from re import findall

import matplotlib
import numpy
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitspeech.metrics.intervals import Estimate
from vitspeech.plots.style import DARK_GRAY, REFERENCE_GRAY, SeriesStyle, plain, series_styles
from vitspeech.receptive.compare import Result, State

STATES = {"trained": "-", "untrained": "--", "other size": ":"}
DEPTH = "relative depth"
WIDTH = 7.0  # inches
SMALL_FONT = 9.0  # points; 7 px when the figure is scaled to 400 px
THEORETICAL = {"linewidth": 1.1, "alpha": 0.9}
UNIFORM = {"linewidth": 1.1, "linestyle": (0, (6, 2, 1, 2)), "alpha": 0.9}
REFERENCE = {"color": REFERENCE_GRAY, "linewidth": 0.9}
LEGEND_CHARACTERS, HANDLE_CHARACTERS = 78, 9  # per line of a legend; taken by a handle and its spacing

StyledState = tuple[Result, State, SeriesStyle]

readable = matplotlib.rc_context(  # decorates the functions that draw a figure
    {
        "font.size": 10.5,
        "axes.titlesize": 10.5,
        "axes.labelsize": 10.5,
        "axes.unicode_minus": True,
        "legend.fontsize": 10,
        "lines.linewidth": 2.0,
        "lines.markersize": 5.5,
    }
)


def with_styles(results: Sequence[Result]) -> list[tuple[Result, SeriesStyle]]:
    """Each model with its style."""
    return list(zip(results, series_styles(len(results)), strict=True))


def state_label(result: Result, state: State) -> str:
    """The key of `STATES` for a state of a model."""
    if state.size != result.main.size:
        return "other size"
    return "trained" if state.trained else "untrained"


def all_states(results: Sequence[Result]) -> list[StyledState]:
    """Every state of every model with the model's style; untrained states first, then by input size."""
    return [
        (result, state, style)
        for result, style in with_styles(results)
        for state in sorted(result.states, key=lambda state: (state.trained, state.size))
    ]


def main_size_states(results: Sequence[Result]) -> list[StyledState]:
    """The states at the input size that the report is about: untrained, and trained if there are weights."""
    return [(result, state, style) for result, state, style in all_states(results) if state.size == result.main.size]


def labels_present(states: Iterable[StyledState]) -> list[str]:
    """The keys of `STATES` that occur, in their order."""
    labels = {state_label(result, state) for result, state, _ in states}
    return [label for label in STATES if label in labels]


def subplots(rows: int, columns: int, height: float, **options: object) -> tuple[Figure, numpy.ndarray]:
    """A figure of the standard width, `height` inches high, whose panels have a light grid."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options)
    for axes in panels.flat:
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=SMALL_FONT + 0.5)
    return figure, panels


def add_legend(
    figure: Figure, models: Sequence[tuple[Result, SeriesStyle]], *others: Line2D, states: Sequence[str] = ()
) -> None:
    """Add a legend of models, states and other lines above the panels; without states, dashes distinguish models."""
    handles = [
        Line2D(
            [],
            [],
            color=style.color,
            marker=style.marker,
            linestyle="-" if states else style.dashes,
            label=plain(result.subject.name),
        )
        for result, style in models
    ]
    place_legend(figure, [*handles, *state_handles(states, [result for result, _ in models]), *others])


def state_handles(states: Sequence[str], results: Sequence[Result]) -> list[Line2D]:
    """Legend entries for the dashes of states; the caption has a note on "untrained*"."""
    switched_on = any(state.zero_init for result in results for state in result.states)
    labels = {state: f"{state}*" if switched_on and state == "untrained" else state for state in states}
    return [Line2D([], [], color=DARK_GRAY, linestyle=STATES[state], label=labels[state]) for state in states]


def place_legend(figure: Figure, handles: Sequence[Line2D], **options: object) -> None:
    """Place a legend above the panels in as many columns as fit; options are those of `Figure.legend`."""
    lengths = [len(handle.get_label()) + HANDLE_CHARACTERS for handle in handles]
    fitting = (
        columns
        for columns in range(len(handles), 0, -1)
        if columns == 1 or sum(part.max() for part in numpy.array_split(lengths, columns)) <= LEGEND_CHARACTERS
    )
    options = {"frameon": False, "handlelength": 2.6, "columnspacing": 1.3} | options
    figure.legend(handles=handles, loc="outside upper center", ncols=next(fitting), **options)


def finite(estimates: Sequence[Estimate | None]) -> numpy.ndarray:
    """Value, low and high of each estimate; NaN where it is `None` or one of them is not finite: (L, 3)."""
    rows = (e if e is not None and all(map(isfinite, e)) else (nan, nan, nan) for e in estimates)
    return numpy.array(list(rows), dtype=float).reshape(-1, 3)


def wrapped(name: str, limit: int) -> str:
    """The name of a model in lines of at most `limit` characters, broken after punctuation only."""
    lines = [""]
    for part in findall(r"[^-_./: ]*[-_./: ]?", name):
        if lines[-1] and len(lines[-1] + part) > limit:
            lines.append("")
        lines[-1] += part
    return plain("\n".join(lines))
