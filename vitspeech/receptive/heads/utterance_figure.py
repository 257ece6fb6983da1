"""What the encoder of a recognizer attends to in one recording, drawn below the recognized words and the spectrogram.

Shapes: T tokens, L blocks, D distances.
"""

from pathlib import Path

import numpy
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from torch import Tensor

from vitspeech.attention import Encoder
from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.errors import InputError
from vitspeech.inference.decode import transcribe_batch
from vitspeech.inference.transcript import is_transcribing
from vitspeech.plots.spectrogram import cell_borders, draw_spectrogram, figure_width, read_recording
from vitspeech.plots.style import DEPTH, GRAY
from vitspeech.plots.transcript import words_figure
from vitspeech.receptive.heads.figure import (
    COLOR_BAR_LABEL,
    add_color_bar,
    draw_relative,
    draw_rows,
    recorded,
    row_height,
    uniform_weights,
)

BAND_INCHES, MAP_INCHES, PROFILE_INCHES = 2.6, 8.0, 2.6
LONGEST_WINDOW = 400  # tokens; wider windows are drawn by the time of the key
PROFILE_S = 3.0  # on both sides, where a window has no end


def check_drawable(model: Model) -> None:
    """Refuse a model whose encoder has no attention that could be drawn."""
    name = type(model.network).__name__
    if not is_transcribing(model) or "symbols" in model.preprocessing:
        raise InputError(f"{name} does not transcribe recordings; `vitspeech predict --attention` draws classifiers")
    encoder = getattr(model.network, "encoder", None)
    if not isinstance(encoder, Encoder) or not hasattr(model.network, "tokens"):
        raise InputError(f"the encoder of this {name} is {type(encoder).__name__}, which has no attention to draw")


@torch.no_grad()
def draw_utterance_attention(model: Model, file: Path, output: Path, *, search: Search | None = None) -> None:
    """Draw the recognized words with their times, the spectrogram, and what each token of the encoder attends to.

    Below the spectrogram are the attention that each token receives in every block, and that of the last block, by the
    distance of the key if its window is limited, else by the time of the key. At the bottom is the mean weight at each
    distance in every block. Attention is the mean over heads, relative to uniform attention over the keys in each
    query's window. Each token is drawn at the center of its samples.

    The arguments are those of `draw_transcript`; the network has our encoder.
    """
    check_drawable(model)
    network = model.network
    tokens, encoder, rate_hz = network.tokens, network.encoder, model.preprocessing["sample_rate_hz"]
    waveforms, seconds = read_recording(model, file)
    lengths = torch.tensor([waveforms.shape[1]], device=waveforms.device)
    with recorded(encoder, lambda weights: weights[0].mean(0).float().cpu()) as weights:
        transcript = transcribe_batch(network, model.labels, waveforms, lengths, search)[0]
    count, hop_s = len(weights[0]), tokens.hop_samples / rate_hz
    uniform = uniform_weights(encoder, count)
    borders = cell_borders(count, tokens.hop_samples, tokens.window_samples, rate_hz)

    words = transcript.words if transcript.units else None
    window = encoder.left[-1], encoder.right[-1]
    is_band = None not in window and sum(window) <= LONGEST_WINDOW
    heights = [row_height(len(weights)), BAND_INCHES if is_band else MAP_INCHES]
    upper, spectrogram, (received, last) = words_figure(
        file.name, transcript.text.split(), words, seconds, heights, below=PROFILE_INCHES
    )
    draw_spectrogram(spectrogram, tokens.log_mel, waveforms)
    relative = torch.stack([one.mean(0) for one in weights]) / uniform.mean(1)
    draw_rows(received, relative, borders)
    received.set(ylabel="block", title="attention received by each token, mean over heads and queries")
    if is_band:
        draw_band(last, weights[-1] / uniform[-1], window, borders, hop_s)
    else:
        draw_map(last, weights[-1] / uniform[-1], borders)
    upper.align_ylabels()
    ratios = (8, figure_width(seconds) - 8)  # no wider for a longer recording
    profiles, beside = upper.figure.subfigs[1].subplots(1, 2, width_ratios=ratios)
    beside.set_axis_off()
    draw_profiles(profiles, weights, encoder, hop_s)
    upper.figure.savefig(output, dpi=130, format=output.suffix[1:] or "png")


def by_distance(values: Tensor, left: int, right: int) -> Tensor:
    """Sort the entries of a map by the distance of the key, from `-left` to `right`: (T, T) -> (D, T).

    Where there is no key at this distance, it is NaN.
    """
    count = len(values)
    queries = torch.arange(count)
    keys = queries + torch.arange(-left, right + 1)[:, None]
    inside = (keys >= 0) & (keys < count)
    return torch.where(inside, values[queries, keys.clamp(0, count - 1)], torch.nan)


def draw_band(axes: Axes, relative: Tensor, window: tuple[int, int], borders: numpy.ndarray, hop_s: float) -> None:
    """Draw the last block's attention by the time of the query and the distance of the key; later keys are above."""
    left, right = window
    values = by_distance(relative, left, right).flip(0).numpy()
    image = draw_relative(axes, values, (*borders[[0, -1]], -(left + 0.5) * hop_s, (right + 0.5) * hop_s))
    add_color_bar(image, axes, COLOR_BAR_LABEL, pad=0.01)
    axes.set(title="last block: what each token attends to, mean over heads", ylabel="key after query (s)")


def draw_map(axes: Axes, relative: Tensor, borders: numpy.ndarray) -> None:
    """Draw the last block's attention by the times of query and key."""
    image = draw_relative(axes, relative.T.flip(0).numpy(), tuple(borders[[0, -1, 0, -1]]))
    add_color_bar(image, axes, COLOR_BAR_LABEL, pad=0.01)
    window = "; gray: outside its window" if relative.isnan().any() else ""
    axes.set(title=f"last block: what each token attends to, mean over heads{window}", ylabel="time of key (s)")


def draw_profiles(axes: Axes, weights: list[Tensor], encoder: Encoder, hop_s: float) -> None:
    """Draw the mean weight at each distance of the key, one line for each block."""
    count = len(weights[0])
    reach = min(round(PROFILE_S / hop_s), count - 1)
    colors = colormaps[DEPTH](numpy.linspace(0, 0.92, len(weights)))  # the end of the map is too light for a line
    for number, values in enumerate(weights, 1):
        left, right = encoder.left[number - 1], encoder.right[number - 1]
        left, right = (reach if side is None else min(side, count - 1) for side in (left, right))
        means = by_distance(values, left, right).nanmean(1)
        distances = hop_s * numpy.arange(-left, right + 1)
        axes.plot(distances, 100 * means.numpy(), color=colors[number - 1], linewidth=1.5, label=str(number))
    axes.axvline(0, color=GRAY, linestyle=":", linewidth=1)
    axes.set(title="mean weight at each distance", xlabel="key after query (s)", ylabel="weight (%)")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(title="block", fontsize=8, title_fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), ncols=2)
