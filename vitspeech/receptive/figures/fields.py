"""Heat maps of effective receptive fields: one row per model, one column per layer, one color scale for all panels.

Each panel is zoomed to the field that it shows, so panels have different extents.

Shapes: I, J rows and columns of a re-centered field.
"""

from collections.abc import Callable, Sequence

import numpy
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from vitspeech.plots.style import EMPTY_GRAY, ENERGY
from vitspeech.receptive.compare import Result
from vitspeech.receptive.fields.field import Field
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures.layout import SMALL_FONT, WIDTH, shortened, wrapped

COLUMNS = 5
DECADES = 5  # of energy that the color scale covers
MARGIN = 1.12  # extent of a panel, relative to what it shows
FITTING, SLACK = 1.3, 2.0  # a theoretical field is shown up to this factor, and these cells, beyond the energy
STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8)
ZOOM_NOTE = "panels have different extents"

DrawField = Callable[[Axes, Result, LayerNumbers, LogNorm], AxesImage]


def selected_layers(result: Result) -> list[LayerNumbers]:
    """At most `COLUMNS` layers of the main state, evenly spaced in order, including the first and the last."""
    layers = result.main.layers
    count = min(COLUMNS, len(layers))
    return [layers[place] for place in numpy.linspace(0, len(layers) - 1, count).round().astype(int)]


def shared_norm(results: Sequence[Result]) -> LogNorm:
    """A logarithmic color scale from the largest fraction of all panels down to 10^−`DECADES` of it."""
    largest = max(float(layer.fields.cumulative.mean.max()) for result in results for layer in selected_layers(result))
    return LogNorm(largest / 10**DECADES, largest)


def draw_image(
    axes: Axes, field: Field, norm: LogNorm, extent: tuple[float, ...], *, in_time: bool = False, origin: str = "upper"
) -> AxesImage:
    """Draw the mean of a field over inputs; cells without energy are gray.

    Args:
        axes: The panel.
        field: The field.
        norm: Color scale from `shared_norm`.
        extent: Left, right, bottom and top edge of the image.
        in_time: Whether rows are moments, drawn from left to right.
        origin: Position of the first row: `upper` or `lower`.
    """
    mean = field.mean.numpy()
    colors = colormaps[ENERGY].with_extremes(bad=EMPTY_GRAY)
    values = numpy.ma.masked_equal(mean.T if in_time else mean, 0)
    return axes.imshow(values, cmap=colors, norm=norm, extent=extent, origin=origin, interpolation="nearest")


def half_extent(field: Field, *, axes: Sequence[int]) -> float:
    """How far from its unit a panel reaches to show all energy, and the theoretical field if it is not much larger.

    Args:
        field: The field.
        axes: Axes of the field that count: 0 for rows, 1 for columns.

    Returns:
        The distance in cells of the source.
    """
    reach, edges = 0.5, []
    for axis in axes:
        offsets = (field.rows, field.columns)[axis]
        reach = max(reach, float(offsets[field.mean.sum(1 - axis) > 0].abs().max()) + 0.5)
        edges += [abs(field.theoretical[axis].low) + 0.5, abs(field.theoretical[axis].high) + 0.5]
    limit = FITTING * reach + SLACK
    return MARGIN * max([reach, *(edge for edge in edges if field.known and edge <= limit)])


def set_symmetric_ticks(axes: Axes, half: float) -> None:
    """Ticks at 0 and on both sides at the largest of `STEPS` · 10^k within 85 % of the panel."""
    power = 10.0 ** numpy.floor(numpy.log10(0.85 * half))
    tick = power * max(step for step in STEPS if step * power <= 0.85 * half)
    axes.set_xticks([-tick, 0, tick], [f"−{tick:g}", "0", f"{tick:g}"])


def draw_grid(
    results: Sequence[Result], draw: DrawField, *, label: str, margin: float, **options: object
) -> tuple[Figure, numpy.ndarray]:
    """The grid of panels with its color bar; models with fewer layers leave panels empty.

    Args:
        results: The models, one row each.
        draw: Function that draws one panel.
        label: Label of the color bar.
        margin: Inches that model names, tick labels and the color bar take.
        options: Arguments of `Figure.subplots`.

    Returns:
        The figure, and its panels: rows are models.
    """
    layers_of, norm = [selected_layers(result) for result in results], shared_norm(results)
    columns = max(map(len, layers_of))
    side = min((WIDTH - margin) / columns, 2.4)
    figure = Figure(figsize=(WIDTH, (side + 0.72) * len(results) + 0.75), layout="constrained")
    panels = figure.subplots(len(results), columns, squeeze=False, **options)
    for result, layers, row in zip(results, layers_of, panels, strict=True):
        row[0].set_ylabel(wrapped(result.subject.name, 14), fontweight="bold")
        for axes, layer in zip(row, layers, strict=False):
            image = draw(axes, result, layer, norm)
            # A point is 1/72 inch, and a character is about half as wide as high.
            characters = int(side * 72 / (0.54 * SMALL_FONT))
            axes.set_title(f"{shortened(layer.name, characters)}\ndepth {layer.depth:.2f}", fontsize=SMALL_FONT)
            axes.tick_params(labelsize=SMALL_FONT)
            axes.set_facecolor(EMPTY_GRAY)
        for axes in row[len(layers) :]:
            axes.set_axis_off()
    bar = figure.colorbar(
        image, ax=panels, label=label, extend="min", pad=0.01, aspect=12 * len(results), fraction=0.04
    )
    bar.ax.tick_params(labelsize=SMALL_FONT)
    return figure, panels
