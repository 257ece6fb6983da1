"""The cross-attention of encoder-decoders on one utterance: python docs/results/alignments.py PNG NAME=MODEL ...

The utterance is the first one of five words in the manifest speech-commands-1-7. The true words are given to the
decoder (teacher forcing). Dotted lines are the true starts and ends of the words.
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import vitspeech
from vitspeech.data import SpeechCommands, WordSequences
from vitspeech.plots.spectrogram import Map, cell_borders, draw_map, draw_spectrogram
from vitspeech.plots.style import GRAY

MANIFEST, WORDS = "speech-commands-1-7", 5


@torch.no_grad()
def main(output: str, *named: str) -> None:
    """Draw one map for each model below the spectrogram."""
    models = {name: vitspeech.load(folder) for name, _, folder in (item.partition("=") for item in named)}
    labels = next(iter(models.values())).labels
    data = WordSequences(SpeechCommands(labels, unknown=0, silence=0), manifests=[MANIFEST])
    items = data.test_sets()[MANIFEST]
    index = next(number for number, utterance in enumerate(items.utterances) if len(utterance.words) == WORDS)
    speech, _ = items[torch.tensor([index]), 0]
    waveforms, rate_hz = speech.waveforms / 32768, data.sample_rate_hz
    figure = Figure(figsize=(9, 2.4 + 1.7 * len(models)), layout="constrained")
    panels = figure.subplots(1 + len(models), sharex=True, height_ratios=[1.4, *[1] * len(models)])
    for axes, (name, model) in zip(panels[1:], models.items(), strict=True):
        network = model.network
        encoded, _ = network.encode(waveforms)
        weights = network.cross_attention(encoded, None, speech.units)[-1, 0].mean(0)
        rows = [*items.utterances[index].words, "end"]
        tokens = network.tokens
        borders = cell_borders(encoded.shape[1], tokens.hop_samples, tokens.window_samples, rate_hz)
        draw_map(axes, Map(weights.numpy(), rows, name, row_label="output unit", value_label="weight"), borders)
    draw_spectrogram(panels[0], tokens.log_mel, waveforms)
    for axes in panels[1:]:
        for sample in speech.spans.flatten().tolist():
            axes.axvline(sample / rate_hz, color=GRAY, linestyle=":", linewidth=1)
    panels[-1].set(xlabel="time (s)", xlim=(0, waveforms.shape[1] / rate_hz))
    figure.savefig(Path(output), dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
