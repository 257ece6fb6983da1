"""Effective fields side by side: a row a model, a column a layer, one scale of colors for all.

Shapes: I, J rows and columns of a re-centerd field.
"""

from collections.abc import Callable, Sequence

import numpy
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from vitspeech.receptive.comparison import Result
from vitspeech.receptive.fields.effective import Field
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures.layout import WIDTH, shortened, wrapped

COLUMNS = 8
DECADES = 5  # of energy that colors tell apart
NOTHING = "0.7"  # where there is no energy at all
SMALL = 8.5  # letters above a panel

DrawField = Callable[[Axes, Result, LayerNumbers, LogNorm], AxesImage]


def shown_layers(result: Result) -> list[LayerNumbers]:
    """At most `COLUMNS` layers of the main state, evenly chosen by their order, with the first and the last."""
    layers = result.main.layers
    count = min(COLUMNS, len(layers))
    return [layers[place] for place in numpy.linspace(0, len(layers) - 1, count).round().astype(int)]


def shared_norm(results: Sequence[Result]) -> LogNorm:
    """Logarithmic, from the largest share of all that are drawn down to 10^−`DECADES` of it."""
    largest = max(float(layer.fields.cumulative.mean.max()) for result in results for layer in shown_layers(result))
    return LogNorm(largest / 10**DECADES, largest)


def draw_image(
    axes: Axes, field: Field, norm: LogNorm, extent: tuple[float, ...], *, in_time: bool = False, origin: str = "upper"
) -> AxesImage:
    """A field's mean over inputs, gray where it is zero.

    Args:
        axes: Where.
        field: What.
        norm: From `shared_norm`.
        extent: Left, right, bottom and top of the image.
        in_time: Draw its rows, which are moments, from left to right.
        origin: Where the first row drawn is: `upper` or `lower`.
    """
    mean = field.mean.numpy()
    colors = colormaps["magma"].with_extremes(bad=NOTHING)
    shown = numpy.ma.masked_equal(mean.T if in_time else mean, 0)
    return axes.imshow(shown, cmap=colors, norm=norm, extent=extent, origin=origin, interpolation="nearest")


def draw_grid(
    results: Sequence[Result], draw: DrawField, *, label: str, **options: object
) -> tuple[Figure, numpy.ndarray]:
    """The grid of panels with its color bar; panels of models that have fewer layers stay empty.

    Args:
        results: A row each.
        draw: Draws one panel.
        label: Of the color bar.
        options: Of `Figure.subplots`.

    Returns:
        The figure, and the panels: rows are models.
    """
    chosen, norm = [shown_layers(result) for result in results], shared_norm(results)
    columns = max(map(len, chosen))
    side = min((WIDTH - 2.4) / columns, 2.4)  # of a panel: names and the color bar take the rest
    figure = Figure(figsize=(WIDTH, (side + 0.5) * len(results) + 0.9), layout="constrained")
    panels = figure.subplots(len(results), columns, squeeze=False, sharex=True, **options)
    for result, layers, row in zip(results, chosen, panels, strict=True):
        row[0].set_ylabel(wrapped(result.subject.name, 16), fontsize=10, fontweight="bold")
        for axes, layer in zip(row, layers, strict=False):
            image = draw(axes, result, layer, norm)
            # A point of type is 1/72 inch, and a letter is about half as wide as high.
            room = int(0.95 * (WIDTH - 2) / columns * 72 / (0.56 * SMALL))
            axes.set_title(f"{shortened(layer.name, room)}\ndepth {layer.depth:.2f}", fontsize=SMALL)
            axes.tick_params(labelsize=SMALL)
            axes.set_facecolor(NOTHING)
        for axes in row[len(layers) :]:
            axes.set_axis_off()
    for column in panels.T:  # numbers stand under the lowest panel that is drawn
        lowest = [axes for axes in column if axes.axison][-1]
        lowest.tick_params(labelbottom=True)
    figure.colorbar(image, ax=panels, label=label, extend="min", pad=0.01, aspect=12 * len(results), fraction=0.03)
    return figure, panels
