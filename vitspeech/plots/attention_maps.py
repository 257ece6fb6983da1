"""Attention weights of a network with our encoder, rollout, and how both are drawn.

Shapes: B batch, T tokens, D model width, H heads, L blocks, C classes.
"""

from dataclasses import dataclass

import numpy
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from torch import Tensor, nn

from vitspeech.attention import ClassToken, Encoder, MeanPooling, SelfAttentivePooling, window_mask
from vitspeech.errors import InputError
from vitspeech.plots.style import RELATIVE

TICKS = {"1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "1": 1, "2": 2, "4": 4, "8": 8}  # of every figure: they compare


@dataclass(frozen=True)
class AttentionPass:
    """One forward pass.

    Args:
        logits: (B, C).
        tokens: The encoder's output (B, T, D).
        weights: The attention weights of every block and head (L, B, H, T, T); L is 0 if the encoder has no attention.
            A row holds the weights of one query; keys outside its window have weight zero.
    """

    logits: Tensor
    tokens: Tensor
    weights: Tensor


@torch.no_grad()
def forward_with_attention(network: nn.Module, inputs: Tensor) -> AttentionPass:
    """Run a network once and record its encoder's attention weights with forward hooks.

    Args:
        network: In evaluation mode, with an `encoder`: `vitspeech.Encoder`, or one without attention.
        inputs: A batch, as the network takes it.
    """
    weights, encoded = [], []
    blocks = network.encoder.blocks if isinstance(network.encoder, Encoder) else ()
    hooks = [
        block.attention.register_forward_hook(
            lambda layer, args, kwargs, output: weights.append(layer.weights(*args, **kwargs)), with_kwargs=True
        )
        for block in blocks
    ]
    hooks.append(network.encoder.register_forward_hook(lambda encoder, args, output: encoded.append(output)))
    try:
        logits = network(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    batch, tokens, _ = encoded[0].shape
    none = encoded[0].new_zeros(0, batch, 1, tokens, tokens)
    return AttentionPass(logits, encoded[0], torch.stack(weights) if weights else none)


def uniform_weights(encoder: Encoder, tokens: int) -> Tensor:
    """The weights of queries that attend equally to every key in their window: (L, T, T)."""
    windows = zip(encoder.left, encoder.right, strict=True)
    allowed = torch.stack([window_mask(tokens, tokens, left, right) for left, right in windows])
    return allowed / allowed.sum(-1, keepdim=True)


def pooling_weights(pooling: nn.Module, tokens: Tensor) -> Tensor:
    """The weight of each token in the pooled vector, one row per hop: (1, T, D) -> (R, T).

    Raises:
        InputError: If the pooling is not a `MeanPooling`, `ClassToken` or `SelfAttentivePooling`.
    """
    if isinstance(pooling, SelfAttentivePooling):
        return pooling.weights(tokens)[0]
    weights = torch.zeros(1, tokens.shape[1], device=tokens.device)
    if isinstance(pooling, ClassToken):
        weights[:, 0] = 1
    elif isinstance(pooling, MeanPooling):
        weights[:] = 1 / tokens.shape[1]
    else:
        raise InputError(f"the weights of {type(pooling).__name__} are unknown, so its attention can't be drawn")
    return weights


def rollout(weights: Tensor) -> Tensor:
    """Attention rollout through all blocks (Abnar and Zuidema 2020, arXiv:2005.00928, sec. 3).

    Attention (the mean over heads) and the residual path count half each: Â = 0.5 A + 0.5 I, with rows divided by
    their sums. The result is Â_L · … · Â_1: row q says how much of each input token is in output token q.

    Shape:
        weights (L, H, T, T) -> (T, T)
    """
    identity = torch.eye(weights.shape[-1], device=weights.device)
    result = identity
    for layer in weights.mean(1):
        mixed = 0.5 * layer + 0.5 * identity
        result = mixed / mixed.sum(-1, keepdim=True) @ result
    return result


def draw_relative(axes: Axes, values: numpy.ndarray, extent: tuple[float, ...] | None = None) -> ScalarMappable:
    """Draw attention in multiples of uniform attention, on a logarithmic scale from 1/8 to 8.

    White is 1, orange is more, purple is less. Gray (NaN) marks pairs outside the attention window.
    """
    norm = LogNorm(TICKS["1/8"], TICKS["8"])
    positive = numpy.maximum(values, norm.vmin)  # a weight may be zero, which has no logarithm
    axes.set_facecolor("0.8")
    options = {"cmap": RELATIVE, "norm": norm, "interpolation": "nearest", "extent": extent}
    return axes.imshow(positive, aspect="auto" if extent else "equal", **options)


def add_color_bar(image: ScalarMappable, axes: Axes | list[Axes], label: str, **options: object) -> None:
    """Add the color bar of `draw_relative` beside `axes`; the options are those of `Figure.colorbar`."""
    figure = axes.figure if isinstance(axes, Axes) else axes[0].figure
    bar = figure.colorbar(image, ax=axes, label=label, extend="both", **options)
    bar.set_ticks(list(TICKS.values()), labels=list(TICKS))
    bar.minorticks_off()
