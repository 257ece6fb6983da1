"""Transcribe recordings: search over a network's outputs, and the times of each unit.

Shapes: B batch, N samples, T tokens, C classes (the last class is the blank or the end).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import IN_PARTS, AudioParts, TooLongError, read_clip, walk_audio
from vitspeech.decoding import autoregressive, ctc
from vitspeech.decoding.prefix_scores import PrefixScores
from vitspeech.decoding.vocabulary import Segment, to_text, to_words
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.batches import OnError, Position, run_in_batches
from vitspeech.inference.pretrained import refuse_pretrained
from vitspeech.inference.search import Search, new_ctc_search
from vitspeech.models import SpeechRecognizer, SpeechTranscriber

BATCH = 16
TASKS = ("vitspeech.Recognition", "vitspeech.Transcription")  # whose networks output transcripts
FOR_FRAMES = "`vitspeech stream` (vitspeech.LabelStream)"  # what takes models that label frames


@dataclass(frozen=True)
class Transcript:
    """The transcript of one recording.

    Args:
        text: The words, separated by spaces.
        units: Each unit (word, character or piece) with its times; empty if they are unknown, as for an encoder-decoder
            without a CTC head.
        log_probability: Natural logarithm, as the search returns it.
        indices: The index of each unit among the model's labels.
        words: Each word with its times, from the start of its first unit to the end of its last; empty as `units`.
    """

    text: str
    units: tuple[Segment, ...]
    log_probability: float
    indices: tuple[int, ...] = ()
    words: tuple[Segment, ...] = field(default=(), repr=False)


def is_transcribing(model: Model) -> bool:
    """Whether a model's outputs are decoded to transcripts."""
    return model.task in TASKS or isinstance(model.network, SpeechRecognizer | SpeechTranscriber)


def is_autoregressive(network: nn.Module) -> bool:
    """Whether a network outputs a transcript unit by unit, as `SpeechTranscriber` does."""
    return hasattr(network, "start") and hasattr(network, "step")


@torch.inference_mode()
def transcribe(
    model: Model,
    paths: Iterable[str | Path],
    *,
    search: Search | None = None,
    batch: int = BATCH,
    on_error: OnError | None = None,
    progress: bool = False,
    after: Position | None = None,
) -> Iterator[tuple[Path, Transcript]]:
    """Transcribe recordings of any sample rate.

    Recordings of up to a minute are transcribed in batches. Longer ones are streamed, one after the other, if the model
    can be streamed: it was trained with CTC, and every block has a limited `right`. They are read while they are
    transcribed, so that memory does not grow with their length, apart from the transcript. Hypotheses of a beam that
    differ from the best one more than five minutes back are dropped then. Other models take up to a minute.

    The network runs on the device that it is on. Folders are walked, and recordings read in threads, while it runs: the
    first results of a large folder are there at once, and memory does not grow with the number of recordings.

    Args:
        model: From `vitspeech.load`, trained by `vitspeech.Recognition` or `vitspeech.Transcription`.
        paths: Files and folders; a folder stands for all its recordings, sorted by path.
        search: Search parameters; `None` is `Search()`.
        batch: Recordings per forward pass.
        on_error: Called with a recording that can't be read and the error, in the order of the files; the other files
            are transcribed. `None` raises the error.
        progress: Show a progress bar if there is more than one batch, and one in seconds for each long recording.
        after: Leave out the recordings up to this position, which an interrupted run with the same `batch` has done.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no recording.
        InputError: If a file is empty, broken or too long and there is no `on_error`, or the model does not output
            transcripts, or the recording at the position `after` is another one.
    """
    if "symbols" in model.preprocessing:
        raise InputError(
            f"{type(model.network).__name__} takes symbols, not recordings; use `vitspeech transcribe --symbols` "
            "(vitspeech.transcribe_symbols)"
        )
    refuse_pretrained(model.network)
    if not is_transcribing(model):
        takes_utterances = "sample_rate_hz" in model.preprocessing and "seconds" not in model.preprocessing
        other = FOR_FRAMES if takes_utterances else "`vitspeech predict` (vitspeech.predict)"
        raise InputError(f"{type(model.network).__name__} outputs labels, not transcripts; use {other}")
    check_search(model, search)
    from vitspeech.inference.long_recordings import transcribe_long, why_not_streamed  # they import this module

    refusal = why_not_streamed(model)

    def run(files: list[Path], recordings: list[Tensor | AudioParts]) -> Iterator[Transcript | Exception]:
        both = zip(files, recordings, strict=True)
        found = iter(transcribe_short(model, [item for item in both if isinstance(item[1], Tensor)], search))
        for recording in recordings:
            try:
                is_short = isinstance(recording, Tensor)
                yield next(found) if is_short else transcribe_long(model, recording, search=search, progress=progress)
            except (ValueError, OSError) as error:  # of reading
                yield error

    read = partial(read_recording, sample_rate_hz=model.preprocessing["sample_rate_hz"], refusal=refusal)
    options = {"batch": batch, "on_error": on_error, "progress": progress, "after": after}
    yield from run_in_batches(walk_audio(paths), read, run, **options)


