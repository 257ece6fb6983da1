"""Colors, dashes and markers of all figures, so that a model looks the same in each of them.

The palette is that of Okabe and Ito (2008), which color-blind readers can tell apart. Dashes and markers make the same
distinctions in grayscale.
"""

BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY_BLUE = "#56B4E9"
BLACK = "#000000"
GRAY = "0.45"

COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE)  # in the order in which series are drawn
DASHES = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = "os^DvPX"

SPECTROGRAM = "magma"  # color maps, named after what they show
PROBABILITY = "magma_r"
COUNTS = "Blues"
RELATIVE = "PuOr_r"  # multiples of a reference: white is the reference, orange more, purple less
