"""The last layer before and after training and at two input sizes, for all models in one figure."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitspeech.plots.style import DARK_GRAY, HIGHLIGHT_GRAY, WHITE, SeriesStyle, plain
from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.figures.layout import REFERENCE, all_states, finite, place_legend, readable, subplots

HEADING = 0.85  # height of a model's name above its states, in rows


class Mark(NamedTuple):
    """A number of a layer that is drawn as a point.

    Args:
        number: Its name in `LayerNumbers.cumulative`.
        side: −1 draws it to the left of zero, 1 to the right.
        filled: Whether the point is filled.
    """

    number: str
    side: int
    filled: bool


@readable
def draw_states(
    results: Sequence[Result], marks: Sequence[Mark], *, unit: str, per_size: float, labels: dict[bool, str]
) -> Figure:
    """One row for each state of each model: as lengths, and as a fraction of the input.

    Args:
        results: The models.
        marks: The numbers of the last layer that are drawn.
        unit: Unit of length: px or ms.
        per_size: How many of these units are 1 in `State.size`.
        labels: Legend of filled and open points.
    """
    states = all_states(results)
    rows = len(states) + (1 + HEADING) * len(results)
    figure, ((lengths, fractions),) = subplots(1, 2, 0.25 * rows + 1.3, sharey=True)
    positions, names, position = [], [], -HEADING
    for number, (result, state, style) in enumerate(states):
        first = number == 0 or states[number - 1][0] is not result
        position -= (1 + HEADING if first else 1) if number else 0
        if first:
            lengths.text(
                0.01,
                position + HEADING,
                plain(result.subject.name),
                transform=lengths.get_yaxis_transform(),
                va="center",
                color=style.color,
                fontweight="bold",
                bbox={"facecolor": WHITE, "edgecolor": "none", "pad": 1},
            )
        positions.append(position)
        names.append(described(result, state))
        draw_state(lengths, position, state, marks, style, 1.0)
        draw_state(fractions, position, state, marks, style, 1 / (per_size * state.size))
        if state is result.main:
            for axes in (lengths, fractions):
                axes.axhspan(position - 0.5, position + 0.5, color=HIGHLIGHT_GRAY, zorder=0)
    lengths.set_yticks(positions, names)
    past = any(mark.side < 0 for mark in marks)
    sides = "past | look-ahead" if past else "radius"
    lengths.set_xlabel(f"{sides} ({unit})")
    fractions.set_xlabel(f"fraction of the {'clip' if past else 'image side'}")
    for axes in (lengths, fractions):
        axes.axvline(0, **REFERENCE)
        axes.set_ylim(position - 0.8, 0.6)
    faces = {filled: DARK_GRAY if filled else WHITE for filled in labels}
    place_legend(
        figure,
        [
            Line2D([], [], color=DARK_GRAY, marker="o", linestyle="", label=label, markerfacecolor=faces[filled])
            for filled, label in labels.items()
        ],
    )
    return figure


def described(result: Result, state: State) -> str:
    """A state in words; "*" refers to `zero_init_note`."""
    size = f"{state.size:g} s" if result.subject.takes_audio else f"{state.size:g} px"
    return f"{'trained' if state.trained else 'untrained'}{'*' if state.zero_init else ''}, {size}"


def draw_state(
    axes: Axes, position: float, state: State, marks: Sequence[Mark], style: SeriesStyle, scale: float
) -> None:
    """Draw the points of one state's last layer with their intervals, joined by a thin line."""
    numbers = state.layers[-1].cumulative
    values = finite([numbers.get(mark.number) for mark in marks]) * scale
    ends = [mark.side * value for mark, value in zip(marks, values[:, 0], strict=True)]
    axes.plot(ends, [position] * len(ends), color=style.color, linewidth=0.9, alpha=0.6)
    for mark, (value, low, high) in zip(marks, values, strict=True):
        # The interval of a bounded number need not contain the number itself.
        interval = [mark.side * low, mark.side * high]
        axes.plot(interval, [position] * 2, color=style.color, marker="|", markersize=8, linewidth=1.8)
        face = style.color if mark.filled else WHITE
        axes.plot(
            mark.side * value, position, color=style.color, marker=style.marker, markersize=7, markerfacecolor=face
        )
