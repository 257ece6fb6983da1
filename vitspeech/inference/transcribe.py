"""From utterances to transcripts: the search, and when each unit was said.

Shapes: B batch, N samples, T tokens, C classes, of which the last is the blank or the end.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from vitspeech.checkpoint.folder import Model
from vitspeech.data.audio.reading import find_audio, read_clip
from vitspeech.decoding import autoregressive, ctc
from vitspeech.decoding.prefix_scores import PrefixScores
from vitspeech.frontends import SpeechTokens
from vitspeech.models import SpeechLabeler, SpeechRecognizer, SpeechTranscriber


@dataclass(frozen=True)
class Search:
    """How a transcript is looked for.

    Args:
        beam: Hypotheses that are gone on with; 1 is greedy.
        length_penalty: Exponent of the length by which an encoder-decoder's hypotheses are divided.
        ctc_weight: CTC's share in the score of an encoder-decoder that has a CTC head. A decoder alone loses count of
            more words than it was trained on; 0.7 did best on validation utterances of 1 to 7 words, and on those of 8
            to 12 within a tenth of a point of the best.

    Raises:
        ValueError: If a number is out of its range.
    """

    beam: int = 8
    length_penalty: float = 0.6
    ctc_weight: float = 0.7

    def __post_init__(self) -> None:
        if self.beam < 1 or self.length_penalty < 0 or not 0 <= self.ctc_weight <= 1:
            raise ValueError(f"{self}: beam is at least 1, length_penalty at least 0, ctc_weight within 0 .. 1")


@dataclass(frozen=True)
class Said:
    """One word or character, and when.

    Args:
        label: Which.
        start_s: When it begins, in seconds from the beginning of the sound, by the best alignment of CTC: that is where
            the network says it, within the word that people hear.
        end_s: When it ends, likewise.
    """

    label: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Transcript:
    """What was said.

    Args:
        text: The units in order, with spaces between words.
        units: Each with its times; none for an encoder-decoder that has no CTC head.
        log_probability: Natural logarithm, as the search gives it.
        numbers: The index of each unit among the model's labels.
    """

    text: str
    units: tuple[Said, ...]
    log_probability: float
    numbers: tuple[int, ...] = ()


def is_transcribing(network: nn.Module) -> bool:
    """Whether a network gives transcripts rather than labels."""
    return isinstance(network, SpeechRecognizer | SpeechTranscriber)


@torch.inference_mode()
def transcribe(
    model: Model,
    paths: Iterable[str | Path],
    *,
    search: Search | None = None,
    batch: int = 16,
    progress: bool = False,
) -> Iterator[tuple[Path, Transcript]]:
    """Write down what is said in recordings of any rate, of up to a minute each.

    Args:
        model: A recognizer or transcriber from `vitspeech.load`.
        paths: Files, and folders whose recordings are all taken.
        search: How; `None` is `Search()`.
        batch: Recordings a forward pass.
        progress: Show a bar where there is more than one batch.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no recording.
        ValueError: If a file is empty, broken or too long, or the model gives no transcripts.
    """
    if not is_transcribing(model.network):
        use = "stream" if isinstance(model.network, SpeechLabeler) else "predict"
        raise ValueError(f"{type(model.network).__name__} gives labels, not transcripts; use vitspeech.{use}")
    files, device = find_audio(paths), next(model.network.parameters()).device
    rate_hz = model.preprocessing["sample_rate_hz"]
    with tqdm(total=len(files), desc="files", disable=not progress or len(files) <= batch, leave=False) as bar:
        for start in range(0, len(files), batch):
            some = files[start : start + batch]
            sounds = [read_clip(file, rate_hz) / 32768 for file in some]
            lengths = torch.tensor([len(sound) for sound in sounds], device=device)
            found = transcribed(model.network, model.labels, pad_sequence(sounds, True).to(device), lengths, search)
            yield from zip(some, found, strict=True)
            bar.update(len(some))


@torch.inference_mode()
def transcribed(
    network: SpeechRecognizer | SpeechTranscriber,
    labels: Sequence[str],
    waveforms: Tensor,
    lengths: Tensor,
    search: Search | None = None,
) -> list[Transcript]:
    """The transcript of each utterance of a batch, padded at the end: (B, N), (B,) -> B."""
    search = search or Search()
    if isinstance(network, SpeechRecognizer):
        logits, tokens = network(waveforms, lengths)
        rows = log_probabilities(logits, tokens)
        return [transcript(found_by(search, some), labels, network.tokens) for some in rows]
    return said_by_decoder(network, labels, waveforms, lengths, search)


def said_by_decoder(
    network: SpeechTranscriber, labels: Sequence[str], waveforms: Tensor, lengths: Tensor, search: Search
) -> list[Transcript]:
    """As `transcribed`, of an encoder-decoder; its times are those of CTC's best alignment of what the decoder said."""
    encoded, padding = network.encode(waveforms, lengths)
    # A unit lasts a token at least: that bounds what a decoder that finds no end can say.
    sizes = {"start": network.start_unit, "batch": len(encoded), "longest": encoded.shape[1]}
    cache, heard = network.start(encoded, padding), network.forward_ctc(encoded)
    tokens = padding.sum(1)
    weighs = heard is not None and search.ctc_weight > 0
    if search.beam == 1 and not weighs:
        found = autoregressive.greedy(network.step, cache, **sizes)
    else:
        scorer = PrefixScores(heard.float().log_softmax(-1), tokens) if weighs else None
        options = {"beam": search.beam, "length_penalty": search.length_penalty}
        weight = search.ctc_weight if weighs else 0.0
        beams = autoregressive.beam_search(network.step, cache, **sizes, **options, scorer=scorer, ctc_weight=weight)
        found = [hypotheses[0] for hypotheses in beams]
    rows = [None] * len(found) if heard is None else log_probabilities(heard, tokens)
    return [
        transcript(timed(hypothesis, some), labels, network.tokens)
        for hypothesis, some in zip(found, rows, strict=True)
    ]


