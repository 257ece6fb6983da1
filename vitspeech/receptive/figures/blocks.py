"""The receptive field of single blocks against their depth, for images and for speech."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from vitspeech.receptive.compare import Result
from vitspeech.receptive.figures.layout import DEPTH, add_legend, draw_estimates, readable, subplots, with_styles


@readable
def draw_blocks(results: Sequence[Result], *, unit: str) -> Figure:
    """The width of each block's own field, from the previous measured layer: with residual paths, and without.

    Args:
        results: The models.
        unit: Unit of length: px or ms.
    """
    figure, ((complete, cut),) = subplots(1, 2, 3.9, sharex=True, sharey=True)
    for result, style in with_styles(results):
        layers = result.main.layers
        for axes, blocks in (
            (complete, [layer.block for layer in layers]),
            (cut, [layer.block_cut for layer in layers]),
        ):
            widths = [(block or {}).get("width") for block in blocks]
            draw_estimates(axes, [layer.depth for layer in layers], widths, style, dashes=style.dashes)
    complete.set(title="complete block", ylabel=f"width of the block's field ({unit})", xlabel=DEPTH)
    cut.set(title="without residual paths", xlabel=DEPTH, xlim=(0, 1.05))
    complete.set_ylim(bottom=-0.02 * complete.get_ylim()[1])  # markers at 0 are not clipped
    add_legend(figure, with_styles(results))
    return figure
