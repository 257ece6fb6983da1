"""The last layer before and after training and at two sizes of the input, for all models in one picture."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitspeech.receptive.comparison import Result, State
from vitspeech.receptive.figures.layout import Look, all_states, finite, place_legend, sheet, wrapped


class Mark(NamedTuple):
    """A number of a layer that is drawn as a point.

    Args:
        number: Its name in `LayerNumbers.cumulative`.
        side: −1 draws it to the left of zero, 1 to the right.
        filled: Whether the point is.
    """

    number: str
    side: int
    filled: bool


def draw_states(
    results: Sequence[Result], marks: Sequence[Mark], *, unit: str, per_size: float, labels: dict[bool, str]
) -> Figure:
    """A line for each state of each model, in the unit of length and as a share of the input.

    Args:
        results: The models.
        marks: What is drawn of each last layer.
        unit: Of lengths: px or ms.
        per_size: So many of them are 1 of `State.size`.
        labels: What filled points and open ones are.
    """
    lines = all_states(results)
    figure, ((lengths, shares),) = sheet(1, 2, 0.34 * len(lines) + 1.9, sharey=True)
    places, names, place = [], [], 0.0
    for number, (result, state, look) in enumerate(lines):
        starts = number > 0 and lines[number - 1][0] is not result
        place -= 1.6 if starts else 1
        places.append(place)
        names.append(described(result, state))
        draw_state(lengths, place, state, marks, look, 1.0)
        draw_state(shares, place, state, marks, look, 1 / (per_size * state.size))
        if state is result.main:
            for axes in (lengths, shares):
                axes.axhspan(place - 0.5, place + 0.5, color="0.92", zorder=0)
    lengths.set_yticks(places, names)
    name_models(lengths, lines, places)
    mirrored = any(mark.side < 0 for mark in marks)
    sides = " (past | look-ahead)" if mirrored else ""
    lengths.set_xlabel(f"{unit} from the unit's {'moment' if mirrored else 'center'}{sides}")
    shares.set_xlabel(f"share of the {'clip' if mirrored else 'side of the picture'}{sides}")
    for axes in (lengths, shares):
        axes.axvline(0, color="0.5", linewidth=0.8)
        axes.set_ylim(place - 0.8, places[0] + 0.8)
    shapes = {filled: {"markerfacecolor": "0.3" if filled else "white"} for filled in labels}
    place_legend(
        figure,
        [
            Line2D([], [], color="0.3", marker="o", linestyle="", label=label, **shapes[filled])
            for filled, label in labels.items()
        ],
    )
    return figure


def described(result: Result, state: State) -> str:
    """A state in words."""
    size = f"{state.size:g} s" if result.subject.hears else f"{state.size:g} px"
    return f"{'trained' if state.trained else 'untrained'}, {size}"


def name_models(axes: Axes, lines: Sequence[tuple[Result, State, Look]], places: Sequence[float]) -> None:
    """Each model's name once, left of its states."""
    for result, look in {id(result): (result, look) for result, _, look in lines}.values():
        own = [place for place, line in zip(places, lines, strict=True) if line[0] is result]
        axes.annotate(
            wrapped(result.subject.name, 20),
            (0, (own[0] + own[-1]) / 2),
            (-112, 0),  # points, past the names of the states
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="center",
            color=look.color,
            fontweight="bold",
        )


def draw_state(axes: Axes, place: float, state: State, marks: Sequence[Mark], look: Look, scale: float) -> None:
    """The points of one state's last layer with their intervals, joined by a thin line."""
    numbers = state.layers[-1].cumulative
    found = finite([numbers.get(mark.number) for mark in marks]) * scale
    ends = [mark.side * value for mark, value in zip(marks, found[:, 0], strict=True)]
    axes.plot(ends, [place] * len(ends), color=look.color, linewidth=0.8, alpha=0.6)
    for mark, (value, low, high) in zip(marks, found, strict=True):
        # Of a number that is bounded the interval need not hold the number itself.
        interval = [mark.side * low, mark.side * high]
        axes.plot(interval, [place] * 2, color=look.color, marker="|", markersize=7, linewidth=1.6)
        face = look.color if mark.filled else "white"
        axes.plot(mark.side * value, place, color=look.color, marker=look.marker, markersize=6.5, markerfacecolor=face)
