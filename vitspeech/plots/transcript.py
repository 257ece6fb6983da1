"""What a recognizer hears in one recording, drawn under its spectrogram.

Shapes: N samples, T tokens, C classes, of which the last is the blank or the end, L units of the transcript, S rows.
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
from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.checkpoint.folder import Model
from vitspeech.data.audio.reading import read_clip
from vitspeech.inference.transcribe import Said, Search, is_transcribing, transcribed
from vitspeech.metrics.word_errors import Alignment, align
from vitspeech.models import SpeechTranscriber
from vitspeech.plots.attention import cells, draw_spectrogram
from vitspeech.plots.style import BLUE, GRAY, PROBABILITY, VERMILION

FEW, MOST, LEAST = 15, 20, 0.05  # so many units are all shown; of more, at most so many, which reach this probability
ROW_INCHES, LETTER_INCHES, BAR_INCHES = 0.19, 0.08, 0.11
NARROWEST_INCHES, WIDEST_INCHES, HIGHEST_INCHES = 9, 40, 12

Mark = tuple[Said, str]  # a word and its color
Lane = tuple[str, list[Mark]]  # its name and its words


@dataclass(frozen=True)
class Map:
    """Rows over time.

    Args:
        values: (S, T).
        names: Of the rows, from the top.
        title: What is drawn.
        row: What a row is.
        value: What a value is.
        highest: The value of the darkest color; `None` is the highest there is.
    """

    values: numpy.ndarray
    names: list[str]
    title: str
    row: str
    value: str
    highest: float | None = None

    @property
    def height_inches(self) -> float:
        """So much that names do not overlap, unless there are very many."""
        return min(max(0.3 + ROW_INCHES * len(self.names), 1), HIGHEST_INCHES)


@dataclass(frozen=True)
class Heard:
    """What one recording is to the network.

    Args:
        text: The transcript, word by word.
        words: The same with their times; `None` where CTC has none: it was not trained, or cannot say the text.
        maps: The cross-attention of an encoder-decoder, CTC's probabilities, or both.
    """

    text: list[str]
    words: list[Said] | None
    maps: list[Map]


@torch.no_grad()
def draw_transcript(
    model: Model, file: Path, path: Path, *, search: Search | None = None, said: Sequence[Said] | None = None
) -> None:
    """Draw one recording's spectrogram, the words heard in it and when, and where the network heard them.

    Over the whole recording, not cut or padded: the decoder's cross-attention, a row for each unit said and one for the
    end, if there is a decoder; the probability of each unit and of the blank at each token, if CTC was trained. Of more
    than 15 units those are shown that reach 0.05, 20 at most, in the order of their peaks. A token stands at the center
    of its samples. The words' times are those of CTC's best alignment.

    Args:
        model: From `vitspeech.load`; its network is a `SpeechRecognizer` or a `SpeechTranscriber`.
        file: The recording.
        path: The picture: PNG, or what else its ending names to matplotlib.
        search: How the transcript is looked for; `None` is `Search()`.
        said: The true words and when they are said, to be drawn over those that were heard; errors are orange.

    Raises:
        FileNotFoundError: If the recording or the picture's folder does not exist.
        ValueError: If the model gives no transcripts, or the recording is empty, broken or too short for a token.
    """
    network = model.network
    if not is_transcribing(network):
        raise ValueError(f"what is drawn is a transcript; {type(network).__name__} gives labels, not transcripts")
    tokens, rate_hz = network.tokens, model.preprocessing["sample_rate_hz"]
    samples = read_clip(file, rate_hz)
    if len(samples) < tokens.window_samples:
        raise ValueError(f"{file}: {len(samples)} samples are below the {tokens.window_samples} of one token")
    waveforms = (samples / 32768)[None].to(next(network.parameters()).device)
    heard, seconds = hear(model, waveforms, search), len(samples) / rate_hz
    alignment = None if said is None else align([word.label for word in said], heard.text)

    width = min(max(NARROWEST_INCHES, 2 + seconds), WIDEST_INCHES)
    letter_s = LETTER_INCHES * seconds / (width - 1.8)  # without what stands left and right of the panels
    lanes = lanes_of(heard.words, said, alignment, letter_s)
    title = title_of(file.name, heard.text, alignment, letters=int(10 * width))
    heights = [0.27 * len(lanes)] if lanes else []
    heights += [20 * BAR_INCHES, *(drawn.height_inches for drawn in heard.maps)]  # a color bar is 20 times as high
    height = 0.9 + 0.25 * title.count("\n") + sum(heights) + 0.3 * len(heights)
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, parse_math=False)
    panels = list(figure.subplots(len(heights), sharex=True, height_ratios=heights))
    if lanes:
        draw_words(panels[0], lanes, letter_s)
    draw_spectrogram(panels[-len(heard.maps) - 1], tokens.log_mel, waveforms)
    borders = cells(heard.maps[0].values.shape[1], tokens.hop_samples, tokens.window_samples, rate_hz)
    for axes, drawn in zip(panels[-len(heard.maps) :], heard.maps, strict=True):
        draw_map(axes, drawn, borders)
        for word in said or ():
            for time_s in (word.start_s, word.end_s):
                axes.axvline(time_s, color=GRAY, linestyle=":", linewidth=1)
    panels[-1].set(xlabel="time (s)", xlim=(0, seconds))
    figure.align_ylabels()
    figure.savefig(path, dpi=130, format=path.suffix[1:] or "png")


def hear(model: Model, waveforms: Tensor, search: Search | None) -> Heard:
    """The transcript of one recording (1, N), and what it was read from."""
    network, labels, maps = model.network, model.labels, []
    lengths = torch.tensor([waveforms.shape[1]], device=waveforms.device)
    found = transcribed(network, labels, waveforms, lengths, search)[0]
    units, timed = list(found.numbers), list(found.units)
    names = [labels[unit] for unit in units]
    text = "".join(names).split() if " " in labels else names
    if isinstance(network, SpeechTranscriber):
        encoded, _ = network.encode(waveforms)
        given = torch.tensor([units], dtype=torch.long, device=encoded.device)
        # The last block's: after training it is nearest to one place a word, those before it look about.
        weights = network.cross_attention(encoded, None, given)[-1, 0].mean(0)
        title = "cross-attention of the last decoder block, mean over heads"
        maps.append(Map(weights.cpu().numpy(), [*names, "end"], title, row="unit heard", value="weight"))
        logits = network.forward_ctc(encoded)
    else:
        logits, _ = network(waveforms)
    if logits is None:
        return Heard(text, None, maps)
    posterior = logits[0].softmax(-1).cpu()
    shown = shown_classes(posterior)
    names, title = [[*labels, "blank"][place] for place in shown], "CTC: probability of each unit at each token"
    maps.append(Map(posterior.T[shown].numpy(), names, title, row="unit", value="probability", highest=1))
    return Heard(text, joined(timed, labels) if timed or not units else None, maps)


def title_of(name: str, text: Sequence[str], alignment: Alignment | None, *, letters: int) -> str:
    """What is heard, in lines of so many letters, and how many errors it has, if that is known."""
    heard = f"“{' '.join(text)}”" if text else "nothing is heard"
    lines = textwrap.wrap(f"{name}: {heard}", letters)
    if alignment is not None:
        lines.append(f"word errors: {alignment.errors} in {alignment.length}" + " (orange)" * bool(alignment.errors))
    return "\n".join(lines)


def shown_classes(posterior: Tensor) -> list[int]:
    """Which classes are drawn, from the top: units, then the blank: (T, C) -> S."""
    blank = posterior.shape[1] - 1
    if blank <= FEW:
        return list(range(blank + 1))
    peaks, places = posterior[:, :blank].max(0)
    likeliest = [unit for unit in peaks.argsort(descending=True).tolist() if peaks[unit] >= LEAST][:MOST]
    return [*sorted(likeliest, key=lambda unit: (int(places[unit]), unit)), blank]


def joined(units: Sequence[Said], labels: Sequence[str]) -> list[Said]:
    """Characters put together to words, from the first one's start to the last one's end; words as they are."""
    if " " not in labels:
        return list(units)
    words, inside = [], False
    for unit in units:
        if unit.label != " ":
            begun = words.pop() if inside else Said("", unit.start_s, unit.end_s)
            words.append(Said(begun.label + unit.label, begun.start_s, unit.end_s))
        inside = unit.label != " "
    return words


def lanes_of(
    words: Sequence[Said] | None, said: Sequence[Said] | None, alignment: Alignment | None, letter_s: float
) -> list[Lane]:
    """From the top: the words said, if they are known, and those heard, if their times are.

    Args:
        words: Those heard.
        said: The true ones.
        alignment: Of both, by which what is wrong is orange; `None` where the true words are not known.
        letter_s: How wide a letter is drawn, in seconds.
    """
    pairs = [(word.label, word.label) for word in words or ()] if alignment is None else alignment.pairs
    lanes = []
    if said is not None:
        colors = [GRAY if one == other else VERMILION for one, other in pairs if one is not None]
        lanes += apart("said", list(zip(said, colors, strict=True)), letter_s)
    if words is not None:
        colors = [BLUE if one == other else VERMILION for one, other in pairs if other is not None]
        lanes += apart("heard", list(zip(words, colors, strict=True)), letter_s)
    return lanes


def apart(name: str, marks: Sequence[Mark], letter_s: float) -> list[Lane]:
    """One lane, or more where words would otherwise be written over one another; the first has the name."""
    lanes, ends_s = [[]], [-math.inf]
    for word, color in marks:
        free = next((place for place, end_s in enumerate(ends_s) if end_s <= word.start_s), len(lanes))
        if free == len(lanes):
            lanes.append([])
            ends_s.append(-math.inf)
        lanes[free].append((word, color))
        ends_s[free] = word.end_s + (0 if fits(word, letter_s) else (len(word.label) + 1) * letter_s)
    return [("" if place else name, lane) for place, lane in enumerate(lanes)]


def fits(word: Said, letter_s: float) -> bool:
    """Whether a word's name can be written within its time; otherwise it stands behind it."""
    return len(word.label) * letter_s <= word.end_s - word.start_s


