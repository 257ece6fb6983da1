"""What a model recognizes in one recording, and the maps of its outputs over time that a figure shows.

Shapes: N samples, T tokens, C classes (the last class is the blank, the end or "none"), S rows of a map.
"""

from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from vitspeech.checkpoint.folder import Model
from vitspeech.decoding.units import WORD_START, kind_of, word_ranges
from vitspeech.inference.label_stream import frame_times, words_of_frames
from vitspeech.inference.transcribe import Search, Segment, transcribe_batch
from vitspeech.models import SpeechTranscriber
from vitspeech.plots.heat_map import Map
from vitspeech.plots.spectrogram import cell_borders

# Up to ALL_UNITS units are all drawn; of more, those of at least MIN_PROBABILITY: MAX_UNITS at most, or as many as the
# transcript has, up to MOST_UNITS.
ALL_UNITS, MAX_UNITS, MOST_UNITS, MIN_PROBABILITY = 15, 20, 60, 0.05


@dataclass(frozen=True)
class Recognition:
    """The transcript of one recording and the outputs behind it.

    Args:
        text: The words of the transcript.
        words: The words with their times; `None` where CTC gives none (no CTC head, or it can't align the text).
        maps: The cross-attention of an encoder-decoder, the CTC probabilities, or both; of a labeler, the probability
            of each label.
        borders: Start of each column of the maps and end of the last one, in seconds.
    """

    text: list[str]
    words: list[Segment] | None
    maps: list[Map]
    borders: numpy.ndarray


@torch.no_grad()
def label_frames(model: Model, waveforms: Tensor) -> Recognition:
    """Label the frames of one recording (1, N): its words, and the probability of each label in each frame."""
    logits, _ = model.network(waveforms, torch.tensor([waveforms.shape[1]], device=waveforms.device))
    words, probabilities = words_of_frames(model, logits[0].cpu()), logits[0].float().softmax(-1).cpu()
    names, title = [*model.labels, "(none)"], "probability of each label in each frame"
    frames = Map(probabilities.T.numpy(), names, title, row_label="label", value_label="probability", highest=1)
    first_s, frame_s = frame_times(model.network)
    borders = first_s + frame_s * numpy.arange(len(probabilities) + 1)
    return Recognition([word.label for word in words], words, [frames], borders)


@torch.no_grad()
def recognize(model: Model, waveforms: Tensor, search: Search | None) -> Recognition:
    """Transcribe one recording (1, N) and keep the outputs that the transcript is based on."""
    network, labels, maps = model.network, model.labels, []
    lengths = torch.tensor([waveforms.shape[1]], device=waveforms.device)
    transcript = transcribe_batch(network, labels, waveforms, lengths, search)[0]
    indices, words = list(transcript.indices), list(transcript.words)
    names = [labels[index] for index in indices]
    text = [word.label for word in transcript.words] or transcript.text.split()
    if isinstance(network, SpeechTranscriber):
        encoded, _ = network.encode(waveforms)
        targets = torch.tensor([indices], dtype=torch.long, device=encoded.device)
        # The last block is drawn: after training its attention is the most concentrated, one peak per word.
        weights = network.cross_attention(encoded, None, targets)[-1, 0].mean(0)
        title = "cross-attention of the last decoder block, mean over heads"
        ranges = [
            ("".join(names[first:end]).strip(WORD_START), first, end) for first, end in word_ranges(names, labels)
        ]
        rows = [*ranges, ("end", len(names), len(names) + 1)]
        options = {"row_label": "output unit", "value_label": "weight", "words": rows}
        maps.append(Map(weights.cpu().numpy(), [*names, "end"], title, **options))
        logits = network.forward_ctc(encoded)
    else:
        logits, _ = network(waveforms)
    columns = maps[0].values.shape[1] if maps else logits.shape[1]
    hop, window = network.tokens.hop_samples, network.tokens.window_samples
    borders = cell_borders(columns, hop, window, model.preprocessing["sample_rate_hz"])
    if logits is None:
        return Recognition(text, None, maps, borders)
    posterior = logits[0].softmax(-1).cpu()
    is_characters = kind_of(labels) == "characters"
    classes = classes_to_draw(posterior, min(max(len(set(indices)), MAX_UNITS), MOST_UNITS))
    classes = sorted(classes) if is_characters else classes
    names, title = [[*labels, "blank"][index] for index in classes], "CTC: probability of each unit at each token"
    values = posterior.T[classes].numpy()
    maps.append(Map(values, names, title, row_label="unit", value_label="probability", highest=1))
    return Recognition(text, words if words or not indices else None, maps, borders)


def classes_to_draw(posterior: Tensor, most: int = MAX_UNITS) -> list[int]:
    """The classes that are drawn, from the top: `most` units, then the blank: (T, C) -> S."""
    blank = posterior.shape[1] - 1
    if blank <= ALL_UNITS:
        return list(range(blank + 1))
    peaks, times = posterior[:, :blank].max(0)
    ranking = peaks.argsort(descending=True).tolist()
    probable = [unit for unit in ranking if peaks[unit] >= MIN_PROBABILITY][:most]
    return [*sorted(probable, key=lambda unit: (int(times[unit]), unit)), blank]
