"""The figures of speech models: how each is drawn, and its caption. Lengths are ms, negative in the past."""

from collections.abc import Sequence
from math import nan

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from vitspeech.plots.style import DARK_GRAY, SKY_BLUE
from vitspeech.receptive.compare import Result
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures import alt_text
from vitspeech.receptive.figures.blocks import draw_blocks
from vitspeech.receptive.figures.depth import draw_reach
from vitspeech.receptive.figures.fields import ZOOM_NOTE, draw_grid, draw_image, half_extent, set_symmetric_ticks
from vitspeech.receptive.figures.heads import draw_against_depth, draw_scatter, with_heads
from vitspeech.receptive.figures.layout import (
    DEPTH,
    REFERENCE,
    STATES,
    CaptionedFigure,
    add_legend,
    draw_estimates,
    labels_present,
    main_size_states,
    place_legend,
    readable,
    state_handles,
    state_label,
    subplots,
    with_styles,
    wrapped,
    zero_init_note,
)
from vitspeech.receptive.figures.states import Mark, draw_states
from vitspeech.receptive.figures.visible import agreement_note, draw_visible, quantity

TICKS_HZ = (250, 1000, 4000)
RANGE_HZ = (50, 100, 200, 500, 1000, 2000, 5000)
LIMIT = {"color": SKY_BLUE, "linestyle": "-", "linewidth": 1.3}
DENSITY_MS = 10
LOWEST = 1e-6  # density below which nothing is drawn
MARKS = (Mark("back_90", -1, True), Mark("back_50", -1, False), Mark("ahead_50", 1, False), Mark("ahead_90", 1, True))


def speech_figures(results: Sequence[Result]) -> dict[str, CaptionedFigure]:
    """Every figure for which there are measurements, keyed by its file name without the suffix.

    Args:
        results: Speech models, from `compare`.
    """
    note, main_note = zero_init_note(results), zero_init_note(results, main_only=True)
    figures = {
        "fields": CaptionedFigure(
            draw_fields(results),
            "Effective receptive fields",
            "Fraction of the gradient energy at each log-mel frame (x axis: ms from the unit; the past is left) and "
            "each mel bin (y axis: Hz). Columns are layers, by relative depth. Panels have different extents: each is "
            "zoomed to its field in time, and its ticks give the scale in ms. All panels share one logarithmic color "
            "scale; gray means no energy, or not measured. Blue: start and end of the theoretical receptive field, if "
            "within the panel." + main_note,
            alt_text.fields_alt(results, number="span_90", unit="ms", digits=0),
        ),
        "energy": CaptionedFigure(
            draw_energy(results),
            "Energy over time, last layer",
            "Fraction of the energy per 10 ms, on a logarithmic axis, against the time from the unit in ms: the past "
            "is left, the look-ahead right. Values below 10⁻⁶ are not drawn. Vertical lines: start and end of the "
            "theoretical receptive field, if within the panel." + note,
            alt_text.energy_over_time_alt(results),
        ),
        "depth": CaptionedFigure(
            draw_reach(results),
            "Past and look-ahead by depth",
            "Time that contains 90 % of the energy of the past (below zero) and 90 % of the energy of the look-ahead "
            "(above), against the relative depth of the layer, with 95 % intervals over inputs. The time axis is "
            "logarithmic beyond 10 ms. Thin lines without markers: reach of the theoretical receptive fields; ∞ means "
            "unlimited. Dash-dotted: a uniform field under the same measure." + note,
            alt_text.reach_alt(results),
        ),
        "blocks": CaptionedFigure(
            draw_blocks(results, unit="ms"),
            "Receptive fields of single blocks",
            "Width of each block's own receptive field, measured from the previous layer shown: four standard "
            "deviations in ms, against relative depth. Left: the complete block. Right: without its residual paths; "
            "blocks without residual paths, and blocks in which no gradient is left, appear on the left only. If the "
            "width on the right is much larger, the block mostly passes its input on." + main_note,
            alt_text.blocks_alt(results, "ms"),
        ),
        "states": CaptionedFigure(
            draw_states(
                results,
                MARKS,
                unit="ms",
                per_size=1000,
                labels={False: "50 % of that side's energy", True: "90 % of that side's energy"},
            ),
            "Effect of training and clip length, last layer",
            "Time that contains 50 % (open) and 90 % (filled) of the energy of the past (left of zero) and of the "
            "look-ahead (right), with 95 % intervals over inputs: in ms, and as a fraction of the clip. The gray row "
            "is the state shown in the other figures. If the order of two models differs between rows, the conclusion "
            "depends on training or on the clip length." + note,
            alt_text.states_alt(results, number="back_90", unit="ms", digits=0),
        ),
        "frequency": CaptionedFigure(
            draw_frequency(results),
            "Frequency range by depth",
            "Left: the frequencies in Hz below and above which 5 % of the energy lies; 90 % lies between the two lines "
            "of a model. Right: the effective number of mel bins, (Σp)² / Σp² of their fractions p of the energy. Both "
            "against the relative depth of the layer, with 95 % intervals over inputs." + main_note,
            alt_text.frequency_alt(results),
        ),
    }
    if any(result.heads is not None for result in results):
        figures["heads"] = CaptionedFigure(
            draw_heads(results),
            "Attention heads",
            "Each point is one head. Top: mean attention distance relative to uniform attention (1) against entropy "
            "relative to its maximum, and the parts of the mean distance that lie in the past and in the look-ahead, "
            "in ms; brighter points are deeper. Other panels, against relative depth among the attention layers: mean "
            "attention distance in ms, how well one kernel reproduces the head's weights (1: exactly a convolution), "
            "diagonality (1: each token attends to itself only), and entropy. Lines: means over the heads of a layer."
            + main_note,
            alt_text.heads_alt(results, "ms"),
        )
    if any(result.visible is not None for result in results):
        figures["visible"] = CaptionedFigure(
            draw_visible(results, unit="ms", window="half length of the audible window around the word's middle"),
            f"{quantity(results).capitalize()} within an audible window",
            f"{quantity(results).capitalize()} when only a window around the middle of the word is audible, against "
            "half its length in ms, with 95 % intervals; the last point is the complete clip. The panels differ in "
            "what replaces the rest. The tick on a curve marks the window from which on 90 % of its value for complete "
            "clips is kept." + agreement_note(results) + main_note,
            alt_text.visible_alt(results, "ms"),
        )
    return figures


