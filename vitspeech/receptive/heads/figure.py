"""The figures of what a classifier attends to in one image or recording: weights of attention and pooling, rollout.

Shapes: B batch, T tokens, P patches, D model width, H heads, L blocks, C classes, N image side.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor, nn

from vitspeech.attention import ClassToken, Encoder, MultiHeadAttention, SelfAttentivePooling, window_mask
from vitspeech.checkpoint.model import Model
from vitspeech.data.images.reading import read_picture
from vitspeech.errors import InputError
from vitspeech.inference.predict import read_input
from vitspeech.models import SpeechClassifier, TimmModel, ViT
from vitspeech.plots.spectrogram import cell_borders, draw_spectrogram
from vitspeech.plots.style import BLUE, GREEN, RELATIVE, VERMILION, plain
from vitspeech.receptive.heads.measures import class_tokens_of
from vitspeech.receptive.heads.relevance import at_head, rollout

TICKS = {"1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "1": 1, "2": 2, "4": 4, "8": 8}  # of every figure: they compare


@dataclass(frozen=True)
class AttentionPass:
    """One forward pass."""

    logits: Tensor  # (B, C)
    tokens: Tensor  # the encoder's output (B, T, D)
    # the attention weights of every block and head (L, B, H, T, T); L is 0 if the encoder has no attention. A row
    # holds the weights of one query; keys outside its window have weight zero
    weights: Tensor


@torch.no_grad()
def forward_with_attention(network: nn.Module, inputs: Tensor) -> AttentionPass:
    """Run a network in evaluation mode on a batch, and record its encoder's attention weights, if that has any."""
    encoded: list[Tensor] = []
    hook = network.encoder.register_forward_hook(lambda encoder, args, output: encoded.append(output))
    with hook, recorded(network.encoder) as weights:
        logits = network(inputs)
    batch, tokens, _ = encoded[0].shape
    none = encoded[0].new_zeros(0, batch, 1, tokens, tokens)
    return AttentionPass(logits, encoded[0], torch.stack(weights) if weights else none)


