"""The figures of models that hear speech: how each is drawn, and its caption; lengths are ms, negative in the past.

Shapes: I moments, J mel bins of a field.
"""

from collections.abc import Sequence
from math import nan

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from vitspeech.plots.style import SKY_BLUE
from vitspeech.receptive.comparison import Result, State
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures.blocks import DEPTH, draw_blocks
from vitspeech.receptive.figures.fields import draw_grid, draw_image
from vitspeech.receptive.figures.heads import DEPTH as DEPTH_OF_ATTENTION
from vitspeech.receptive.figures.heads import against_depth, scatter, with_heads
from vitspeech.receptive.figures.layout import (
    STATES,
    THIN,
    Drawn,
    Look,
    add_legend,
    all_states,
    draw_estimates,
    first_size,
    kinds_of,
    place_legend,
    sheet,
    state_lines,
    state_of,
    with_looks,
    wrapped,
)
from vitspeech.receptive.figures.states import Mark, draw_states
from vitspeech.receptive.figures.visible import draw_visible

TICKS_HZ = (250, 1000, 4000)
RANGE_HZ = (50, 100, 200, 500, 1000, 2000, 5000)
LIMIT = {"color": SKY_BLUE, "linestyle": "-", "linewidth": 0.9}
DENSITY_MS = 10
LOWEST = 1e-6  # of a density that is drawn
FAR = 10_000  # ms in a second of clip: beyond every panel
SIDES = {"back": -1, "ahead": 1}

MARKS = (Mark("back_90", -1, True), Mark("back_50", -1, False), Mark("ahead_50", 1, False), Mark("ahead_90", 1, True))


def figures_of_speech(results: Sequence[Result]) -> dict[str, Drawn]:
    """Every figure that has something to show, by the name of its file without ending.

    Args:
        results: From `compare`, of models that hear.
    """
    drawn = {
        "fields": Drawn(
            draw_fields(results),
            "Effective fields",
            "Share of the energy of the gradient that each log-mel frame (across, in ms from the unit's moment; left "
            "is the past) and each mel bin (upwards, in Hz) has. One logarithmic color scale for all panels, gray "
            "where there is nothing. Columns are layers of each model by their depth. Blue lines: where the "
            "theoretical window begins and ends, if that is within the panel.",
        ),
        "energy": Drawn(
            draw_energy(results),
            "Energy over time, last layer",
            "Share of the energy per 10 ms, on a logarithmic axis, against the time from the unit's moment in ms: the "
            "past on the left, the look-ahead on the right. Vertical lines: the theoretical window, where it ends "
            "within the panel.",
        ),
        "depth": Drawn(
            draw_depth(results),
            "Past and look-ahead against depth",
            "Within how many ms of the unit's moment 90 % of the energy of its past lies (below zero), and 90 % of "
            "that of its look-ahead (above), against the layer's depth, with 95 % intervals over inputs. Thin lines "
            "without marks are the theoretical reach; those that leave a panel go on, or have no limit.",
        ),
        "blocks": Drawn(
            draw_blocks(results, unit="ms"),
            "Mixing distance of single blocks",
            "How far one block reaches, from the layer measured before it: four standard deviations of its field in "
            "ms, against depth. Left as the block is, right with its skipping paths cut; a block without any, or "
            "whose other paths pass on nothing, is on the left alone. Where "
            "right is far above left, the block mostly passes on what it gets.",
        ),
        "states": Drawn(
            draw_states(
                results,
                MARKS,
                unit="ms",
                per_size=1000,
                labels={False: "50 % of the energy on that side", True: "90 % of the energy on that side"},
            ),
            "Training and length of the clip, last layer",
            "Within which time from the unit's moment 50 % (open) and 90 % (filled) of the energy of the past (left "
            "of zero) and of the look-ahead (right) lie, with 95 % intervals over inputs: in ms, and as a share of "
            "the clip. A gray line is the state that the other figures are about. If two models change places from "
            "one line to the next, the conclusion depends on training or on the length.",
        ),
        "frequency": Drawn(
            draw_frequency(results),
            "Frequencies",
            "Left: the frequencies in Hz below and above which 5 % of the energy lies; 90 % lies between a model's two "
            "lines. Right: over how many mel bins the energy is spread as if evenly. Both against the layer's depth, "
            "with 95 % intervals over inputs.",
        ),
    }
    if any(result.heads is not None for result in results):
        drawn["heads"] = Drawn(
            draw_heads(results),
            "Attention heads",
            "Each point is a head. Brighter is deeper in the two panels on the left: mean distance of what a head "
            "attends to, as a multiple of that of uniform attention (1), with its entropy as a share of the largest "
            "possible; and the parts of the mean distance that lie in the past and in the look-ahead, in ms. The "
            "other panels show the distance in ms, how well one kernel explains the head (1: a convolution), how near "
            "it stays to its own moment (1: nowhere else), and the entropy, against depth; lines are means over the "
            "heads of a layer.",
        )
    if any(result.visible is not None for result in results):
        drawn["visible"] = Drawn(
            draw_visible(results, unit="ms", window="radius around the word's middle"),
            "Accuracy against what is audible",
            "Accuracy when only a stretch around the middle of the word is left, against how far it reaches to each "
            "side in ms, with 95 % intervals; the last point is the whole clip. The panels differ in what stands "
            "outside. A tick marks from where on 90 % of the accuracy on whole clips is kept. A model whose labels "
            "are not known is compared with its own answers to whole clips.",
        )
    return drawn


