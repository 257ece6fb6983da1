"""Lines and points: size against depth, states of training, attention heads, and accuracy within a window.

The size of a field is that of the input, of single blocks, and in frequency. Lengths have logarithmic axes there, and
unlimited theoretical fields are drawn at a tick "∞", so that every line stays within its panel.

Shapes: L layers, H heads.
"""

from collections.abc import Callable, Sequence
from math import ceil, copysign, floor, isfinite, isinf, log2, nan

import numpy
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from vitspeech.plots.style import BLACK, DARK_GRAY, HIGHLIGHT_GRAY, WHITE, Dashes, SeriesStyle, plain
from vitspeech.plots.style import DEPTH as DEPTH_COLORS
from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.report.layout import (
    DEPTH,
    REFERENCE,
    STATES,
    THEORETICAL,
    UNIFORM,
    add_legend,
    all_states,
    finite,
    labels_present,
    main_size_states,
    place_legend,
    readable,
    state_label,
    subplots,
    with_styles,
)

PARTS = (50, 90)  # % of the energy
UNLIMITED = 1.7  # position of "∞", relative to the largest finite value
LINEAR_MS = 10  # the time axis is linear below, logarithmic above
SIDES = {"back": -1, "ahead": 1}
RANGE_HZ = (50, 100, 200, 500, 1000, 2000, 5000)
HEADING = 0.85  # height of a model's name above its states, in rows
KEPT = 0.9
OUTSIDE = {"mean": "training mean", "blur": "blurred input", "shuffle": "shuffled input"}
BEYOND = 1.2  # x position of the complete inputs, relative to the largest radius below

Limit = Callable[[LayerNumbers], float]  # the theoretical field, for a layer where it is known


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
        values = [
            value
            for _, state, _, scale in states
            for part in PARTS
            for value in drawn_values(state, f"side_{part}", scale, theoretical_side)
        ]
        highest = largest(values)
        for axes, part in zip(row, PARTS, strict=True):
            for result, state, style, scale in states:
                number, dashes = f"side_{part}", STATES[state_label(result, state)]
                draw_measured(axes, state, number, scale, style, dashes)
                if state is result.main:
                    draw_limits(axes, state, number, scale, theoretical_side, style, UNLIMITED * highest)
        set_log_axis(row[0], min(values, default=1.0), highest, unlimited=any(map(isinf, values)))
    for axes, part in zip(panels[0], PARTS, strict=True):
        axes.set_title(f"square with {part} % of the energy")
    panels[0][0].set(ylabel="side (px)" + "\nbefore and after training" * (len(training) > len(results)))
    panels[1][0].set(ylabel="side / image side" + "\ntwo image sizes" * (len(sizes) > len(results)), xlim=(0, 1.05))
    for axes in panels[1]:
        axes.set_xlabel(DEPTH)
    add_legend(figure, with_styles(results), *limit_handles(), states=labels_present(all_states(results)))
    return figure


@readable
def draw_past_and_ahead(results: Sequence[Result]) -> Figure:
    """The time that holds 90 % of the energy of the past (below zero) and of the look-ahead: one panel per state."""
    states = all_states(results)
    labels = labels_present(states)
    figure, (panels,) = subplots(1, len(labels), 4.8, sharex=True, sharey=True)
    limits: dict[str, Limit] = {"back": lambda layer: layer.theoretical[0], "ahead": lambda layer: layer.theoretical[1]}
    values = [0.0] + [
        value
        for _, state, _ in states
        for side, sign in SIDES.items()
        for value in drawn_values(state, f"{side}_90", sign, limits[side])
    ]
    highest = largest(map(abs, values))
    for axes, label in zip(panels, labels, strict=True):
        selected = [(state, style) for result, state, style in states if state_label(result, state) == label]
        axes.axhline(0, **REFERENCE)
        for state, style in selected:
            for side, sign in SIDES.items():
                draw_measured(axes, state, f"{side}_90", sign, style, style.dashes)
                draw_limits(axes, state, f"{side}_90", sign, limits[side], style, UNLIMITED * highest)
        sizes = sorted({f"{state.size:g} s" for state, _ in selected})
        axes.set(title=f"{label},\nclips of {', '.join(sizes)}", xlabel=DEPTH, xlim=(0, 1.08))
    set_time_axis(panels[0], highest, values)
    panels[0].set_ylabel("past (ms)  |  look-ahead (ms)")
    add_legend(figure, with_styles(results), *limit_handles())
    return figure