def log_probabilities(logits: Tensor, tokens: Tensor) -> list[Tensor]:
    """Each utterance's own rows, on the CPU: (B, T, C), (B,) -> B times (T, C)."""
    rows = logits.float().log_softmax(-1).cpu()
    return [some[:count] for some, count in zip(rows, tokens.tolist(), strict=True)]


def found_by(search: Search, log_probs: Tensor) -> ctc.Hypothesis:
    """The best labeling of an utterance: (T, C) -> hypothesis."""
    searching = ctc_search(search)
    searching.push(log_probs)
    return searching.best()


def ctc_search(search: Search) -> ctc.GreedySearch | ctc.PrefixBeamSearch:
    """A search over CTC's rows that can go on as they come."""
    return ctc.GreedySearch() if search.beam == 1 else ctc.PrefixBeamSearch(search.beam)


def timed(found: autoregressive.Hypothesis, log_probs: Tensor | None) -> ctc.Hypothesis:
    """A decoder's hypothesis with the spans of CTC's best alignment, without any where there is none."""
    units = found.units
    possible = log_probs is not None and units and ctc.tokens_needed(units) <= len(log_probs)
    spans = ctc.align(log_probs, units).spans if possible else ()
    return ctc.Hypothesis(units, found.log_probability, spans)


def transcript(found: ctc.Hypothesis, labels: Sequence[str], tokens: SpeechTokens) -> Transcript:
    """A hypothesis to be read, its times in seconds.

    A token stands at the center of the samples that it sees, and lasts for a hop around it.
    """
    names = [labels[unit] for unit in found.units]
    text = ("" if " " in labels else " ").join(names)
    before = (tokens.window_samples - tokens.hop_samples) / 2
    times = [
        [(token * tokens.hop_samples + before) / tokens.log_mel.sample_rate_hz for token in span]
        for span in found.spans
    ]
    said = tuple(Said(name, *span) for name, span in zip(names, times, strict=False))
    return Transcript(" ".join(text.split()), said, found.log_probability, found.units)