def read_recording(path: Path, sample_rate_hz: int, refusal: str | None) -> Tensor | AudioParts:
    """Read a recording of up to LONGEST_S: int16 (N,); a longer one is read later, part by part.

    Args:
        path: The recording.
        sample_rate_hz: Sample rate of the result.
        refusal: Why long recordings are refused; `None` accepts them.

    Raises:
        FileNotFoundError, InputError: As `read_clip`.
    """
    try:
        return read_clip(path, sample_rate_hz=sample_rate_hz)
    except TooLongError as error:
        if refusal is not None:
            raise InputError(str(error).removesuffix(IN_PARTS) + refusal) from None
    return AudioParts(path, sample_rate_hz)


def transcribe_short(
    model: Model, recordings: Sequence[tuple[Path, Tensor]], search: Search | None
) -> list[Transcript | InputError]:
    """Transcribe recordings, int16 (N,) each, in one batch. For one that the network refuses, the error is returned."""
    if not recordings:
        return []
    device = next(model.network.parameters()).device
    lengths = torch.tensor([len(samples) for _, samples in recordings], device=device)
    waveforms = pad_sequence([samples for _, samples in recordings], True).to(device) / 32768
    try:
        return transcribe_batch(model.network, model.labels, waveforms, lengths, search)
    except InputError as error:
        if len(recordings) == 1:
            return [InputError(f"{recordings[0][0]}: {error}")]
        return [result for one in recordings for result in transcribe_short(model, [one], search)]


@torch.inference_mode()
def transcribe_batch(
    network: nn.Module,
    labels: Sequence[str],
    waveforms: Tensor,
    lengths: Tensor,
    search: Search | None = None,
) -> list[Transcript]:
    """Transcribe a batch of utterances that are padded at the end: (B, N), (B,) -> B transcripts."""
    search = settle(search, network, labels)
    tokens = getattr(network, "tokens", None)
    if is_autoregressive(network):
        hypotheses = decode_autoregressive(network, waveforms, lengths, search)
    else:
        hypotheses = decode_ctc(network, labels, waveforms, lengths, search)
    return [to_transcript(best, labels, tokens) for best in hypotheses]


def decode_ctc(
    network: nn.Module, labels: Sequence[str], waveforms: Tensor, lengths: Tensor, search: Search
) -> list[ctc.Hypothesis]:
    """The best hypothesis of each utterance, from any network that `vitspeech.Recognition` can train."""
    hypotheses = []
    for log_probs in log_probabilities(*network(waveforms, lengths)):
        ctc_search = new_ctc_search(search, labels)
        ctc_search.push(log_probs)
        hypotheses.append(ctc_search.best())
    return hypotheses


def decode_autoregressive(
    network: SpeechTranscriber, waveforms: Tensor, lengths: Tensor, search: Search
) -> list[ctc.Hypothesis]:
    """The best hypothesis of each utterance, from an encoder-decoder; its spans are those of the best CTC alignment.

    Raises:
        InputError: If the search has a language model, which is for recognizers with CTC.
    """
    refuse_language_model(network, search)
    encoded, padding = network.encode(waveforms, lengths)
    cache, ctc_logits = network.start(encoded, padding), network.forward_ctc(encoded)
    tokens = padding.sum(1)
    sizes = {"start": network.start_unit, "longest": [longest_output(network, count) for count in tokens.tolist()]}
    is_joint = ctc_logits is not None and search.ctc_weight > 0
    if search.beam == 1 and not is_joint:
        hypotheses = autoregressive.greedy(network.step, cache, **sizes)
    else:
        scorer = PrefixScores(ctc_logits.float().log_softmax(-1), tokens) if is_joint else None
        options = {"beam": search.beam, "length_penalty": search.length_penalty, "scorer": scorer}
        weight = search.ctc_weight if is_joint else 0.0
        beams = autoregressive.beam_search(network.step, cache, **sizes, **options, ctc_weight=weight)
        hypotheses = [beam[0] for beam in beams]
    rows = [None] * len(hypotheses) if ctc_logits is None else log_probabilities(ctc_logits, tokens)
    return [with_spans(hypothesis, log_probs) for hypothesis, log_probs in zip(hypotheses, rows, strict=True)]


