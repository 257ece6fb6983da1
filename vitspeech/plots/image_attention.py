"""What a vision transformer attends to in one image.

Shapes: T tokens, P patches, L blocks, C classes, N image side.
"""

import math
from pathlib import Path

import matplotlib
import numpy
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.attention import ClassToken, SelfAttentivePooling
from vitspeech.checkpoint.folder import Model
from vitspeech.data.images.reading import read_picture
from vitspeech.inference.predict import read_input
from vitspeech.models import ViT
from vitspeech.plots.attention_maps import (
    AttentionPass,
    add_color_bar,
    draw_relative,
    forward_with_attention,
    pooling_weights,
    rollout,
    uniform_weights,
)

COLUMNS = 3
WIDTH_INCHES = 6.5  # so narrow that the text can be read when the figure is shown at 400 px
TOP = 3  # labels in the title
SHADOW = 0.4  # opacity of the image's darkest pixels over the colors, so that the colors can still be read
STYLE = {"font.size": 12, "axes.titlesize": "medium", "figure.titlesize": "medium"}


@torch.no_grad()
@matplotlib.rc_context(STYLE)
def draw_image_attention(model: Model, file: Path, output: Path) -> None:
    """Draw the image, its attention rollout, the weights that pool its patches, and the attention in each block.

    The panels are, from the top left:

    - the image as the network takes it: its center square at the network's resolution;
    - attention rollout through all blocks to the pooled vector (Abnar and Zuidema 2020, arXiv:2005.00928);
    - the attention that pools the patches: the weights of `SelfAttentivePooling` (mean over hops), or the class
      token's attention in the last block (mean over heads). Mean pooling weighs all patches alike and has no panel;
    - the attention that each patch receives in each block, mean over heads and queries.

    All maps are relative to uniform attention, share one color scale, and are shaded by the image.

    Args:
        model: From `vitspeech.load`; its network is a `ViT`.
        file: The image.
        output: The figure's file: PNG, or another format that matplotlib knows by the file name's suffix.

    Raises:
        FileNotFoundError: If the image or the folder of `output` does not exist.
        InputError: If the image is empty or broken, or the network's pooling is not one of `vitspeech.attention`.
    """
    network, side = model.network, model.preprocessing["image"]
    pixels = read_input(file, model.preprocessing).to(next(network.parameters()).device)
    attention = forward_with_attention(network, pixels)
    maps = attention_maps(network, attention)
    image = read_picture(file, side).permute(1, 2, 0).numpy()

    rows = math.ceil((1 + len(maps)) / COLUMNS)
    figure = Figure(figsize=(WIDTH_INCHES, 1.5 + 2.25 * rows), layout="compressed")
    figure.suptitle(title(file.name, attention.logits[0].softmax(-1), model.labels), parse_math=False)
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    panels[0].imshow(image, interpolation="nearest")
    panels[0].set_title(f"input, {side} × {side} px")
    for axes, (name, values) in zip(panels[1:], maps.items(), strict=False):
        mappable = draw_patches(axes, values, image)
        axes.set_title(name)
    for axes in panels:
        axes.set_axis_off()
    add_color_bar(mappable, panels, "attention (× uniform)", location="bottom", shrink=0.8, aspect=30)
    figure.savefig(output, dpi=130, format=output.suffix[1:] or "png")


def attention_maps(network: ViT, attention: AttentionPass) -> dict[str, Tensor]:
    """The maps to draw by their titles, relative to uniform attention: each (P,)."""
    pooling = network.pooling
    class_tokens = 1 if isinstance(pooling, ClassToken) else 0
    weights = attention.weights[:, 0].cpu()
    tokens = weights.shape[-1]
    pooled = pooling_weights(pooling, attention.tokens).mean(0).cpu()

    maps = {"rollout": pooled @ rollout(weights) * tokens}
    if isinstance(pooling, SelfAttentivePooling):
        maps["pooling weights"] = pooled * tokens
    elif class_tokens:
        maps["class token"] = weights[-1].mean(0)[0] * tokens
    received = weights.mean(1).mean(1) / uniform_weights(network.encoder, tokens).mean(1)
    maps |= {f"block {number}": row for number, row in enumerate(received, 1)}
    return {name: values[class_tokens:] for name, values in maps.items()}


def draw_patches(axes: Axes, values: Tensor, image: numpy.ndarray) -> ScalarMappable:
    """Draw one value per patch (P,) in color, shaded by the image's luminance (N, N, 3)."""
    grid, side = math.isqrt(len(values)), len(image)
    mappable = draw_relative(axes, values.unflatten(0, (grid, grid)).numpy(), (-0.5, side - 0.5, side - 0.5, -0.5))
    luminance = image @ numpy.array([0.299, 0.587, 0.114]) / 255
    shadow = numpy.zeros((*luminance.shape, 4))
    shadow[..., 3] = SHADOW * (1 - luminance)
    axes.imshow(shadow, extent=mappable.get_extent(), interpolation="nearest")
    axes.set_aspect("equal")
    return mappable


def title(name: str, probabilities: Tensor, labels: list[str]) -> str:
    """The file's name, and below it the most probable labels with their probabilities (C,)."""
    values, indices = probabilities.topk(min(TOP, len(labels)))
    pairs = zip(indices.tolist(), values.tolist(), strict=True)
    return f"{name}\n" + ", ".join(f"{labels[index]} {value:.2f}" for index, value in pairs)
