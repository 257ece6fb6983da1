"""Colors, dashes and markers of all figures, so that a model looks the same in each of them.

The palette is that of Okabe and Ito (2008), which color-blind readers can tell apart. Dashes and markers make the same
distinctions in grayscale.
"""

from dataclasses import dataclass

BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY_BLUE = "#56B4E9"
BLACK = "#000000"
WHITE = "#FFFFFF"
GRAY = "0.45"
DARK_GRAY = "0.3"  # legend entries not tied to one model
REFERENCE_GRAY = "0.5"  # lines at 0, 50 % or 90 %
EMPTY_GRAY = "0.7"  # cells of a heat map without a value
HIGHLIGHT_GRAY = "0.92"  # background of a highlighted row

COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE)  # in the order in which series are drawn
DASHES = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = "os^DvPX"

SPECTROGRAM = "magma"  # color maps, named after what they show
PROBABILITY = "magma_r"
COUNTS = "Blues"
RELATIVE = "PuOr_r"  # multiples of a reference: white is the reference, orange more, purple less
ENERGY = "magma"
DEPTH = "cividis"
GRAYSCALE = "gray"
INVERTED_GRAYSCALE = "gray_r"

Dashes = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class SeriesStyle:
    """How one series, such as a model, is drawn in every figure."""

    color: str
    dashes: Dashes
    marker: str


def plain(text: str) -> str:
    """Escape the dollar signs of a name, such as a label or a file, that matplotlib would read as mathematics."""
    return text.replace("$", r"\$")


def series_styles(count: int) -> list[SeriesStyle]:
    """The styles of `count` series; up to six differ in color, in dashes and in marker."""
    return [
        SeriesStyle(COLORS[place % len(COLORS)], DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)])
        for place in range(count)
    ]
