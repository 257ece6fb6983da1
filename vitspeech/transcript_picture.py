"""What a recogniser hears in one recording, drawn under its spectrogram.

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

from vitspeech.attention_picture import cells, draw_spectrogram
from vitspeech.checkpoint import Model
from vitspeech.data.audio import read_clip
from vitspeech.models import SpeechTranscriber
from vitspeech.run_report import BLUE, ORANGE
from vitspeech.transcription import Said, Search, is_transcribing, transcribed
from vitspeech.word_errors import Alignment, align

FEW, MOST, LEAST = 15, 20, 0.05  # so many units are all shown; of more, so many at most, which reach this probability
ROW_INCHES, LETTER_INCHES = 0.19, 0.095
WIDEST_INCHES, HIGHEST_INCHES = 40, 12
GREY = "0.45"

Mark = tuple[Said, str]  # a word and its colour
Row = tuple[str, list[Mark]]  # its name and the words in it


@dataclass(frozen=True)
class Heard:
    """What one recording is to the network.

    Args:
        text: The transcript.
        words: Its words with their times; none of an encoder-decoder without a CTC head.
        posterior: CTC's probability of each class at each token (T, C); `None` without a CTC head.
        rows: The units in the order said, then "end"; none for CTC alone.
        attention: From which tokens each row was read: the last decoder block's cross-attention, mean over heads
            (L + 1, T); `None` for CTC alone.
    """

    text: str
    words: list[Said]
    posterior: Tensor | None
    rows: list[str]
    attention: Tensor | None


@torch.no_grad()
def draw_transcript(
    model: Model, file: Path, path: Path, *, search: Search | None = None, said: Sequence[Said] | None = None
) -> None:
    """Draw one recording's spectrogram, the words heard in it and when, and where the network heard them.

    Over the whole recording, not cut or padded: the decoder's cross-attention, a row for each unit said and one for the
    end, if there is a decoder; the probability of each unit and of the blank at each token, if CTC was trained. Of more
    than 15 units those are shown that reach 0.05, 20 at most, in the order of their peaks. A token stands at the centre
    of its samples. The words' times are those of CTC's best alignment.

    Args:
        model: From `vitspeech.load`; its network is a `SpeechRecognizer` or a `SpeechTranscriber`.
        file: The recording.
        path: The picture: PNG, or what else its ending names to matplotlib.
        search: How the transcript is looked for; `None` is `Search()`.
        said: The true words and when they are said, to be drawn over those that were heard; `None` draws none.

    Raises:
        FileNotFoundError: If the recording or the picture's folder does not exist.
        ValueError: If the model gives no transcripts, or the recording is empty, broken or too short for a token.
    """
    network = model.network
    if not is_transcribing(network):
        raise ValueError(f"a model that gives transcripts can be drawn; {type(network).__name__} gives labels")
    tokens, rate_hz = network.tokens, model.preprocessing["sample_rate_hz"]
    sound = read_clip(file, rate_hz)
    if len(sound) < tokens.window_samples:
        raise ValueError(f"{file}: {len(sound)} samples are below the {tokens.window_samples} of one token")
    waveforms = (sound / 32768)[None].to(next(network.parameters()).device)
    heard = hear(model, waveforms, search)
    shown = [] if heard.posterior is None else shown_units(heard.posterior)

    seconds, title = len(sound) / rate_hz, f"{file.name}: " + (f"“{heard.text}”" if heard.text else "nothing is heard")
    width = min(max(9.0, 2 + seconds), WIDEST_INCHES)
    letter_s = LETTER_INCHES * seconds / (width - 1.8)  # without names on the left and the bar on the right
    title = textwrap.fill(title, int(10 * width))
    alignment = None
    if said is not None:
        alignment = align([word.label for word in said], heard.text.split())
        title += f"\n{alignment.errors} wrong of {alignment.length} words said" + ", in orange" * bool(alignment.errors)
    rows = rows_of_words(heard, said, alignment, letter_s)
    heights = {"words": 0.27 * len(rows), "spectrogram": 2.2}
    heights |= {"attention": inches(heard.rows), "posterior": inches(shown)}
    heights = {name: height for name, height in heights.items() if height}
    height = 0.9 + 0.25 * title.count("\n") + sum(heights.values()) + 0.3 * len(heights)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(heights), squeeze=False, sharex=True, height_ratios=list(heights.values()))[:, 0]
    axes = dict(zip(heights, panels, strict=True))
    figure.suptitle(title, parse_math=False)
    if "words" in axes:
        draw_words(axes["words"], rows, letter_s)
    draw_spectrogram(axes["spectrogram"], tokens.log_mel, waveforms)
    borders = cells(heard.tokens, tokens.hop_samples, tokens.window_samples, rate_hz)[[0, -1]]
    if "attention" in axes:
        draw_attention(axes["attention"], heard, borders)
    if "posterior" in axes:
        draw_posterior(axes["posterior"], heard.posterior[:, shown], [labels[unit] for unit in shown], borders)
    for name in {"attention", "posterior"} & set(axes):
        for edge_s in [edge_s for word in said or () for edge_s in (word.start_s, word.end_s)]:
            axes[name].axvline(edge_s, color=GREY, linestyle=":", linewidth=1)
    panels[-1].set(xlabel="time (s)", xlim=(0, seconds))
    figure.align_ylabels()
    figure.savefig(path, dpi=130, format=path.suffix[1:] or "png")


def hear(model: Model, waveforms: Tensor, search: Search | None) -> Heard:
    """The transcript of one recording (1, N), and what it was read from."""
    network, labels = model.network, model.labels
    lengths = torch.tensor([waveforms.shape[1]], device=waveforms.device)
    found = transcribed(network, labels, waveforms, lengths, search)[0]
    text, words, rows, attention = found.text, joined(found.units, labels), [], None
    if isinstance(network, SpeechTranscriber):
        encoded, _ = network.encode(waveforms)
        names = list(text) if " " in labels else text.split()
        units = torch.tensor([[labels.index(name) for name in names]], dtype=torch.long, device=encoded.device)
        attention = network.cross_attention(encoded, None, units)[-1, 0].mean(0).float().cpu()
        rows, logits = [*names, "end"], network.forward_ctc(encoded)
    else:
        logits, _ = network(waveforms)
    return Heard(text, words, None if logits is None else logits[0].float().softmax(-1).cpu(), rows, attention)


def joined(units: Sequence[Said], labels: Sequence[str]) -> list[Said]:
    """Characters put together to words, from the first one's start to the last one's end; words as they are."""
    if " " not in labels:
        return list(units)
    words, begun = [], False
    for unit in units:
        if unit.label == " ":
            begun = False
        elif begun:
            words[-1] = Said(words[-1].label + unit.label, words[-1].start_s, unit.end_s)
        else:
            words.append(unit)
            begun = True
    return words


def shown_units(posterior: Tensor) -> list[int]:
    """Which classes are drawn, from the top: units and then the blank: (T, C) -> S."""
    blank = posterior.shape[1] - 1
    if blank <= FEW:
        return list(range(blank + 1))
    peaks, places = posterior[:, :blank].max(0)
    likeliest = [unit for unit in peaks.argsort(descending=True).tolist() if peaks[unit] >= LEAST][:MOST]
    return [*sorted(likeliest, key=lambda unit: (int(places[unit]), unit)), blank]


def rows_of_words(heard: Heard, said: Sequence[Said] | None, alignment: Alignment | None, letter_s: float) -> list[Row]:
    """From the top: the words said, if they are known, and those heard, if their times are; more where names overlap.

    Args:
        heard: What was heard.
        said: The true words, or `None`.
        alignment: Of both, by which words that are wrong are orange; `None` where `said` is.
        letter_s: How wide a letter is drawn, in seconds.
    """
    rows, found = [], [BLUE] * len(heard.words)
    if said is not None:
        true = [GREY if one == other else ORANGE for one, other in alignment.pairs if one is not None]
        found = [BLUE if one == other else ORANGE for one, other in alignment.pairs if other is not None]
        rows = in_lanes("said", list(zip(said, true, strict=True)), letter_s)
    if heard.posterior is not None:
        rows += in_lanes("heard", list(zip(heard.words, found, strict=False)), letter_s)
    return rows


def in_lanes(name: str, marks: Sequence[Mark], letter_s: float) -> list[Row]:
    """One row, or more of them where words would otherwise be written over one another; the first has the name."""
    lanes, ends_s = [[]], [-math.inf]
    for word, colour in marks:
        free = next((lane for lane, end_s in enumerate(ends_s) if end_s <= word.start_s), len(lanes))
        if free == len(lanes):
            lanes.append([])
            ends_s.append(-math.inf)
        lanes[free].append((word, colour))
        ends_s[free] = word.end_s + (0 if fits(word, letter_s) else (len(word.label) + 1) * letter_s)
    return [(name if not place else "", lane) for place, lane in enumerate(lanes)]


def fits(word: Said, letter_s: float) -> bool:
    """Whether a word's name can be written within its time; otherwise it stands behind it."""
    return len(word.label) * letter_s <= word.end_s - word.start_s


