"""Numbers of layers against their depth, as far as they are drawn alike of pictures and speech."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from vitspeech.receptive.comparison import Result
from vitspeech.receptive.figures.layout import add_legend, draw_estimates, sheet, with_looks

DEPTH = "depth (share of the layers measured)"


def draw_blocks(results: Sequence[Result], *, unit: str) -> Figure:
    """Each block's own width, from the layer measured before it: with its skipping paths, and without.

    Args:
        results: The models.
        unit: Of lengths: px or ms.
    """
    figure, ((whole, cut),) = sheet(1, 2, 4.4, sharex=True, sharey=True)
    for result, look in with_looks(results):
        layers = result.main.layers
        for axes, blocks in (
            (whole, [layer.block for layer in layers]),
            (cut, [layer.block_cut for layer in layers]),
        ):
            widths = [(block or {}).get("width") for block in blocks]
            draw_estimates(axes, [layer.depth for layer in layers], widths, look, dashes=look.dashes)
    whole.set(title="the block as it is", ylabel=f"width of the block's own field ({unit})", xlabel=DEPTH)
    cut.set(title="its skipping paths cut", xlabel=DEPTH, xlim=(0, 1.03))
    whole.set_ylim(bottom=-0.02 * whole.get_ylim()[1])  # marks at 0 stay whole
    add_legend(figure, with_looks(results))
    return figure
