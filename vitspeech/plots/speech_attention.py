"""What a speech classifier attends to in one recording, drawn around its spectrogram.

Shapes: T tokens, H heads, L blocks, R hops of the pooling, C classes.
"""

from pathlib import Path

import numpy
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.attention import SelfAttentivePooling
from vitspeech.checkpoint.folder import Model
from vitspeech.inference.predict import read_input
from vitspeech.plots.attention_maps import add_color_bar, draw_relative, forward_with_attention, uniform_weights
from vitspeech.plots.spectrogram import cell_borders, draw_spectrogram
from vitspeech.plots.style import BLUE, GREEN, VERMILION, plain

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

    Args:
        model: From `vitspeech.load`; its network is a `SpeechClassifier` whose encoder or pooling has attention.
        file: The recording.
        output: The figure's file: PNG, or another format that matplotlib knows by the file name's suffix.

    Raises:
        FileNotFoundError: If the recording or the folder of `output` does not exist.
        InputError: If the recording is empty or broken.
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