def draw_words(axes: Axes, lanes: Sequence[Lane], letter_s: float) -> None:
    """A box for each word's time, with its name; what is wrong is bold, too."""
    for place, (_, marks) in enumerate(lanes):
        for word, color in marks:
            inside, lasts_s = fits(word, letter_s), word.end_s - word.start_s
            face, weight = to_rgba(color, 0.25 if inside else 1), "bold" if color == VERMILION else "normal"
            axes.barh(place, lasts_s, 0.8, word.start_s, facecolor=face, edgecolor=color)
            at_s, side = (word.start_s + lasts_s / 2, "center") if inside else (word.end_s + letter_s / 2, "left")
            text = axes.text(at_s, place, word.label, ha=side, va="center", weight=weight, parse_math=False)
            text.set_in_layout(False)  # a name that goes beyond the right edge would make the panels narrower
    axes.set_yticks(range(len(lanes)), [name for name, _ in lanes])
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.tick_params(length=0, labelbottom=False)
    axes.spines[:].set_visible(False)


def draw_map(axes: Axes, drawn: Map, borders: numpy.ndarray) -> None:
    """Rows over time, light to dark, with every name or, where there are too many, every so many."""
    span, scale = (*borders[[0, -1]], len(drawn.names) - 0.5, -0.5), {"vmin": 0, "vmax": drawn.highest}
    image = axes.imshow(drawn.values, cmap=PROBABILITY, aspect="auto", interpolation="nearest", extent=span, **scale)
    axes.figure.colorbar(image, ax=axes, label=drawn.value, pad=0.01, aspect=drawn.height_inches / BAR_INCHES)
    step = math.ceil(len(drawn.names) * ROW_INCHES / HIGHEST_INCHES)
    names = ["␣" if name == " " else name for name in drawn.names]
    axes.set_yticks(range(0, len(names), step), names[::step], parse_math=False)
    axes.set(title=drawn.title, ylabel=drawn.row)
