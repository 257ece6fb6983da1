"""A recording with its masked spans, and how probable the true code of each masked token is."""

from pathlib import Path

import numpy
import torch
from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.models import MaskedSpeechModel
from vitspeech.plots.spectrogram import cell_borders, draw_spectrogram
from vitspeech.plots.style import BLUE, EMPTY_GRAY, VERMILION


@torch.no_grad()
def draw_masked_speech(network: MaskedSpeechModel, waveform: Tensor, path: Path) -> None:
    """Draw the spectrogram with its masked spans, and the probability of the true code of each masked token."""
    logits, codes, mask = network(waveform)
    probabilities = logits.float().softmax(-1).gather(1, codes[:, None])[:, 0].cpu().numpy()
    right, masked = (logits.argmax(-1) == codes).cpu().numpy(), mask[0].numpy()
    log_mel, stride = network.tokens.log_mel, network.stride
    borders = cell_borders(
        mask.shape[1] * stride + network.first_frame,
        log_mel.hop_samples,
        log_mel.window_samples,
        log_mel.sample_rate_hz,
    )[network.first_frame :: stride]
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    draw_spectrogram(above, log_mel, waveform)
    for place in numpy.flatnonzero(masked):
        above.axvspan(borders[place], borders[place + 1], color=EMPTY_GRAY, linewidth=0)
    colors = numpy.where(right, BLUE, VERMILION)
    below.bar(borders[:-1][masked], probabilities, numpy.diff(borders)[masked], align="edge", color=colors)
    below.set(xlabel="time (s)", ylabel="probability of the true code")
    below.set_title("blue: the most probable code is the true one", fontsize="small")
    figure.savefig(path, dpi=120)