def theoretical_side(layer: LayerNumbers) -> float:
    """The side of the theoretical field in px."""
    return sum(layer.theoretical) + layer.cell


def uniform(state: State, number: str) -> list[float]:
    """A number of the uniform field for each layer; NaN where it is not known."""
    return [layer.uniform.get("cumulative", {}).get(number, nan) for layer in state.layers]


def drawn_values(state: State, number: str, scale: float, limit: Limit) -> list[float]:
    """Values and interval ends of a number, and those of its uniform and theoretical fields; ±inf is unlimited."""
    measured = finite([layer.cumulative.get(number) for layer in state.layers]).flatten()
    values = [value for value in (*measured, *uniform(state, number)) if isfinite(value)]
    return [scale * value for value in (*values, *(limit(layer) for layer in state.layers if layer.theoretical))]


def largest(values: Sequence[float]) -> float:
    """The largest finite value; 1 if there is none."""
    return max((value for value in values if isfinite(value)), default=1.0)


def draw_measured(
    axes: Axes, state: State, number: str, scale: float, style: SeriesStyle, dashes: Dashes, *, of: str = "cumulative"
) -> None:
    """Draw a number of every layer, times `scale`, as a line with the band of its intervals; unknown ones leave gaps.

    `of` names the field in `LayerNumbers`.
    """
    depths = [layer.depth for layer in state.layers]
    value, low, high = scale * finite([(getattr(layer, of) or {}).get(number) for layer in state.layers]).T
    axes.fill_between(depths, low, high, color=style.color, alpha=0.15, linewidth=0)
    axes.plot(depths, value, linestyle=dashes, color=style.color, marker=style.marker)


def draw_limits(
    axes: Axes, state: State, number: str, scale: float, limit: Limit, style: SeriesStyle, top: float
) -> None:
    """Draw the number of the uniform field, and the theoretical field where it is known, at most at `top`."""
    flat = [scale * value for value in uniform(state, number)]
    axes.plot([layer.depth for layer in state.layers], flat, color=style.color, **UNIFORM)
    known = [layer for layer in state.layers if layer.theoretical is not None]
    ends = [copysign(min(abs(scale * limit(layer)), top), scale) for layer in known]
    axes.plot([layer.depth for layer in known], ends, color=style.color, **THEORETICAL)


def limit_handles() -> list[Line2D]:
    """Legend entries for the theoretical and the uniform fields."""
    theoretical = Line2D([], [], color=DARK_GRAY, label="theoretical (∞: unlimited)", **THEORETICAL)
    return [theoretical, Line2D([], [], color=DARK_GRAY, label="uniform field", **UNIFORM)]


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


def set_time_axis(axes: Axes, highest: float, values: Sequence[float]) -> None:
    """A symmetric logarithmic y axis, with ticks at powers of 10 and at "∞" where a theoretical field is unlimited."""
    axes.set_yscale("symlog", linthresh=LINEAR_MS, linscale=0.5)
    lowest = min(values)
    ticks, labels = [0.0], ["0"]
    for sign, end in ((-1, -lowest), (1, max(values))):
        powers = [10.0**power for power in range(1, 6) if 10**power <= min(end, highest)]
        top = UNLIMITED * highest
        if unlimited := not isfinite(end):
            powers = [power for power in powers if power <= top / 2.5]
        ticks += [sign * power for power in powers] + [sign * top] * unlimited
        labels += [f"{power:,.0f}" for power in powers] + ["∞"] * unlimited
    axes.set_yticks(ticks, labels)
    axes.yaxis.set_minor_locator(NullLocator())
    bottom, top = (min(abs(end), UNLIMITED * highest) for end in (lowest, max(values)))
    axes.set_ylim(-1.25 * bottom - 1, 1.25 * top + 1)


@readable
def draw_blocks(results: Sequence[Result]) -> Figure:
    """The width of each block's own field, from the previous measured layer: with residual paths, and without."""
    figure, ((complete, cut),) = subplots(1, 2, 3.9, sharex=True, sharey=True)
    for result, style in with_styles(results):
        for axes, of in ((complete, "block"), (cut, "block_cut")):
            draw_measured(axes, result.main, "width", 1, style, style.dashes, of=of)
    label = f"width of the block's field ({results[0].subject.unit})"
    complete.set(title="complete block", ylabel=label, xlabel=DEPTH)
    cut.set(title="without residual paths", xlabel=DEPTH, xlim=(0, 1.05))
    complete.set_ylim(bottom=-0.02 * complete.get_ylim()[1])  # markers at 0 are not clipped
    add_legend(figure, with_styles(results))
    return figure


