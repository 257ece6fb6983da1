"""The words of one recording with their times, and the network outputs behind them, drawn below the spectrogram.

Shapes: N samples, T tokens, C classes (the last class is the blank, the end or "none"), S rows of a map.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.decoding.unit_runs import Segment
from vitspeech.decoding.vocabulary import WORD_START, vocabulary_kind, word_ranges
from vitspeech.errors import InputError
from vitspeech.inference.decode import transcribe_batch
from vitspeech.inference.label_stream import frame_times, is_labeling, words_of_frames
from vitspeech.metrics.word_errors import Alignment, align
from vitspeech.models import SpeechLabeler, SpeechRecognizer, SpeechTranscriber
from vitspeech.plots.spectrogram import (
    BAR_INCHES,
    Map,
    cell_borders,
    draw_map,
    draw_spectrogram,
    figure_width,
    read_recording,
)
from vitspeech.plots.style import BLUE, GRAY, VERMILION

# Up to ALL_UNITS units are all drawn; of more, those of at least MIN_PROBABILITY: MAX_UNITS at most, or as many as the
# transcript has, up to MOST_UNITS.
ALL_UNITS, MAX_UNITS, MOST_UNITS, MIN_PROBABILITY = 15, 20, 60, 0.05


@dataclass(frozen=True)
class Recognition:
    """The transcript of one recording and the outputs behind it."""

    text: list[str]  # the words of the transcript
    # the words with their times; `None` where CTC gives none (no CTC head, or it can't align the text)
    words: list[Segment] | None
    # the cross-attention of an encoder-decoder, the CTC probabilities, or both; of a labeler, the probability of
    # each label
    maps: list[Map]
    borders: numpy.ndarray  # start of each column of the maps and end of the last one, in seconds


@torch.no_grad()
def label_frames(model: Model, waveforms: Tensor) -> Recognition:
    """Label the frames of one recording (1, N): its words, and the probability of each label in each frame."""
    logits, _ = model.network(waveforms, torch.tensor([waveforms.shape[1]], device=waveforms.device))
    words = words_of_frames(model.network, model.labels, logits[0])
    probabilities = logits[0].float().softmax(-1).cpu()
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
    is_characters = vocabulary_kind(labels) == "characters"
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


LETTER_INCHES = 0.08
CAPITAL = 1.4  # its width in letters

Mark = tuple[Segment, str]  # a word and its color
Lane = tuple[str, list[Mark]]  # the lane's name and its words


@torch.no_grad()
def draw_transcript(
    model: Model,
    file: Path,
    output: Path,
    *,
    search: Search | None = None,
    reference: Sequence[Segment] | None = None,
) -> None:
    """Draw the spectrogram of a recording, the recognized words and their times, and the outputs behind them.

    The panels cover the full recording. An encoder-decoder has a panel of its cross-attention, with one row per unit
    and one for the end. A network with CTC has a panel of the probability of each unit and of the blank at each token;
    with more than 15 units, it shows those that reach a probability of 0.05: characters in their own order, words and
    pieces in the order of their peaks, up to 20 or as many as the transcript has. Each token is drawn at the center of
    its samples. Word times are those of the best CTC alignment. A labeler has a panel of the probability of each label
    in each frame, and its words begin and end where their labels do.

    Args:
        model: From `vitspeech.load`; its network is a `SpeechRecognizer`, a `SpeechTranscriber` or a `SpeechLabeler`.
        file: The recording.
        output: The figure's file: PNG, or another format that matplotlib knows by the file name's suffix.
        search: Search parameters; `None` is `Search()`.
        reference: The true words and their times, drawn above the recognized ones; errors are orange.
    """
    check_drawable(model)
    waveforms, seconds = read_recording(model, file)
    result = label_frames(model, waveforms) if is_labeling(model) else recognize(model, waveforms, search)
    heights = [heat_map.height_inches for heat_map in result.maps]
    figure, spectrogram, maps = words_figure(
        file.name, result.text, result.words, seconds, heights, reference=reference
    )
    draw_spectrogram(spectrogram, model.network.tokens.log_mel, waveforms)
    for axes, heat_map in zip(maps, result.maps, strict=True):
        draw_map(axes, heat_map, result.borders)
        for word in reference or ():
            for time_s in (word.start_s, word.end_s):
                axes.axvline(time_s, color=GRAY, linestyle=":", linewidth=1)
    figure.align_ylabels()
    figure.savefig(output, dpi=130, format=output.suffix[1:] or "png")


def words_figure(
    name: str,
    text: Sequence[str],
    words: Sequence[Segment] | None,
    seconds: float,
    heights: Sequence[float],
    *,
    reference: Sequence[Segment] | None = None,
    below: float = 0,
) -> tuple[Figure | SubFigure, Axes, list[Axes]]:
    """A figure with the transcript and the lanes of words, then panels: the spectrogram and others of these heights.

    With `below`, the panels are in the upper part of a figure that has as many inches more, for a part beside time.
    """
    width = figure_width(seconds)
    letter_s = LETTER_INCHES * seconds / (width - 1.8)  # 1.8 inches are beside the panels
    alignment = None if reference is None else align([word.label for word in reference], text)
    lanes = lanes_of(words, reference, alignment, letter_s)
    title = title_of(name, text, alignment, letters=int(10 * width))
    heights = [*([0.27 * len(lanes)] if lanes else []), 20 * BAR_INCHES, *heights]
    height = 0.9 + 0.25 * title.count("\n") + sum(heights) + 0.3 * len(heights)
    whole = Figure(figsize=(width, height + below), layout="constrained")
    whole.suptitle(title, parse_math=False)
    figure = whole.subfigures(2, 1, height_ratios=(height, below))[0] if below else whole
    panels = list(figure.subplots(len(heights), sharex=True, height_ratios=heights))
    if lanes:
        draw_words(panels[0], lanes, letter_s)
    panels[-1].set(xlabel="time (s)", xlim=(0, seconds))
    first = 1 if lanes else 0
    return figure, panels[first], panels[first + 1 :]


def check_drawable(model: Model) -> None:
    """Refuse a model whose outputs `draw_transcript` does not draw."""
    if not isinstance(model.network, SpeechRecognizer | SpeechTranscriber | SpeechLabeler):
        name = type(model.network).__name__
        raise InputError(f"{name} can't be drawn: it is no SpeechRecognizer, SpeechTranscriber or SpeechLabeler")


def title_of(name: str, text: Sequence[str], alignment: Alignment | None, *, letters: int) -> str:
    """The transcript, wrapped at `letters` per line, and the number of errors if the reference is given."""
    transcript = f"“{' '.join(text)}”" if text else "no words"
    capitals = sum(map(str.isupper, transcript)) / len(transcript)
    lines = textwrap.wrap(f"{name}: {transcript}", int(letters / (1 + (CAPITAL - 1) * capitals)))
    if alignment is not None:
        lines.append(f"word errors: {alignment.errors} in {alignment.length}" + " (orange)" * bool(alignment.errors))
    return "\n".join(lines)


def lanes_of(
    words: Sequence[Segment] | None,
    reference: Sequence[Segment] | None,
    alignment: Alignment | None,
    letter_s: float,
) -> list[Lane]:
    """The lanes from the top: reference words, if given, and recognized words, if their times are known.

    The alignment of both determines the errors, which are orange; `letter_s` is the width of a letter in seconds.
    """
    pairs = [(word.label, word.label) for word in words or ()] if alignment is None else alignment.pairs
    lanes = []
    if reference is not None:
        colors = [GRAY if true == output else VERMILION for true, output in pairs if true is not None]
        lanes += without_overlap("reference", list(zip(reference, colors, strict=True)), letter_s)
    if words is not None:
        colors = [BLUE if true == output else VERMILION for true, output in pairs if output is not None]
        lanes += without_overlap("output", list(zip(words, colors, strict=True)), letter_s)
    return lanes


def without_overlap(name: str, marks: Sequence[Mark], letter_s: float) -> list[Lane]:
    """One lane, or several where names would overlap; the first one carries the name."""
    lanes, ends_s = [[]], [-math.inf]
    for word, color in marks:
        index = next((index for index, end_s in enumerate(ends_s) if end_s <= word.start_s), len(lanes))
        if index == len(lanes):
            lanes.append([])
            ends_s.append(-math.inf)
        lanes[index].append((word, color))
        ends_s[index] = word.end_s + (0 if fits(word, letter_s) else letter_s + written_s(word, letter_s))
    return [("" if index else name, lane) for index, lane in enumerate(lanes)]


def fits(word: Segment, letter_s: float) -> bool:
    """Whether a word can be written inside its box; otherwise it is written to the right of it."""
    return written_s(word, letter_s) <= word.end_s - word.start_s


def written_s(word: Segment, letter_s: float) -> float:
    """The width of a word's name in seconds; capitals are wider than other letters."""
    return (len(word.label) + (CAPITAL - 1) * sum(map(str.isupper, word.label))) * letter_s


def draw_words(axes: Axes, lanes: Sequence[Lane], letter_s: float) -> None:
    """Draw a box with a name for each word; errors are also bold."""
    for row, (_, marks) in enumerate(lanes):
        for word, color in marks:
            inside, duration_s = fits(word, letter_s), word.end_s - word.start_s
            face, weight = to_rgba(color, 0.25 if inside else 1), "bold" if color == VERMILION else "normal"
            axes.barh(row, duration_s, 0.8, word.start_s, facecolor=face, edgecolor=color)
            at_s, side = (word.start_s + duration_s / 2, "center") if inside else (word.end_s + letter_s / 2, "left")
            text = axes.text(at_s, row, word.label, ha=side, va="center", weight=weight, parse_math=False)
            text.set_in_layout(False)  # a name beyond the right edge would make the panels narrower
    axes.set_yticks(range(len(lanes)), [name for name, _ in lanes])
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.tick_params(length=0, labelbottom=False)
    axes.spines[:].set_visible(False)
