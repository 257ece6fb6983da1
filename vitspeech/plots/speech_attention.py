"""What a speech classifier attends to in one recording, drawn below its spectrogram.

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
    """Draw the spectrogram, the attention received by each token, the labels over time, and the last block's map.

    Times are those of the clip: the second of most energy in a longer recording, or a shorter recording padded on both
    sides. Each token is drawn at the center of its samples. Attention is relative to uniform attention over the keys
    in each query's window.

    Args:
        model: From `vitspeech.load`; its network is a `SpeechClassifier`.
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
    tokens = attention.tokens.shape[1]
    weights, uniform = attention.weights[:, 0].mean(1).cpu(), uniform_weights(network.encoder, tokens)
    received, rows = weights.mean(1) / uniform.mean(1), [str(block) for block in range(1, len(weights) + 1)]
    if isinstance(network.pooling, SelfAttentivePooling):
        hops = network.pooling.weights(attention.tokens)[0].cpu() * tokens
        received, rows = torch.cat((received, hops)), rows + ["pooling"] * len(hops)

    log_mel, has_frame_labels = network.tokens.log_mel, network.pooling.factor == 1
    borders = cell_borders(tokens, network.tokens.hop_samples, network.tokens.window_samples, log_mel.sample_rate_hz)
    heights = [2.6, 0.9 + 0.16 * len(rows), *([1.5] if has_frame_labels else [])]
    figure = Figure(figsize=(14, 1.3 + sum(heights)), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.5, 1), wspace=0.02)
    panels = left.subplots(len(heights), sharex=True, height_ratios=heights)
    draw_spectrogram(panels[0], log_mel, waveforms)
    panels[0].set_title(f"{file.name}: “{model.labels[clip.argmax()]}”, probability {clip.max():.3f}", parse_math=False)
    image = draw_relative(panels[1], received.numpy(), (*borders[[0, -1]], len(rows) - 0.5, -0.5))
    add_color_bar(image, panels[1], COLOR_BAR_LABEL, pad=0.01)
    panels[1].set_yticks(range(len(rows)), rows)
    panels[1].set(ylabel="block", title="attention received by each token, mean over heads and queries")
    if has_frame_labels:  # with several hops the head takes all of them and not a single token
        frames = network.frame_logits(attention.tokens)[0].softmax(-1).cpu().numpy()
        draw_labels(panels[2], clip, frames, model.labels, borders)
    panels[-1].set(xlabel="time in the clip (s)", xlim=(0, waveforms.shape[1] / log_mel.sample_rate_hz))
    draw_last_block(right.subplots(subplot_kw={"box_aspect": 1}), weights[-1] / uniform[-1], borders)
    figure.savefig(output, dpi=130, format=output.suffix[1:] or "png")


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