@readable
def draw_fields(results: Sequence[Result]) -> Figure:
    """Heat maps of the effective fields over time and frequency, each panel zoomed in time to what it shows."""

    def draw(axes: Axes, result: Result, layer: LayerNumbers, norm: LogNorm) -> AxesImage:
        field = layer.fields.cumulative
        early, late = (layer.cell * (float(field.rows[end]) + side) for end, side in ((0, -0.5), (-1, 0.5)))
        edges = (early, late, -0.5, len(field.columns) - 0.5)
        image = draw_image(axes, field, norm, edges, in_time=True, origin="lower")
        extent = layer.cell * half_extent(field, axes=(0,))
        draw_window(axes, layer, extent, **LIMIT)
        set_symmetric_ticks(axes, extent)
        axes.set(aspect="auto", xlim=(-extent, extent), ylim=(-0.5, len(field.columns) - 0.5))
        return image

    label = "fraction of the energy per frame and mel bin"
    figure, panels = draw_grid(results, draw, label=label, margin=2.6, sharey="row")
    for result, row in zip(results, panels, strict=True):
        centers_hz = result.subject.model.network.tokens.log_mel.centers_hz
        ticks = [tick for tick in TICKS_HZ if centers_hz[0] < tick < centers_hz[-1]]
        row[0].set_yticks(numpy.interp(ticks, centers_hz, range(len(centers_hz))), [f"{tick:,}" for tick in ticks])
    figure.supxlabel(f"ms from the unit (past | look-ahead); {ZOOM_NOTE}", fontsize="medium")
    figure.supylabel("frequency (Hz), mel scale", fontsize="medium")
    place_legend(figure, [Line2D([], [], label="theoretical field", **LIMIT)])
    return figure