@readable
def draw_frequency(results: Sequence[Result]) -> Figure:
    """The frequency range with 90 % of the energy and the effective number of mel bins."""
    figure, ((ranges, bins),) = subplots(1, 2, 4.2, sharex=True)
    for result, style in with_styles(results):
        for axes, number in ((ranges, "low_hz"), (ranges, "high_hz"), (bins, "effective_bins")):
            draw_measured(axes, result.main, number, 1, style, style.dashes, of="frequency")
    ranges.set(title="range with 90 % of the energy", ylabel="frequency (Hz)", xlabel=DEPTH, yscale="log")
    bins.set(title="effective mel bins", ylabel="number of bins", xlabel=DEPTH, xlim=(0, 1.05))
    bins.set_ylim(bottom=0)
    ranges.set_yticks(RANGE_HZ, [f"{tick:,}" for tick in RANGE_HZ])
    ranges.minorticks_off()
    add_legend(figure, with_styles(results))
    return figure


# Numbers of the last layer that are drawn as points (of 90 %: filled), to the left of zero (−1) or to the right (1).
IN_IMAGE = {"radius_50": 1, "radius_90": 1}
IN_TIME = {"back_90": -1, "back_50": -1, "ahead_50": 1, "ahead_90": 1}


@readable
def draw_states(results: Sequence[Result]) -> Figure:
    """One row for each state of each model: as lengths, and as a fraction of the input."""
    speech, unit = results[0].subject.takes_audio, results[0].subject.unit
    marks, per_size = (IN_TIME, 1000) if speech else (IN_IMAGE, 1)
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
        trained = "trained" if state.trained else "untrained"
        names.append(f"{trained}{'*' if state.zero_init else ''}, {result.subject.size_text(state.size)}")
        draw_state(lengths, position, state, marks, style, 1.0)
        draw_state(fractions, position, state, marks, style, 1 / (per_size * state.size))
        if state is result.main:
            for axes in (lengths, fractions):
                axes.axhspan(position - 0.5, position + 0.5, color=HIGHLIGHT_GRAY, zorder=0)
    lengths.set_yticks(positions, names)
    lengths.set_xlabel(f"{'past | look-ahead' if speech else 'radius'} ({unit})")
    fractions.set_xlabel(f"fraction of the {'clip' if speech else 'image side'}")
    for axes in (lengths, fractions):
        axes.axvline(0, **REFERENCE)
        axes.set_ylim(position - 0.8, 0.6)
    whose = "that side's" if speech else "the"
    place_legend(
        figure,
        [
            Line2D([], [], color=DARK_GRAY, marker="o", linestyle="", label=f"{part} % of {whose} energy", **face)
            for part, face in ((50, {"markerfacecolor": WHITE}), (90, {}))
        ],
    )
    return figure


def draw_state(
    axes: Axes, position: float, state: State, marks: dict[str, int], style: SeriesStyle, scale: float
) -> None:
    """Draw the points of one state's last layer with their intervals, joined by a thin line."""
    numbers = state.layers[-1].cumulative
    values = finite([numbers.get(name) for name in marks]) * scale * numpy.array([[side] for side in marks.values()])
    axes.plot(values[:, 0], [position] * len(marks), color=style.color, linewidth=0.9, alpha=0.6)
    for name, (value, *interval) in zip(marks, values, strict=True):
        # The interval of a bounded number need not contain the number itself.
        axes.plot(interval, [position] * 2, color=style.color, marker="|", markersize=8, linewidth=1.8)
        face = style.color if name.endswith("90") else WHITE
        axes.plot(value, position, color=style.color, marker=style.marker, markersize=7, markerfacecolor=face)


@readable
def draw_image_heads(results: Sequence[Result]) -> Figure:
    """Distance, entropy and similarity to a convolution of every head."""
    figure, ((spread, distance, likeness),) = subplots(1, 3, 3.9)
    figure.colorbar(draw_spread(spread, results), ax=spread, label=DEPTH, location="bottom", aspect=30)
    draw_against_depth(distance, results, "distance", "mean attention distance (px)")
    draw_against_depth(likeness, results, "convolution_likeness", "similarity to a convolution")
    add_legend(figure, with_heads(results))
    return figure


