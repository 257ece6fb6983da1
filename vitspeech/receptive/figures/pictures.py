"""The figures of image models: how each is drawn, and its caption. Lengths are px of the input.

Shapes: P cells of a field.
"""

from collections.abc import Sequence

import numpy
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from vitspeech.plots.style import EMPTY_GRAY, MARKERS, SKY_BLUE, WHITE
from vitspeech.receptive.compare import Result
from vitspeech.receptive.fields.extent import grid_of
from vitspeech.receptive.fields.field import Field
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures import alt_text
from vitspeech.receptive.figures.blocks import draw_blocks
from vitspeech.receptive.figures.depth import draw_sides
from vitspeech.receptive.figures.fields import ZOOM_NOTE, draw_grid, draw_image, half_extent, set_symmetric_ticks
from vitspeech.receptive.figures.heads import draw_against_depth, draw_scatter, with_heads
from vitspeech.receptive.figures.layout import (
    DEPTH,
    REFERENCE,
    STATES,
    CaptionedFigure,
    add_legend,
    labels_present,
    main_size_states,
    place_legend,
    readable,
    state_label,
    subplots,
    with_styles,
    zero_init_note,
)
from vitspeech.receptive.figures.states import Mark, draw_states
from vitspeech.receptive.figures.visible import agreement_note, draw_visible, quantity

ROUNDING = 1e-6  # fraction of the energy
OUTLINES = {"theoretical field": (SKY_BLUE, "-"), "square with 90 % of the energy": (WHITE, "--")}
MARKS = (Mark("radius_50", 1, False), Mark("radius_90", 1, True))


def image_figures(results: Sequence[Result]) -> dict[str, CaptionedFigure]:
    """Every figure for which there are measurements, keyed by its file name without the suffix.

    Args:
        results: Image models, from `compare`.
    """
    note, main_note = zero_init_note(results), zero_init_note(results, main_only=True)
    figures = {
        "fields": CaptionedFigure(
            draw_fields(results),
            "Effective receptive fields",
            "Fraction of the gradient energy at each pixel, relative to the unit's center. Columns are layers, by "
            "relative depth. Panels have different extents: each is zoomed to its field, and its ticks give the scale "
            "in px, which is the same on both axes. All panels share one logarithmic color scale; gray means no "
            "energy, or not measured. Blue: the theoretical receptive field, if it fits into the panel. Dashed: the "
            "centered square with 90 % of the energy." + main_note,
            alt_text.fields_alt(results, number="side_90", unit="px", digits=1),
        ),
        "energy": CaptionedFigure(
            draw_energy(results),
            "Energy within a radius, last layer",
            "Fraction of the energy within a radius in px around the unit's center. The farther left a curve rises, "
            "the smaller the effective receptive field. Horizontal lines: 50 % and 90 %." + note,
            alt_text.energy_alt(results),
        ),
        "depth": CaptionedFigure(
            draw_sides(results),
            "Receptive field size by depth",
            "Side of the centered square that contains 50 % (left) and 90 % (right) of the energy, against the "
            "relative depth of the layer, on a logarithmic axis, with 95 % intervals over inputs. Top: in px, before "
            "and after training. Bottom: as a fraction of the image side, at two image sizes. Thin lines without "
            "markers: sides of the theoretical receptive fields; ∞ means unlimited. Dash-dotted: a uniform field under "
            "the same measure, beyond which hardly any field can be seen." + note,
            alt_text.depth_alt(results),
        ),
        "blocks": CaptionedFigure(
            draw_blocks(results, unit="px"),
            "Receptive fields of single blocks",
            "Width of each block's own receptive field, measured from the previous layer shown: four standard "
            "deviations in px, against relative depth. Left: the complete block. Right: without its residual paths; "
            "blocks without residual paths, and blocks in which no gradient is left, appear on the left only. If the "
            "width on the right is much larger, the block mostly passes its input on." + main_note,
            alt_text.blocks_alt(results, "px"),
        ),
        "states": CaptionedFigure(
            draw_states(
                results,
                MARKS,
                unit="px",
                per_size=1,
                labels={False: "50 % of the energy", True: "90 % of the energy"},
            ),
            "Effect of training and image size, last layer",
            "Radius of the discs that contain 50 % (open) and 90 % (filled) of the energy, with 95 % intervals over "
            "inputs: left in px, right as a fraction of the image side. The gray row is the state shown in the other "
            "figures. If the order of two models differs between rows, or between left and right, the conclusion "
            "depends on training or on the image size." + note,
            alt_text.states_alt(results, number="radius_90", unit="px", digits=1),
        ),
    }
    if any(result.heads is not None for result in results):
        figures["heads"] = CaptionedFigure(
            draw_heads(results),
            "Attention heads",
            "Each point is one head. Left: mean attention distance relative to uniform attention (1), and entropy "
            "relative to its maximum; brighter points are deeper. Middle: mean attention distance in px by relative "
            "depth among the attention layers. Right: how well one kernel, the same at every position, reproduces the "
            "head's weights (1: exactly a convolution). Lines: means over the heads of a layer." + main_note,
            alt_text.heads_alt(results, "px"),
        )
    if any(result.visible is not None for result in results):
        figures["visible"] = CaptionedFigure(
            draw_visible(results, unit="px", window="half side of the visible window"),
            f"{quantity(results).capitalize()} within a visible window",
            f"{quantity(results).capitalize()} when only a centered square window of the image is visible, against "
            "half its side in px, with 95 % intervals; the last point is the complete image. The panels differ in what "
            "replaces the rest. The tick on a curve marks the window from which on 90 % of its value for complete "
            "images is kept." + agreement_note(results) + main_note,
            alt_text.visible_alt(results, "px"),
        )
    return figures


