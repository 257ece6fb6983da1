"""What a decoder of symbols attends to: a map of output symbols over input symbols for each block and head.

Shapes: L blocks, H heads, U output symbols and the end, N input symbols.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from torch import Tensor, nn

from vitspeech.plots.style import PROBABILITY, plain

PANEL = 2.1  # inches
MOST_NAMES = 40  # symbols along an axis that are named


@dataclass(frozen=True)
class Alignment:
    """The cross-attention of one sequence."""

    inputs: Sequence[str]  # the input symbols
    outputs: Sequence[str]  # the output symbols, without the end
    weights: Tensor  # of every block and head; the last row is that of the end (L, H, U, N)


@torch.inference_mode()
def align_symbols(
    network: nn.Module, symbols: Sequence[str], labels: Sequence[str], inputs: Sequence[int], units: Sequence[int]
) -> Alignment:
    """The cross-attention of a sequence, given as indices, while its output is given, too (teacher forcing)."""
    device = next(network.parameters()).device
    encoded, padding = network.encode(torch.tensor([list(inputs)], device=device))
    targets = torch.tensor([list(units)], dtype=torch.long, device=device)
    weights = network.cross_attention(encoded, padding, targets)[:, 0].cpu()
    return Alignment([symbols[index] for index in inputs], [labels[unit] for unit in units], weights)


def draw_alignments(alignments: Sequence[Alignment], output: Path) -> None:
    """Draw the mean over heads and each head, with one row of maps for each sequence and block."""
    blocks, heads = alignments[0].weights.shape[:2]
    columns = 1 + heads if heads > 1 else 1
    rows = len(alignments) * blocks
    figure = Figure(figsize=(PANEL * columns + 1.2, PANEL * rows + 0.8), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for row, axes in enumerate(panels):
        alignment, block = alignments[row // blocks], row % blocks
        maps = alignment.weights[block]
        maps = torch.cat((maps.mean(0, keepdim=True), maps)) if heads > 1 else maps
        for column, values in enumerate(maps):
            image = draw_alignment(axes[column], alignment, values)
            axes[column].set_title(f"head {column}" if column else "mean over heads" if heads > 1 else "", fontsize=9)
        name = f"block {block + 1}\n" if blocks > 1 else ""
        axes[0].set_ylabel(f"{name}output, then the end", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("input", fontsize=9)
    figure.colorbar(image, ax=panels, label="attention weight", fraction=0.02, pad=0.01, aspect=30)
    figure.savefig(output, dpi=90, format=output.suffix[1:] or "png")


def draw_alignment(axes: Axes, alignment: Alignment, values: Tensor) -> ScalarMappable:
    """Draw one map (U, N) from light to dark, with the symbols beside it."""
    image = axes.imshow(values.numpy(), vmin=0, vmax=1, cmap=PROBABILITY, aspect="auto", interpolation="nearest")
    for axis, names in ((axes.xaxis, alignment.inputs), (axes.yaxis, [*alignment.outputs, "end"])):
        step = -(-len(names) // MOST_NAMES)
        axis.set_ticks(range(0, len(names), step), [plain(name) for name in names[::step]], fontsize=8)
    axes.tick_params(length=0)
    return image
