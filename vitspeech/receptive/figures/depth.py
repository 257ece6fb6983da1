"""The extent of receptive fields against the depth of the layer, with the theoretical and the uniform fields.

Axes are logarithmic. Unlimited theoretical fields are drawn at a tick "∞", so that every line stays within its panel.

Shapes: L layers.
"""

from collections.abc import Sequence
from math import ceil, floor, inf, isfinite, log2, nan

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from vitspeech.plots.style import DARK_GRAY, SeriesStyle
from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.figures.layout import (
    DEPTH,
    REFERENCE,
    STATES,
    THEORETICAL,
    UNIFORM,
    add_legend,
    all_states,
    draw_estimates,
    finite,
    labels_present,
    main_size_states,
    readable,
    state_label,
    subplots,
    with_styles,
)
from vitspeech.receptive.statistics import Estimate

PARTS = (50, 90)  # % of the energy
UNLIMITED = 1.7  # position of "∞", relative to the largest finite value
LINEAR_MS = 10  # the time axis is linear below, logarithmic above
SIDES = {"back": -1, "ahead": 1}

ScaledState = tuple[Result, State, SeriesStyle, float]


@readable
def draw_sides(results: Sequence[Result]) -> Figure:
    """Sides of squares: in px before and after training, and relative to the image at two sizes."""
    figure, panels = subplots(2, 2, 6.6, sharex=True, sharey="row")
    training = [(*state, 1.0) for state in main_size_states(results)]
    sizes = [
        (result, state, style, 1 / state.size)
        for result, style in with_styles(results)
        for state in (result.main, result.larger)
        if state is not None
    ]
    for row, states in zip(panels, (training, sizes), strict=True):
        highest = largest(
            value
            for _, state, _, scale in states
            for value in (*measured(state, scale), *theoretical(state, scale), *uniform_sides(state, scale))
        )
        for axes, part in zip(row, PARTS, strict=True):
            for result, state, style, scale in states:
                estimates = [layer.cumulative.get(f"side_{part}") for layer in state.layers]
                dashes = STATES[state_label(result, state)]
                depths = [layer.depth for layer in state.layers]
                draw_estimates(axes, depths, estimates, style, dashes=dashes, scale=scale)
                if state is result.main:
                    flat = [scale * side for side in uniform(state, f"side_{part}")]
                    axes.plot(depths, flat, color=style.color, **UNIFORM)
                    sides = [min(side, UNLIMITED * highest) for side in theoretical(state, scale)]
                    axes.plot(known_depths(state), sides, color=style.color, **THEORETICAL)
        lowest = min((value for _, state, _, scale in states for value in measured(state, scale)), default=1.0)
        set_log_axis(row[0], lowest, highest, unlimited=any(inf in theoretical(*state[1::2]) for state in states))
    for axes, part in zip(panels[0], PARTS, strict=True):
        axes.set_title(f"square with {part} % of the energy")
    panels[0][0].set(ylabel="side (px)\nbefore and after training")
    panels[1][0].set(ylabel="side / image side\ntwo image sizes", xlim=(0, 1.05))
    for axes in panels[1]:
        axes.set_xlabel(DEPTH)
    add_legend(figure, with_styles(results), *limits(), states=labels_present(all_states(results)))
    return figure


def limits() -> list[Line2D]:
    """Legend entries for the theoretical and the uniform fields."""
    theoretical_line = Line2D([], [], color=DARK_GRAY, label="theoretical (∞: unlimited)", **THEORETICAL)
    return [theoretical_line, Line2D([], [], color=DARK_GRAY, label="uniform field", **UNIFORM)]


def uniform(state: State, number: str) -> list[float]:
    """A number of the uniform field for each layer; NaN where it is not known."""
    return [layer.uniform.get("cumulative", {}).get(number, nan) for layer in state.layers]


def measured(state: State, scale: float) -> list[float]:
    """All finite values and interval ends of the sides that are drawn, times `scale`."""
    estimates: list[Estimate | None] = [
        layer.cumulative.get(f"side_{part}") for layer in state.layers for part in PARTS
    ]
    return [scale * value for value in finite(estimates).flatten() if isfinite(value)]


def uniform_sides(state: State, scale: float) -> list[float]:
    """The sides of the uniform fields that are drawn, times `scale`."""
    sides = [side for part in PARTS for side in uniform(state, f"side_{part}")]
    return [scale * side for side in sides if isfinite(side)]


def theoretical(state: State, scale: float) -> list[float]:
    """The sides of the theoretical fields of the layers of `known_depths`, times `scale`; inf is unlimited."""
    return [scale * (sum(layer.reach) + layer.cell) for layer in state.layers if layer.reach is not None]


def known_depths(state: State) -> list[float]:
    """The depths of the layers whose theoretical field is known."""
    return [layer.depth for layer in state.layers if layer.reach is not None]