def draw_window(axes: Axes, layer: LayerNumbers, extent: float, **line: object) -> None:
    """Draw the start and the end of the theoretical field, at the outer edge of its last frame, if within `extent`."""
    for side, reach in zip((-1, 1), layer.reach or (), strict=False):
        if reach + layer.cell / 2 < extent:
            axes.axvline(side * (reach + layer.cell / 2), **line)


@readable
def draw_energy(results: Sequence[Result]) -> Figure:
    """The energy of the last layer over time, before and after training: one panel per model."""
    columns = min(len(results), 2)
    figure, panels = subplots(-(-len(results) // columns), columns, 0, sharex=True, sharey=True)
    figure.set_figheight(2.3 * len(panels) + 0.9)
    longest = max(1000 * result.main.size for result in results)
    for axes in panels.flat[len(results) :]:
        axes.set_axis_off()
    panel_of = {id(result): axes for result, axes in zip(results, panels.flat, strict=False)}
    for result, state, style in main_size_states(results):
        axes, layer = panel_of[id(result)], state.layers[-1]
        times, density = density_over_time(layer)
        line = {"linewidth": 2.2} if state.trained else {"linewidth": 1.4, "alpha": 0.8}
        axes.semilogy(times, density, STATES[state_label(result, state)], color=style.color, **line)
        if state is result.main:
            draw_window(axes, layer, longest, color=DARK_GRAY, linewidth=1.1)
            axes.axvline(0, **REFERENCE)
            ahead = 100 * layer.cumulative["ahead_share"].value
            axes.set_title(f"{wrapped(result.subject.name, 36)}\n{ahead:.0f} % of the energy is look-ahead")
            axes.set(xlim=(-longest, longest), xticks=[-longest / 2, 0, longest / 2])
    figure.supxlabel("ms from the unit (past | look-ahead)", fontsize="medium")
    figure.supylabel(f"fraction of the energy per {DENSITY_MS} ms", fontsize="medium")
    limit = Line2D([], [], color=DARK_GRAY, linewidth=1.1, label="theoretical field")
    place_legend(figure, [*state_handles(labels_present(main_size_states(results)), results), limit])
    return figure


def density_over_time(layer: LayerNumbers) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Times in ms from the unit, and the fraction of the energy per `DENSITY_MS`; NaN below `LOWEST`."""
    field = layer.fields.cumulative
    density = field.mean.sum(1).numpy() * DENSITY_MS / layer.cell
    return field.rows.numpy() * layer.cell, numpy.where(density > LOWEST, density, nan)


@readable
def draw_heads(results: Sequence[Result]) -> Figure:
    """Distance, entropy, direction, similarity to a convolution and diagonality of every head."""
    figure, panels = subplots(3, 2, 8.6)
    (spread, sides), (distance, likeness), (diagonal, entropy) = panels
    points = draw_scatter(spread, results, "relative_distance", "entropy")
    spread.axvline(1, **REFERENCE)
    spread.set(xlabel="distance / uniform", ylabel="relative entropy")
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


@readable
def draw_frequency(results: Sequence[Result]) -> Figure:
    """The frequency range with 90 % of the energy and the effective number of mel bins, against depth."""
    figure, ((ranges, bins),) = subplots(1, 2, 4.2, sharex=True)
    for result, style in with_styles(results):
        depths = [layer.depth for layer in result.main.layers]
        for axes, names in ((ranges, ("low_hz", "high_hz")), (bins, ("effective_bins",))):
            for name in names:
                estimates = [(layer.frequency or {}).get(name) for layer in result.main.layers]
                draw_estimates(axes, depths, estimates, style, dashes=style.dashes)
    ranges.set(title="range with 90 % of the energy", ylabel="frequency (Hz)", xlabel=DEPTH, yscale="log")
    bins.set(title="effective mel bins", ylabel="number of bins", xlabel=DEPTH, xlim=(0, 1.05))
    bins.set_ylim(bottom=0)
    ranges.set_yticks(RANGE_HZ, [f"{tick:,}" for tick in RANGE_HZ])
    ranges.minorticks_off()
    add_legend(figure, with_styles(results))
    return figure