@readable
def draw_fields(results: Sequence[Result]) -> Figure:
    """Heat maps of the effective fields, each panel cropped to its field."""

    def draw(axes: Axes, result: Result, layer: LayerNumbers, norm: LogNorm) -> AxesImage:
        field = layer.fields.cumulative
        left, right = float(field.columns[0]) - 0.5, float(field.columns[-1]) + 0.5
        top, bottom = float(field.rows[0]) - 0.5, float(field.rows[-1]) + 0.5
        image = draw_image(axes, field, norm, (left, right, bottom, top))
        half = layer.cumulative["side_90"].value / 2
        outline(axes, "square with 90 % of the energy", (-half, half), (-half, half))
        extent = max(half, half_extent(field, axes=(0, 1)))
        down, across = ((span.low - 0.5, span.high + 0.5) for span in field.theoretical)
        if field.known and max(map(abs, (*down, *across))) <= extent:
            outline(axes, "theoretical field", across, down)
        set_symmetric_ticks(axes, extent)
        axes.set(xlim=(-extent, extent), ylim=(extent, -extent), yticks=[])
        return image

    figure, _ = draw_grid(results, draw, label="fraction of the energy per pixel", margin=1.6)
    figure.supxlabel(f"px from the unit's center, same scale on both axes; {ZOOM_NOTE}", fontsize="medium")
    place_legend(
        figure,
        [Line2D([], [], color=color, linestyle=dashes, label=name) for name, (color, dashes) in OUTLINES.items()],
        frameon=True,  # white is visible on gray only
        facecolor=EMPTY_GRAY,
    )
    return figure


def outline(axes: Axes, name: str, across: tuple[float, float], down: tuple[float, float]) -> None:
    """Draw a rectangle, one of `OUTLINES`, between two columns and two rows."""
    color, dashes = OUTLINES[name]
    corner, width, height = (across[0], down[0]), across[1] - across[0], down[1] - down[0]
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=color, linestyle=dashes, linewidth=1.5))


@readable
def draw_energy(results: Sequence[Result]) -> Figure:
    """The energy of the last layer within a radius, before and after training."""
    figure, ((axes,),) = subplots(1, 1, 4.4)
    for fraction in (0.5, 0.9):
        axes.axhline(fraction, **REFERENCE)
    states = main_size_states(results)
    for result, state, style in states:
        radii, fractions = energy_within_radius(state.layers[-1].fields.cumulative)
        every = (0.02 * MARKERS.index(style.marker), 0.14)  # keeps the markers of the models apart
        axes.plot(
            radii,
            fractions,
            STATES[state_label(result, state)],
            color=style.color,
            marker=style.marker,
            markevery=every,
            linewidth=2.2 if state.trained else 1.4,
        )
    axes.set(xlabel="radius around the unit's center (px)", ylabel="fraction of the energy", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    add_legend(figure, with_styles(results), states=labels_present(states))
    return figure


def energy_within_radius(field: Field) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The radii in px at which there is energy, and the fraction of the energy within each: two arrays (P,)."""
    down, across = grid_of(field)
    radii, place = torch.hypot(down, across).round(decimals=6).unique(return_inverse=True)
    fractions = place.flatten().bincount(weights=field.mean.double().flatten()).cumsum(0)
    end = int((fractions < 1 - ROUNDING).sum()) + 1
    return radii[:end].numpy(), fractions[:end].numpy()


@readable
def draw_heads(results: Sequence[Result]) -> Figure:
    """Distance, entropy and similarity to a convolution of every head."""
    figure, ((spread, distance, likeness),) = subplots(1, 3, 3.9)
    points = draw_scatter(spread, results, "relative_distance", "entropy")
    spread.axvline(1, **REFERENCE)
    spread.set(xlabel="distance / uniform", ylabel="relative entropy")
    figure.colorbar(points, ax=spread, label=DEPTH, location="bottom", aspect=30)
    draw_against_depth(distance, results, "distance", "mean attention distance (px)")
    draw_against_depth(likeness, results, "convolution_likeness", "similarity to a convolution")
    add_legend(figure, with_heads(results))
    return figure