def largest(values: Sequence[float]) -> float:
    """The largest finite value; 1 if there is none."""
    return max((value for value in values if isfinite(value)), default=1.0)


def set_log_axis(axes: Axes, lowest: float, highest: float, *, unlimited: bool) -> None:
    """A logarithmic y axis with ticks at powers of 2, and at "∞" if a theoretical field is unlimited."""
    axes.set_yscale("log", base=2)
    top = UNLIMITED * highest if unlimited else highest
    powers = [2.0**power for power in range(ceil(log2(lowest)), floor(log2(highest)) + 1)]
    powers = powers[:: ceil(len(powers) / 6)] if powers else [highest]
    if unlimited:
        powers = [power for power in powers if power <= top / 1.5]
    labels = [f"{power:g}" if power >= 1 else f"1/{1 / power:g}" for power in powers]
    axes.set_yticks([*powers, top] if unlimited else powers, [*labels, "∞"] if unlimited else labels)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0.85 * lowest, 1.15 * top)


@readable
def draw_reach(results: Sequence[Result]) -> Figure:
    """The time that holds 90 % of the energy of the past (below zero) and of the look-ahead: one panel per state."""
    states = all_states(results)
    labels = labels_present(states)
    figure, (panels,) = subplots(1, len(labels), 4.8, sharex=True, sharey=True)
    ends = [value for _, state, _ in states for value in reach_values(state)]
    highest = largest(map(abs, ends))
    for axes, label in zip(panels, labels, strict=True):
        selected = [(state, style) for result, state, style in states if state_label(result, state) == label]
        axes.axhline(0, **REFERENCE)
        for state, style in selected:
            draw_reach_of(axes, state, style, unlimited=UNLIMITED * highest)
        sizes = sorted({f"{state.size:g} s" for state, _ in selected})
        axes.set(title=f"{label},\nclips of {', '.join(sizes)}", xlabel=DEPTH, xlim=(0, 1.08))
    set_time_axis(panels[0], highest, ends)
    panels[0].set_ylabel("past (ms)  |  look-ahead (ms)")
    add_legend(figure, with_styles(results), *limits())
    return figure


def reach_values(state: State) -> list[float]:
    """All values that are drawn of a state: the past negative, the look-ahead positive; ±inf is unlimited."""
    values = [0.0]
    for side, (name, sign) in enumerate(SIDES.items()):
        estimates = finite([layer.cumulative.get(f"{name}_90") for layer in state.layers])
        values += [sign * value for value in estimates.flatten() if isfinite(value)]
        values += [sign * value for value in uniform(state, f"{name}_90") if isfinite(value)]
        values += [sign * layer.reach[side] for layer in state.layers if layer.reach is not None]
    return values


def draw_reach_of(axes: Axes, state: State, style: SeriesStyle, *, unlimited: float) -> None:
    """The measured and the theoretical reach of one state; unlimited reach is drawn at `unlimited`."""
    layers = [layer for layer in state.layers if layer.reach is not None]
    for side, (name, sign) in enumerate(SIDES.items()):
        estimates = [layer.cumulative.get(f"{name}_90") for layer in state.layers]
        depths = [layer.depth for layer in state.layers]
        draw_estimates(axes, depths, estimates, style, dashes=style.dashes, scale=sign)
        flat = [sign * value for value in uniform(state, f"{name}_90")]
        axes.plot(depths, flat, color=style.color, **UNIFORM)
        reach = [sign * min(layer.reach[side], unlimited) for layer in layers]
        axes.plot(known_depths(state), reach, color=style.color, **THEORETICAL)


def set_time_axis(axes: Axes, highest: float, ends: Sequence[float]) -> None:
    """A symmetric logarithmic y axis, with ticks at powers of 10 and at "∞" where a theoretical reach is unlimited."""
    axes.set_yscale("symlog", linthresh=LINEAR_MS, linscale=0.5)
    lowest = min(ends)
    ticks, labels = [0.0], ["0"]
    for sign, end in ((-1, -lowest), (1, max(ends))):
        powers = [10.0**power for power in range(1, 6) if 10**power <= min(end, highest)]
        top = UNLIMITED * highest
        if isinf := not isfinite(end):
            powers = [power for power in powers if power <= top / 2.5]
        ticks += [sign * power for power in powers] + [sign * top] * isinf
        labels += [f"{power:,.0f}" for power in powers] + ["∞"] * isinf
    axes.set_yticks(ticks, labels)
    axes.yaxis.set_minor_locator(NullLocator())
    bottom, top = (min(abs(end), UNLIMITED * highest) for end in (lowest, max(ends)))
    axes.set_ylim(-1.25 * bottom - 1, 1.25 * top + 1)