def draw_words(axes: Axes, rows: Sequence[Row], letter_s: float) -> None:
    """A box for each word's time, with its name; what is wrong is bold, too."""
    for place, (_, marks) in enumerate(rows):
        for word, colour in marks:
            inside, lasts_s = fits(word, letter_s), word.end_s - word.start_s
            face, weight = to_rgba(colour, 0.25 if inside else 1), "bold" if colour == ORANGE else "normal"
            axes.barh(place, lasts_s, 0.8, word.start_s, facecolor=face, edgecolor=colour)
            x, side = (word.start_s + lasts_s / 2, "center") if inside else (word.end_s + letter_s / 2, "left")
            text = axes.text(x, place, word.label, ha=side, va="center", weight=weight, parse_math=False)
            text.set_in_layout(False)  # a name at the right edge would make the panels narrower
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(length=0, labelbottom=False)
    axes.spines[:].set_visible(False)


def draw_attention(axes: Axes, heard: Heard, borders: numpy.ndarray) -> None:
    """Cross-attention (L + 1, T): a row's weights sum to 1."""
    weights, span = heard.attention.numpy(), (*borders, len(heard.rows) - 0.5, -0.5)
    image = axes.imshow(weights, cmap="magma_r", vmin=0, aspect="auto", interpolation="nearest", extent=span)
    axes.figure.colorbar(image, ax=axes, label="weight", pad=0.01)
    name_rows(axes, heard.rows)
    axes.set(title="cross-attention of the last decoder block, mean over heads", ylabel="said by the decoder")


def draw_posterior(
    axes: Axes, posterior: Tensor, labels: Sequence[str], shown: Sequence[int], borders: numpy.ndarray
) -> None:
    """Probabilities of the classes shown (T, S), one row each."""
    span = (*borders, len(shown) - 0.5, -0.5)
    shares = posterior.T.numpy()
    image = axes.imshow(shares, cmap="magma_r", vmin=0, vmax=1, aspect="auto", interpolation="nearest", extent=span)
    axes.figure.colorbar(image, ax=axes, label="probability", pad=0.01)
    name_rows(axes, [labels[unit] for unit in shown])
    axes.set(title="CTC: probability of each unit at each token", ylabel="unit")


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names at the rows, every so many where they would overlap; a space is drawn as a sign."""
    step = math.ceil(len(names) * ROW_INCHES / HIGHEST_INCHES)
    shown = ["␣" if name == " " else name for name in names]
    axes.set_yticks(range(0, len(names), step), shown[::step], parse_math=False)
