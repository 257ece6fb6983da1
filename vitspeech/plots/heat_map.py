"""A heat map over time, such as the probabilities of units or an attention, as a panel below a spectrogram.

Shapes: T tokens, S rows of a map.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from matplotlib.axes import Axes

from vitspeech.plots.style import PROBABILITY

ROW_INCHES, BAR_INCHES = 0.19, 0.11
MAX_MAP_INCHES = 12


@dataclass(frozen=True)
class Map:
    """A heat map over time.

    Args:
        values: (S, T).
        names: Names of the rows, from the top.
        title: Title of the panel.
        row_label: Label of the vertical axis.
        value_label: Label of the color bar.
        highest: Value of the darkest color; `None` is the maximum.
        words: The words that the rows spell, each with its first row and the one after its last. They replace the
            names if there are too many of these.
    """

    values: numpy.ndarray
    names: list[str]
    title: str
    row_label: str
    value_label: str
    highest: float | None = None
    words: Sequence[tuple[str, int, int]] = ()

    @property
    def height_inches(self) -> float:
        """High enough that the row names do not overlap, up to a limit."""
        return min(max(0.3 + ROW_INCHES * len(self.names), 1), MAX_MAP_INCHES)


def draw_map(axes: Axes, heat_map: Map, borders: numpy.ndarray) -> None:
    """Draw a map from light to dark, with the name of every row; of too many, with words or every n-th name."""
    extent = (*borders[[0, -1]], len(heat_map.names) - 0.5, -0.5)
    scale = {"vmin": 0, "vmax": heat_map.highest, "cmap": PROBABILITY}
    image = axes.imshow(heat_map.values, **scale, aspect="auto", interpolation="nearest", extent=extent)
    bar = {"pad": 0.01, "aspect": heat_map.height_inches / BAR_INCHES}
    axes.figure.colorbar(image, ax=axes, label=heat_map.value_label, **bar)
    step = math.ceil(len(heat_map.names) * ROW_INCHES / MAX_MAP_INCHES)
    if step > 1 and heat_map.words:
        rows, names = zip(*spelled(heat_map), strict=True)
    else:
        names = ["␣" if name == " " else name for name in heat_map.names]
        rows, names = range(0, len(names), step), names[::step]
    axes.set_yticks(rows, names, parse_math=False)
    axes.set(title=heat_map.title, ylabel=heat_map.row_label)


def spelled(heat_map: Map) -> list[tuple[float, str]]:
    """The center and the name of each word beside the rows; words that would overlap the one above are left out."""
    inches, shown = heat_map.height_inches / len(heat_map.names), []
    for word, first, end in heat_map.words:
        center = (first + end - 1) / 2
        if not shown or (center - shown[-1][0]) * inches >= ROW_INCHES:
            shown.append((center, word))
    return shown