def draw_fields(results: Sequence[Result]) -> Figure:
    """A row a model, a column a layer."""
    longest = max(1000 * result.main.size for result in results)

    def draw(axes: Axes, result: Result, layer: LayerNumbers, norm: LogNorm) -> AxesImage:
        field = layer.fields.cumulative
        early, late = (layer.cell * (float(field.rows[end]) + side) for end, side in ((0, -0.5), (-1, 0.5)))
        extent = (early, late, -0.5, len(field.columns) - 0.5)
        image = draw_image(axes, field, norm, extent, in_time=True, origin="lower")
        draw_window(axes, layer, longest, **LIMIT)
        axes.set_xticks([-longest / 2, 0, longest / 2])
        axes.set(aspect="auto", xlim=(-longest, longest), ylim=(-0.5, len(field.columns) - 0.5))
        return image

    label = "share of the energy\nper frame and mel bin"
    figure, panels = draw_grid(results, draw, label=label, sharey="row")
    for result, row in zip(results, panels, strict=True):
        centers_hz = result.subject.model.network.tokens.log_mel.centers_hz
        ticks = [tick for tick in TICKS_HZ if centers_hz[0] < tick < centers_hz[-1]]
        row[0].set_yticks(numpy.interp(ticks, centers_hz, range(len(centers_hz))), [f"{tick:,}" for tick in ticks])
    figure.supxlabel("ms from the unit's moment (past | look-ahead)")
    figure.supylabel("frequency (Hz), mel scale")
    place_legend(figure, [Line2D([], [], label="theoretical window", **LIMIT)])
    return figure


def draw_window(axes: Axes, layer: LayerNumbers, longest: float, **line: object) -> None:
    """Where the theoretical field begins and ends, if it does so within the panel; behind its last frame."""
    for side, reach in zip((-1, 1), layer.reach or (), strict=False):
        if reach < longest:
            axes.axvline(side * (reach + layer.cell / 2), **line)


