"""What the figures of pictures and of speech share: how models and their states are told apart, legends, names, bands.

A model has its color and marker in every figure. Where several states are drawn, dashes tell them apart; elsewhere
they, too, tell models apart, so that every figure reads in gray.

Shapes: L layers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import isfinite, nan
from re import findall

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitspeech.plots.style import COLORS, DASHES, MARKERS
from vitspeech.receptive.comparison import Result, State
from vitspeech.receptive.fields.extent import Estimate

Dashes = str | tuple[int, tuple[float, ...]]

STATES = {"trained": "-", "untrained": "--", "other size": ":"}
WIDTH = 11.0  # of a figure in inches: at 120 dpi its letters stay readable when a page shrinks it to 900 px
THIN = {"linewidth": 0.9, "alpha": 0.9}  # theoretical limits
ROOM, BESIDE = 130, 8  # letters in a line of a legend, and those that a sample and its distance take


@dataclass(frozen=True)
class Drawn:
    """A figure and its words.

    Args:
        figure: To be saved.
        title: Short.
        caption: What is drawn, what the axes are, and how to read it.
    """

    figure: Figure
    title: str
    caption: str


@dataclass(frozen=True)
class Look:
    """How a model is drawn in all figures."""

    color: str
    dashes: Dashes
    marker: str


def with_looks(results: Sequence[Result]) -> list[tuple[Result, Look]]:
    """Each model with its look; up to six differ in color, in dashes and in marker."""
    styles = zip(cycle(zip(COLORS, DASHES, strict=True)), cycle(MARKERS), strict=False)
    return [(result, Look(*pair, marker)) for result, (pair, marker) in zip(results, styles, strict=False)]


def state_of(result: Result, state: State) -> str:
    """Which of `STATES` it is."""
    if state.size != result.main.size:
        return "other size"
    return "trained" if state.trained else "untrained"


def all_states(results: Sequence[Result]) -> list[tuple[Result, State, Look]]:
    """Every state of every model, untrained ones first, then by size; and how the model looks."""
    return [
        (result, state, look)
        for result, look in with_looks(results)
        for state in sorted(result.states, key=lambda state: (state.trained, state.size))
    ]


def first_size(results: Sequence[Result]) -> list[tuple[Result, State, Look]]:
    """Of all states those at the size that the report is about: untrained, and trained if there are weights."""
    return [(result, state, look) for result, state, look in all_states(results) if state.size == result.main.size]


def kinds_of(lines: Iterable[tuple[Result, State, Look]]) -> list[str]:
    """Which of `STATES` are among some states, in that order."""
    found = {state_of(result, state) for result, state, _ in lines}
    return [kind for kind in STATES if kind in found]


def add_legend(
    figure: Figure, models: Sequence[tuple[Result, Look]], *others: Line2D, kinds: Sequence[str] = ()
) -> None:
    """Name the models, the states and whatever else is drawn, above the panels.

    Args:
        figure: With constrained layout.
        models: Those that are drawn.
        others: Lines that stand for something else, with their labels.
        kinds: Of `STATES`, those that are drawn; with none dashes tell models apart.
    """
    handles = [
        Line2D(
            [],
            [],
            color=look.color,
            marker=look.marker,
            linestyle="-" if kinds else look.dashes,
            label=result.subject.name,
        )
        for result, look in models
    ]
    place_legend(figure, [*handles, *state_lines(kinds), *others])


def state_lines(kinds: Sequence[str]) -> list[Line2D]:
    """Samples of the dashes of some states."""
    return [Line2D([], [], color="0.3", linestyle=STATES[kind], label=kind) for kind in kinds]


def place_legend(figure: Figure, handles: Sequence[Line2D], **options: object) -> None:
    """Above the panels, in as many columns as fit; options are those of `Figure.legend`."""
    lengths = [len(handle.get_label()) + BESIDE for handle in handles]
    fitting = (
        columns
        for columns in range(len(handles), 0, -1)
        if columns == 1 or sum(part.max() for part in numpy.array_split(lengths, columns)) <= ROOM
    )
    options = {"frameon": False, "handlelength": 2.8, "columnspacing": 1.5} | options
    figure.legend(handles=handles, loc="outside upper center", ncols=next(fitting), **options)


def sheet(rows: int, columns: int, height: float, **options: object) -> tuple[Figure, numpy.ndarray]:
    """A figure with panels that have a light grid.

    Args:
        rows: Of panels.
        columns: Of panels.
        height: Of the figure in inches.
        options: Of `Figure.subplots`.
    """
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options)
    for axes in panels.flat:
        axes.grid(alpha=0.3)
    return figure, panels


def draw_estimates(
    axes: Axes,
    places: Sequence[float],
    estimates: Sequence[Estimate | None],
    look: Look,
    *,
    dashes: Dashes,
    scale: float = 1,
) -> None:
    """A line with the band of its intervals; what is `None` or not finite leaves a gap.

    Args:
        axes: Where.
        places: On x (L,).
        estimates: On y (L,).
        look: Of the model.
        dashes: Of the line.
        scale: What all numbers are multiplied by.
    """
    value, low, high = scale * finite(estimates).T
    axes.fill_between(places, low, high, color=look.color, alpha=0.15, linewidth=0)
    axes.plot(places, value, linestyle=dashes, color=look.color, marker=look.marker, markersize=4.5, linewidth=1.6)


def finite(estimates: Sequence[Estimate | None]) -> numpy.ndarray:
    """Value, low and high of each, all NaN where there is none or one is not finite: (L, 3)."""
    kept = (e if e is not None and all(map(isfinite, e)) else (nan, nan, nan) for e in estimates)
    return numpy.array(list(kept), dtype=float).reshape(-1, 3)


def shortened(name: str, room: int) -> str:
    """A layer's name; of a long one the last parts that fit, after "…"."""
    parts = name.split(".")
    kept = name
    for start in range(1, len(parts)):
        if len(kept) <= room:
            break
        kept = "…" + ".".join(parts[start:])
    return kept


def wrapped(name: str, room: int) -> str:
    """A model's name in lines of at most so many letters, broken behind its signs; what has none stays whole."""
    lines = [""]
    for part in findall(r"[^-_./: ]*[-_./: ]?", name):
        if lines[-1] and len(lines[-1] + part) > room:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
