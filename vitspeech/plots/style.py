"""The colors, dashes and markers of every figure: one place, so that a model looks the same wherever it is drawn.

The palette is that of Okabe and Ito (2008), which color-blind readers can tell apart. Dashes and markers repeat the
distinction in grayscale.
"""

BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY_BLUE = "#56B4E9"
BLACK = "#000000"
GRAY = "0.45"

COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE)  # in the order in which series take them
DASHES = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = "os^DvPX"

SPECTROGRAM = "magma"  # color maps by what they show
PROBABILITY = "magma_r"
COUNTS = "Blues"