@readable
def draw_speech_heads(results: Sequence[Result]) -> Figure:
    """Distance, entropy, direction, similarity to a convolution and diagonality of every head."""
    figure, panels = subplots(3, 2, 8.6)
    (spread, sides), (distance, likeness), (diagonal, entropy) = panels
    points = draw_spread(spread, results)
    draw_scatter(sides, results, "look_back", "look_ahead")
    sides.axline((0, 0), slope=1, **REFERENCE)
    sides.set(xlabel="past part of the distance (ms)", ylabel="look-ahead part (ms)")
    figure.colorbar(points, ax=[spread, sides], label=DEPTH, location="right", aspect=20)
    draw_against_depth(distance, results, "distance", "mean distance (ms)")
    draw_against_depth(likeness, results, "convolution_likeness", "similarity to a\nconvolution")
    draw_against_depth(diagonal, results, "diagonality", "diagonality")
    draw_against_depth(entropy, results, "entropy", "relative entropy")
    add_legend(figure, with_heads(results))
    return figure


def depths(result: Result) -> numpy.ndarray:
    """The relative depth of each head among the model's attention layers, 1 in the last: (L, H)."""
    count, heads = result.heads.distance.shape
    return numpy.repeat(numpy.arange(1, count + 1)[:, None] / count, heads, axis=1)


def with_heads(results: Sequence[Result]) -> list[tuple[Result, SeriesStyle]]:
    """The models whose attention was measured, with their styles."""
    return [(result, style) for result, style in with_styles(results) if result.heads is not None]


def draw_spread(axes: Axes, results: Sequence[Result]) -> PathCollection:
    """Draw distance against entropy, both relative to uniform attention."""
    points = draw_scatter(axes, results, "relative_distance", "entropy")
    axes.axvline(1, **REFERENCE)
    axes.set(xlabel="distance / uniform", ylabel="relative entropy")
    return points


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


@readable
def draw_visible(results: Sequence[Result]) -> Figure:
    """The accuracy or agreement of every measured model with the band of its intervals."""
    subject = results[0].subject
    models = [(result, style) for result, style in with_styles(results) if result.visible is not None]
    names = list(dict.fromkeys(name for result, _ in models for name in result.visible.accuracy))
    largest = max(result.radii[-2] for result, _ in models)
    figure, (panels,) = subplots(1, len(names), 3.9, sharex=True, sharey=True)
    for axes, name in zip(panels, names, strict=True):
        for result, style in models:
            draw_curve(axes, result, name, style, BEYOND * largest)
        axes.set(title=f"outside:\n{OUTSIDE[name]}", ylim=(-0.02, 1.02))
    steps = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, largest)
    ticks = [tick for tick in steps if tick <= 0.9 * largest]
    panels[0].set_xticks([*ticks, BEYOND * largest], [*(f"{tick:g}" for tick in ticks), "all"])
    panels[0].set_ylabel(quantity(results))
    window = (
        "length of the audible window around the word's middle" if subject.takes_audio else "side of the visible window"
    )
    figure.supxlabel(f"half {window} ({subject.unit})", fontsize="medium")
    threshold = Line2D([], [], color=DARK_GRAY, marker="|", markersize=16, markeredgewidth=2, linestyle="")
    threshold.set_label(f"{100 * KEPT:.0f} % of the full {quantity(results)}")
    add_legend(figure, models, threshold)
    return figure


def quantity(results: Sequence[Result]) -> str:
    """What the curves show: accuracy, agreement, or either."""
    return " or ".join(sorted({result.visible.quantity for result in results if result.visible is not None}))


def draw_curve(axes: Axes, result: Result, name: str, style: SeriesStyle, complete: float) -> None:
    """Draw one model's curve for one replacement, and a tick where it reaches `KEPT` of its full value.

    The complete inputs are drawn at x = `complete`.
    """
    visible, radii = result.visible, result.radii
    positions = numpy.append(radii[:-1], complete)
    axes.fill_between(positions, *numpy.transpose(visible.interval[name]), color=style.color, alpha=0.12, linewidth=0)
    line = {"linewidth": 1.7, "linestyle": style.dashes, "marker": style.marker, "markersize": 4.5}
    axes.plot(positions, visible.accuracy[name], color=style.color, **line)
    threshold = numpy.interp(result.keeps[name].value, radii, positions)
    axes.plot(threshold, KEPT * visible.whole, "|", color=style.color, markersize=20, markeredgewidth=2.4)