@contextmanager
def recorded(encoder: nn.Module, keep: Callable[[Tensor], Tensor] = lambda weights: weights) -> Iterator[list[Tensor]]:
    """A list that gets what is kept of the weights (B, H, T, T) of every block while an encoder runs."""
    weights: list[Tensor] = []

    def record(layer: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
        weights.append(keep(layer.weights(*args, **kwargs)))

    with ExitStack() as hooks:
        for block in encoder.blocks if isinstance(encoder, Encoder) else ():
            hooks.enter_context(block.attention.register_forward_hook(record, with_kwargs=True))
        yield weights


def uniform_weights(encoder: Encoder, tokens: int) -> Tensor:
    """The weights of queries that attend equally to every key in their window: (L, T, T)."""
    windows = zip(encoder.left, encoder.right, strict=True)
    allowed = torch.stack([window_mask(tokens, tokens, left, right) for left, right in windows])
    return allowed / allowed.sum(-1, keepdim=True)


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
    """
    network, side = model.network, model.preprocessing["image"]
    pixels = read_input(file, model.preprocessing).to(next(network.parameters()).device)
    attention = forward_with_attention(network, pixels)
    maps = attention_maps(network, pixels, attention)
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


def attention_maps(network: ViT, image: Tensor, attention: AttentionPass) -> dict[str, Tensor]:
    """The maps of one image (1, 3, N, N) to draw, by their titles, relative to uniform attention: each (P,)."""
    layers = attention.weights
    tokens = layers.shape[-1]
    matrices = {"rollout": rollout({f"block {number}": layer for number, layer in enumerate(layers)})[-1]}
    if isinstance(network.pooling, SelfAttentivePooling):
        matrices["pooling weights"] = torch.eye(tokens, device=layers.device)[None]
    elif isinstance(network.pooling, ClassToken):
        matrices["class token"] = layers[-1].mean(1)
    maps = {name: tokens * at_head(network, image, matrix)[0].cpu() for name, matrix in matrices.items()}
    received = layers[:, 0].mean(1).mean(1).cpu() / uniform_weights(network.encoder, tokens).mean(1)
    return maps | {f"block {number}": row[class_tokens_of(network) :] for number, row in enumerate(received, 1)}


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


LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, ":"))  # dashes distinguish them in grayscale
COLOR_BAR_LABEL = "attention\n(× uniform)"


@torch.no_grad()
def draw_speech_attention(model: Model, file: Path, output: Path) -> None:
    """Draw the spectrogram, and what the network has of: pooling weights, attention, labels over time.

    Above the spectrogram are the weights of every hop of a self-attentive pooling (Lin et al. 2017, arXiv:1703.03130);
    below it the attention that each token receives, and the labels at each token; beside it the last block's map.
    Times are those of the clip: the second of most energy in a longer recording, or a shorter recording padded on both
    sides. Each token is drawn at the center of its samples. Attention is relative to uniform attention over the keys
    in each query's window, pooling weights to those of a mean over all tokens.
    """
    network = model.network
    waveforms = read_input(file, model.preprocessing).to(next(network.parameters()).device)
    attention = forward_with_attention(network, waveforms)
    clip = attention.logits[0].softmax(-1).cpu()
    tokens, blocks = attention.tokens.shape[1], len(attention.weights)
    pooling, log_mel = network.pooling, network.tokens.log_mel
    hops = pooling.factor if isinstance(pooling, SelfAttentivePooling) else 0
    heights = {
        "hops": hops and row_height(hops),
        "spectrogram": 2.6,
        "received": blocks and row_height(blocks),
        "labels": 1.5 if pooling.factor == 1 else 0,  # with several hops the head takes all of them, not one token
    }
    heights = {name: height for name, height in heights.items() if height}
    widths = (8.4, 5.6) if blocks else (8.4,)
    figure = Figure(figsize=(sum(widths), 1.3 + sum(heights.values())), layout="constrained")
    left, *right = figure.subfigures(1, len(widths), width_ratios=widths, wspace=0.02, squeeze=False)[0]
    axes = left.subplots(len(heights), sharex=True, height_ratios=list(heights.values()), squeeze=False)[:, 0]
    panels = dict(zip(heights, axes, strict=True))
    borders = cell_borders(tokens, network.tokens.hop_samples, network.tokens.window_samples, log_mel.sample_rate_hz)

    draw_spectrogram(panels["spectrogram"], log_mel, waveforms)
    title = f"{file.name}: “{model.labels[clip.argmax()]}”, probability {clip.max():.3f}"
    panels["spectrogram"].set_title(title, parse_math=False)
    if hops:
        draw_rows(panels["hops"], pooling.weights(attention.tokens)[0].cpu() * tokens, borders)
        panels["hops"].set(ylabel="hop", title="weight of each token in the hops of the pooling")
    if blocks:
        weights, uniform = attention.weights[:, 0].mean(1).cpu(), uniform_weights(network.encoder, tokens)
        draw_rows(panels["received"], weights.mean(1) / uniform.mean(1), borders)
        panels["received"].set(ylabel="block", title="attention received by each token, mean over heads and queries")
        draw_last_block(right[0].subplots(subplot_kw={"box_aspect": 1}), weights[-1] / uniform[-1], borders)
    if "labels" in panels:
        frames = network.frame_logits(attention.tokens)[0].softmax(-1).cpu().numpy()
        draw_labels(panels["labels"], clip, frames, model.labels, borders)
    axes[-1].set(xlabel="time in the clip (s)", xlim=(0, waveforms.shape[1] / log_mel.sample_rate_hz))
    figure.savefig(output, dpi=130, format=output.suffix[1:] or "png")


def row_height(rows: int) -> float:
    """The height in inches of a panel of `draw_rows`."""
    return 0.9 + 0.16 * rows


def draw_rows(axes: Axes, relative: Tensor, borders: numpy.ndarray) -> None:
    """Draw the relative weights of the tokens in each of several rows, numbered from 1: (rows, T)."""
    count = len(relative)
    image = draw_relative(axes, relative.numpy(), (*borders[[0, -1]], count - 0.5, -0.5))
    add_color_bar(image, axes, COLOR_BAR_LABEL, pad=0.01)
    axes.set_yticks(range(count), [str(number) for number in range(1, count + 1)])


def draw_last_block(axes: Axes, relative: Tensor, borders: numpy.ndarray) -> None:
    """Draw the last block's attention map, relative to uniform attention: (T, T), NaN outside the window."""
    image = draw_relative(axes, relative.numpy(), tuple(borders[[0, -1, -1, 0]]))
    add_color_bar(image, axes, COLOR_BAR_LABEL, location="bottom", shrink=0.8)
    window = "; gray: outside its window" if relative.isnan().any() else ""
    axes.set(title=f"last block, mean over heads{window}", xlabel="time of key (s)", ylabel="time of query (s)")


def draw_labels(axes: Axes, clip: Tensor, frames: numpy.ndarray, labels: list[str], borders: numpy.ndarray) -> None:
    """Draw the probabilities at each token (T, C) of the clip's most probable labels (C,)."""
    ranking, centers = clip.argsort(descending=True).tolist(), (borders[1:] + borders[:-1]) / 2
    for (color, dashes), index in zip(LINES, ranking, strict=False):
        label = plain(f"“{labels[index]}”, clip {clip[index]:.3f}")
        axes.plot(centers, frames[:, index], dashes, color=color, linewidth=2, label=label)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(LINES), columnspacing=1.5, frameon=False)
    axes.set(ylabel="probability\nat each token", ylim=(0, 1.02))
    axes.grid(alpha=0.3)


def draw_attention(model: Model, file: Path, output: Path) -> None:
    """Draw what a classifier attends to in one image or recording.

    See `draw_image_attention` and `draw_speech_attention` for what the figures show.
    """
    check_drawable(model)
    draw = draw_image_attention if isinstance(model.network, ViT) else draw_speech_attention
    draw(model, file, output)


def check_drawable(model: Model) -> None:
    """Check that the attention of a model can be drawn."""
    network = model.network
    if not isinstance(network, ViT | SpeechClassifier):
        if "units" in model.preprocessing:
            reason = "is drawn by `vitspeech transcribe --picture`"
        elif isinstance(network, TimmModel) or any(isinstance(part, MultiHeadAttention) for part in network.modules()):
            reason = "is not supported"
        else:
            reason = "has no attention"
        raise InputError(f"--attention draws ViT and SpeechClassifier; {type(network).__name__} {reason}")
    parts = (network.encoder, network.pooling)
    if not isinstance(parts[0], Encoder) and not isinstance(parts[1], SelfAttentivePooling):
        names = " and ".join(type(part).__name__ for part in parts)
        raise InputError(f"--attention draws the weights of attention and of SelfAttentivePooling; {names} have none")
