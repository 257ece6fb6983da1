"""The figures of models that see pictures: how each is drawn, and its caption; lengths are px of the input.

Shapes: L layers, P places of a field.
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

from vitspeech.plots.style import MARKERS, SKY_BLUE
from vitspeech.receptive.comparison import Result, State
from vitspeech.receptive.fields.effective import Field
from vitspeech.receptive.fields.extent import grid_of
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures.blocks import DEPTH, draw_blocks
from vitspeech.receptive.figures.fields import NOTHING, draw_grid, draw_image
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
    state_of,
    with_looks,
)
from vitspeech.receptive.figures.states import Mark, draw_states
from vitspeech.receptive.figures.visible import draw_visible

FAR = 10  # sides of the picture: beyond every panel
ROUNDING = 1e-6  # share of the energy
OUTLINES = {"theoretical field": (SKY_BLUE, "-"), "square with 90 % of the energy": ("white", "--")}


def figures_of_pictures(results: Sequence[Result]) -> dict[str, Drawn]:
    """Every figure that has something to show, by the name of its file without ending.

    Args:
        results: From `compare`, of models that see.
    """
    drawn = {
        "fields": Drawn(
            draw_fields(results),
            "Effective fields",
            "Share of the energy of the gradient that each pixel has, around the unit in the middle; axes in px from "
            "the unit's center, one logarithmic color scale for all panels, gray where there is nothing. Columns are "
            "layers of each model by their depth. Blue line: the theoretical field, where it fits into the panel. "
            "Dashed: the square that holds 90 % of the energy.",
        ),
        "energy": Drawn(
            draw_energy(results),
            "Energy within a radius, last layer",
            "Share of the energy within a radius in px of the unit's center. A line that rises further left sees less "
            "far. The thin lines across are at 50 % and 90 %.",
        ),
        "depth": Drawn(
            draw_depth(results),
            "Width against depth",
            "Side of the centerd square that holds 50 % (left) and 90 % (right) of the energy, against the layer's "
            "depth, with its 95 % interval over inputs. Above in px, before and after training; below as a share of "
            "the picture's side, at two sizes of the input. Thin lines without marks are the sides of the theoretical "
            "fields; those that leave a panel go on above it, or have no limit.",
        ),
        "blocks": Drawn(
            draw_blocks(results, unit="px"),
            "Mixing distance of single blocks",
            "How far one block reaches, from the layer measured before it: four standard deviations of its field in "
            "px, against depth. Left as the block is, right with its skipping paths cut; a block without any, or "
            "whose other paths pass on nothing, is on the left alone. Where "
            "right is far above left, the block mostly passes on what it gets.",
        ),
        "states": Drawn(
            draw_states(
                results,
                [Mark("radius_50", 1, False), Mark("radius_90", 1, True)],
                unit="px",
                per_size=1,
                labels={False: "radius of 50 % of the energy", True: "radius of 90 % of the energy"},
            ),
            "Training and size of the input, last layer",
            "Radius of the discs that hold 50 % (open) and 90 % (filled) of the energy, with 95 % intervals over "
            "inputs: left in px, right as a share of the picture's side. A gray line is the state that the other "
            "figures are about. If two models change places from one line to the next, or from left to right, the "
            "conclusion depends on training or on the size.",
        ),
    }
    if any(result.heads is not None for result in results):
        drawn["heads"] = Drawn(
            draw_heads(results),
            "Attention heads",
            "Each point is a head. Left: mean distance of what it attends to, as a multiple of that of uniform "
            "attention (1), and entropy as a share of the largest possible; brighter is deeper. Middle: the distance "
            "in px against depth. Right: how well one kernel, the same at every place, explains the head (1: a "
            "convolution). Lines are means over the heads of a layer.",
        )
    if any(result.visible is not None for result in results):
        drawn["visible"] = Drawn(
            draw_visible(results, unit="px", window="half side of the window"),
            "Accuracy against what is visible",
            "Accuracy when only a centerd square window of the picture is visible, against half its side in px, with "
            "95 % intervals; the last point is the whole picture. The panels differ in what stands outside. A tick "
            "marks from where on 90 % of the accuracy on whole pictures is kept. A model whose labels are not known "
            "is compared with its own answers to whole pictures.",
        )
    return drawn


def draw_fields(results: Sequence[Result]) -> Figure:
    """A row a model, a column a layer."""
    side = max(result.main.size for result in results)

    def draw(axes: Axes, result: Result, layer: LayerNumbers, norm: LogNorm) -> AxesImage:
        field = layer.fields.cumulative
        left, right = float(field.columns[0]) - 0.5, float(field.columns[-1]) + 0.5
        top, bottom = float(field.rows[0]) - 0.5, float(field.rows[-1]) + 0.5
        image = draw_image(axes, field, norm, (left, right, bottom, top))
        half = layer.cumulative["side_90"].value / 2
        outline(axes, "square with 90 % of the energy", (-half, half), (-half, half))
        down, across = ((span.low - 0.5, span.high + 0.5) for span in field.theoretical)
        if field.known and max(map(abs, (*down, *across))) <= side:
            outline(axes, "theoretical field", across, down)
        axes.set(xlim=(-side, side), ylim=(side, -side))
        return image

    figure, _ = draw_grid(results, draw, label="share of the energy\nper pixel", sharey=True)
    figure.supxlabel("px from the unit's center")
    figure.supylabel("px from the unit's center")
    place_legend(
        figure,
        [Line2D([], [], color=color, linestyle=dashes, label=name) for name, (color, dashes) in OUTLINES.items()],
        frameon=True,  # white shows on gray alone
        facecolor=NOTHING,
    )
    return figure


def outline(axes: Axes, what: str, across: tuple[float, float], down: tuple[float, float]) -> None:
    """A rectangle, one of `OUTLINES`, from its first to its last px."""
    color, dashes = OUTLINES[what]
    line = {"edgecolor": color, "linestyle": dashes, "linewidth": 1}
    corner, width, height = (across[0], down[0]), across[1] - across[0], down[1] - down[0]
    axes.add_patch(Rectangle(corner, width, height, fill=False, **line))


def draw_energy(results: Sequence[Result]) -> Figure:
    """The last layer's energy within a radius, before and after training."""
    figure, ((axes,),) = sheet(1, 1, 4.8)
    for share in (0.5, 0.9):
        axes.axhline(share, color="0.5", linewidth=0.8)
    states = first_size(results)
    for result, state, look in states:
        radii, summed = within_radius(state.layers[-1].fields.cumulative)
        kind = state_of(result, state)
        width = 2 if state.trained else 1.1
        every = (0.02 * MARKERS.index(look.marker), 0.14)  # so that they do not lie on each other
        axes.plot(radii, summed, STATES[kind], color=look.color, marker=look.marker, markevery=every, linewidth=width)
    axes.set(xlabel="radius around the unit's center (px)", ylabel="share of the energy within it", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    add_legend(figure, with_looks(results), kinds=kinds_of(states))
    return figure


def within_radius(field: Field) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Radii in px that occur where there is energy, and the share of the energy within each: two of (P,)."""
    down, across = grid_of(field)
    radii, place = torch.hypot(down, across).round(decimals=6).unique(return_inverse=True)
    summed = place.flatten().bincount(weights=field.mean.double().flatten()).cumsum(0)
    end = int((summed < 1 - ROUNDING).sum()) + 1
    return radii[:end].numpy(), summed[:end].numpy()


def draw_depth(results: Sequence[Result]) -> Figure:
    """Sides of squares against depth: in px before and after training, and relative to the picture at two sizes."""
    models = with_looks(results)
    figure, panels = sheet(2, 2, 7.8, sharex=True, sharey="row")
    training = [(*line, 1.0) for line in first_size(results)]
    sizes = [
        (result, state, look, 1 / state.size)
        for result, look in models
        for state in (result.main, result.larger)
        if state is not None
    ]
    for row, lines, what in zip(panels, (training, sizes), ("before and after training", "two sizes"), strict=True):
        for axes, share in zip(row, (50, 90), strict=True):
            for line in lines:
                draw_sides(axes, *line, share)
            axes.set_title(f"square with {share} % of the energy, {what}", fontsize=10.5)
        row[0].set_ylim(bottom=0)  # the limits drawn next leave the panel
        for axes in row:
            for result, state, look, scale in lines:
                if state is result.main:
                    draw_limit(axes, state, look, scale)
    panels[0][0].set(ylabel="side of the square (px)")
    panels[1][0].set(ylabel="side of the square (share of the picture's)", xlim=(0, 1.03))
    for axes in panels[1]:
        axes.set_xlabel(DEPTH)
    limit = Line2D([], [], color="0.3", label="theoretical", **THIN)
    add_legend(figure, models, limit, kinds=kinds_of(all_states(results)))
    return figure


def draw_sides(axes: Axes, result: Result, state: State, look: Look, scale: float, share: int) -> None:
    """The sides of the squares that hold so many % of the energy of one state's layers."""
    estimates = [layer.cumulative.get(f"side_{share}") for layer in state.layers]
    dashes = STATES[state_of(result, state)]
    draw_estimates(axes, [layer.depth for layer in state.layers], estimates, look, dashes=dashes, scale=scale)


def draw_limit(axes: Axes, state: State, look: Look, scale: float) -> None:
    """The sides of the theoretical fields, where they are known."""
    known = [layer for layer in state.layers if layer.reach is not None]
    sides = [scale * min(sum(layer.reach) + layer.cell, FAR * state.size) for layer in known]
    axes.plot([layer.depth for layer in known], sides, color=look.color, **THIN)


def draw_heads(results: Sequence[Result]) -> Figure:
    """Distance, entropy and likeness to a convolution of every head."""
    figure, ((spread, distance, likeness),) = sheet(1, 3, 4.4)
    points = scatter(spread, results, "relative_distance", "entropy")
    spread.axvline(1, color="0.5", linewidth=0.8)
    spread.set(xlabel="mean distance (× uniform attention)", ylabel="entropy (share of the largest)")
    figure.colorbar(points, ax=spread, label=DEPTH_OF_ATTENTION, location="bottom", aspect=40)
    against_depth(distance, results, "distance", "mean distance (px)")
    against_depth(likeness, results, "convolution_likeness", "likeness to a convolution (1 is one)")
    add_legend(figure, with_heads(results))
    return figure