def draw_energy(results: Sequence[Result]) -> Figure:
    """The last layer's energy over time: a panel a model, so that before and after training lie on each other."""
    columns = 3 if len(results) in (3, 5, 6) else min(len(results), 2)
    figure, panels = sheet(-(-len(results) // columns), columns, 0, sharex=True, sharey=True)
    figure.set_figheight(2.6 * len(panels) + 1)
    longest = max(1000 * result.main.size for result in results)
    for axes in panels.flat[len(results) :]:
        axes.set_axis_off()
    panel_of = {id(result): axes for result, axes in zip(results, panels.flat, strict=False)}
    for result, state, look in first_size(results):
        axes, layer = panel_of[id(result)], state.layers[-1]
        times, density = density_over_time(layer)
        line = {"linewidth": 1.8} if state.trained else {"linewidth": 1.0, "alpha": 0.8}
        axes.semilogy(times, density, STATES[state_of(result, state)], color=look.color, **line)
        if state is result.main:
            draw_window(axes, layer, longest, color="0.3", linewidth=0.9)
            axes.axvline(0, color="0.6", linewidth=0.8)
            ahead = 100 * layer.cumulative["ahead_share"].value
            axes.set_title(f"{wrapped(result.subject.name, 44)}\n{ahead:.0f} % of the energy ahead", fontsize=10)
            axes.set(xlim=(-longest, longest))
    axes.set_ylim(bottom=max(LOWEST, axes.get_ylim()[0]))
    figure.supxlabel("ms from the unit's moment (past | look-ahead)")
    figure.supylabel(f"share of the energy per {DENSITY_MS} ms")
    limit = Line2D([], [], color="0.3", linewidth=0.9, label="theoretical window")
    place_legend(figure, [*state_lines(kinds_of(first_size(results))), limit])
    return figure


def density_over_time(layer: LayerNumbers) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Ms from the unit's moment, and the share of the energy per `DENSITY_MS` there, NaN where there is none."""
    field = layer.fields.cumulative
    density = field.mean.sum(1).numpy() * DENSITY_MS / layer.cell
    return field.rows.numpy() * layer.cell, numpy.where(density > 0, density, nan)


def draw_depth(results: Sequence[Result]) -> Figure:
    """How far back (below zero) and ahead (above) 90 % of the energy lies, against depth: a panel a state."""
    lines = all_states(results)
    kinds = kinds_of(lines)
    figure, (panels,) = sheet(1, len(kinds), 5, sharex=True, sharey=True)
    shown = {
        kind: [(state, look) for result, state, look in lines if state_of(result, state) == kind] for kind in kinds
    }
    for axes, kind in zip(panels, kinds, strict=True):
        for state, look in shown[kind]:
            draw_reach(axes, state, look)
        sizes = sorted({f"{state.size:g} s" for state, _ in shown[kind]})
        axes.axhline(0, color="0.5", linewidth=0.8)
        axes.set(title=f"{kind}, clips of {', '.join(sizes)}", xlabel=DEPTH, xlim=(0, 1.03))
    panels[0].set_ylim(panels[0].get_ylim())  # the limits drawn next leave the panel
    for axes, kind in zip(panels, kinds, strict=True):
        for state, look in shown[kind]:
            draw_limits(axes, state, look)
    panels[0].set_ylabel("ms from the unit's moment\n(below 0: past, above: look-ahead)")
    add_legend(figure, with_looks(results), Line2D([], [], color="0.3", label="theoretical", **THIN))
    return figure


def draw_reach(axes: Axes, state: State, look: Look) -> None:
    """How far back and ahead one state of a model hears."""
    depths = [layer.depth for layer in state.layers]
    for name, sign in SIDES.items():
        estimates = [layer.cumulative.get(f"{name}_90") for layer in state.layers]
        draw_estimates(axes, depths, estimates, look, dashes=look.dashes, scale=sign)


def draw_limits(axes: Axes, state: State, look: Look) -> None:
    """How far it could, where that is known."""
    known = [layer for layer in state.layers if layer.reach is not None]
    for side, sign in enumerate(SIDES.values()):
        reach = [sign * min(layer.reach[side], FAR * state.size) for layer in known]
        axes.plot([layer.depth for layer in known], reach, color=look.color, **THIN)


def draw_heads(results: Sequence[Result]) -> Figure:
    """Distance, entropy, likeness to a convolution, diagonality and direction of every head."""
    figure, panels = sheet(2, 3, 7.4)
    (spread, distance, likeness), (sides, diagonal, entropy) = panels
    points = scatter(spread, results, "relative_distance", "entropy")
    spread.axvline(1, color="0.5", linewidth=0.8)
    spread.set(xlabel="mean distance (× uniform attention)", ylabel="entropy (share of the largest)")
    scatter(sides, results, "look_back", "look_ahead")
    sides.axline((0, 0), slope=1, color="0.5", linewidth=0.8)
    sides.set(xlabel="part of the mean distance in the past (ms)", ylabel="part in the look-ahead (ms)")
    figure.colorbar(points, ax=[spread, sides], label=DEPTH_OF_ATTENTION, location="left", aspect=40)
    against_depth(distance, results, "distance", "mean distance (ms)")
    against_depth(likeness, results, "convolution_likeness", "likeness to a convolution (1 is one)")
    against_depth(diagonal, results, "diagonality", "diagonality (1: itself alone)")
    against_depth(entropy, results, "entropy", "entropy (share of the largest)")
    add_legend(figure, with_heads(results))
    return figure


def draw_frequency(results: Sequence[Result]) -> Figure:
    """Which frequencies hold 90 % of the energy, and over how many mel bins it is spread, against depth."""
    figure, ((ranges, bins),) = sheet(1, 2, 4.6, sharex=True)
    for result, look in with_looks(results):
        depths = [layer.depth for layer in result.main.layers]
        for axes, names in ((ranges, ("low_hz", "high_hz")), (bins, ("effective_bins",))):
            for name in names:
                estimates = [(layer.frequency or {}).get(name) for layer in result.main.layers]
                draw_estimates(axes, depths, estimates, look, dashes=look.dashes)
    ranges.set(title="5 % of the energy lies below, 5 % above", ylabel="frequency (Hz)", xlabel=DEPTH, yscale="log")
    bins.set(title="how many mel bins share the energy", ylabel="effective mel bins", xlabel=DEPTH, xlim=(0, 1.03))
    bins.set_ylim(bottom=0)
    ranges.set_yticks(RANGE_HZ, [f"{tick:,}" for tick in RANGE_HZ])
    ranges.minorticks_off()
    add_legend(figure, with_looks(results))
    return figure