def longest_output(network: nn.Module, tokens: int) -> int:
    """The most units of a transcript, which bounds those of a decoder that never outputs the end.

    The network's `longest_output`; for a network without it, one unit per token of the input.
    """
    return network.longest_output(tokens) if hasattr(network, "longest_output") else tokens


def log_probabilities(logits: Tensor, tokens: Tensor) -> list[Tensor]:
    """The log-probabilities of each utterance without padding, on the CPU: (B, T, C), (B,) -> B tensors (T, C)."""
    padded = logits.float().log_softmax(-1).cpu()
    return [log_probs[:count] for log_probs, count in zip(padded, tokens.tolist(), strict=True)]


def settle(search: Search | None, network: nn.Module, labels: Sequence[str]) -> Search:
    """The search with the beam that `None` stands for with this network."""
    return (search or Search()).settled(labels, ctc=not is_autoregressive(network))


def check_search(model: Model, search: Search | None, given: Collection[str] = ()) -> None:
    """Refuse a search that does not fit a model, before recordings are read.

    Args:
        model: The model.
        search: The search.
        given: Names of the parameters of the search that a user has set.

    Raises:
        InputError: If the units of the language model are not those of the model, or the model has no CTC, or nothing
            but CTC and a parameter of encoder-decoders is given.
    """
    if (unused := sorted({"ctc_weight", "length_penalty"} & {*given})) and not is_autoregressive(model.network):
        raise InputError(f"{', '.join(unused)}: of encoder-decoders; {type(model.network).__name__} has CTC alone")
    if search is not None and search.language_model is not None:
        if is_autoregressive(model.network):
            refuse_language_model(model.network, search)
        new_ctc_search(search, model.labels)


def refuse_language_model(network: nn.Module, search: Search) -> None:
    """Raise an InputError if the search of an encoder-decoder has a language model."""
    if search.language_model is not None:
        raise InputError(f"{type(network).__name__} has no search with a language model; use a recognizer with CTC")


def with_spans(hypothesis: autoregressive.Hypothesis, log_probs: Tensor | None) -> ctc.Hypothesis:
    """A decoder's hypothesis with the spans of the best CTC alignment, or without spans if there is none."""
    units, spans = hypothesis.units, ()
    if log_probs is not None and units:
        with suppress(ctc.NoPathError):
            spans = ctc.align(log_probs, units).spans
    return ctc.Hypothesis(units, hypothesis.log_probability, spans)


def to_transcript(hypothesis: ctc.Hypothesis, labels: Sequence[str], tokens: SpeechFrontend | None) -> Transcript:
    """Convert units to text and spans to seconds; without `tokens`, times are unknown."""
    names = [labels[unit] for unit in hypothesis.units]
    text = to_text(names, labels)
    segments = () if tokens is None or not hypothesis.spans else to_segments(names, hypothesis.spans, tokens)
    return Transcript(text, segments, hypothesis.log_probability, hypothesis.units, to_words(segments, labels))


def to_segments(names: Sequence[str], spans: Sequence[tuple[int, int]], tokens: SpeechFrontend) -> tuple[Segment, ...]:
    """Convert spans of tokens to seconds. A token lasts one hop, around the center of its samples."""
    hop, rate_hz = tokens.hop_samples, tokens.log_mel.sample_rate_hz
    offset = (tokens.window_samples - hop) / 2
    return tuple(
        Segment(name, (first * hop + offset) / rate_hz, (end * hop + offset) / rate_hz)
        for name, (first, end) in zip(names, spans, strict=True)
    )
