"""Transcripts, which models give them, and the times of their units."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from vitspeech.checkpoint.model import Model
from vitspeech.decoding.paths import Hypothesis
from vitspeech.decoding.unit_runs import Segment
from vitspeech.decoding.vocabulary import to_text, to_words
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import MaskedSpeechModel, SpeechRecognizer, SpeechTranscriber

TASKS = ("vitspeech.Recognition", "vitspeech.Transcription")  # whose networks output transcripts


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
        path: The file, in the results of `Model.transcribe`.
    """

    text: str
    units: tuple[Segment, ...] = field(repr=False)
    log_probability: float
    indices: tuple[int, ...] = field(default=(), repr=False)
    words: tuple[Segment, ...] = field(default=(), repr=False)
    path: Path | None = field(default=None, compare=False)


def is_transcribing(model: Model) -> bool:
    """Whether a model's outputs are decoded to transcripts."""
    return model.task in TASKS or isinstance(model.network, SpeechRecognizer | SpeechTranscriber)


def is_autoregressive(network: nn.Module) -> bool:
    """Whether a network outputs a transcript unit by unit, as `SpeechTranscriber` does."""
    return hasattr(network, "start") and hasattr(network, "step")


def check_model(model: Any) -> None:
    """Check that a model in evaluation mode is given, and not its folder."""
    if not isinstance(model, Model):
        raise InputError(f"{model!r:.100} is not a model; the first argument is what vitspeech.load returns")
    if model.network.training:
        raise InputError("the network is in training mode, with dropout and running means; call model.eval() first")


def check_outputs(outputs: int, labels: Sequence[str]) -> None:
    """Check that there is a label for each output of a network."""
    if outputs != len(labels):
        name = "give labels=[…] to vitspeech.save, or set model.labels"
        raise InputError(f"the network has {outputs} outputs, but there are {len(labels)} labels; {name}")


def wrong_model(model: Model, reason: str) -> InputError:
    """The error for a model of another kind, which says what takes it.

    The reason says what it does not do, such as "does not label frames".
    """
    name = type(model.network).__name__
    if isinstance(model.network, MaskedSpeechModel):
        return InputError(
            f"{name} is pre-trained and outputs no labels or transcripts; train a model from it with "
            "`vitspeech train --init_from`"
        )
    if "symbols" in model.preprocessing:
        use = "`vitspeech transcribe --symbols` (model.transcribe)"
    elif is_transcribing(model):
        use = "`vitspeech transcribe` (model.transcribe)"
    elif {"image", "seconds"} & model.preprocessing.keys():
        use = "`vitspeech predict` (model.predict)"
    else:
        use = "`vitspeech stream` (model.stream)"
    return InputError(f"{name} {reason}; use {use}")


def to_transcript(hypothesis: Hypothesis, labels: Sequence[str], tokens: SpeechFrontend | None) -> Transcript:
    """Convert units to text and spans to seconds; without `tokens`, times are unknown."""
    names = [labels[unit] for unit in hypothesis.units]
    segments = () if tokens is None or not hypothesis.spans else to_segments(names, hypothesis.spans, tokens)
    text, words = to_text(names, labels), to_words(segments, labels)
    return Transcript(text, segments, hypothesis.log_probability, hypothesis.units, words)


def to_segments(names: Sequence[str], spans: Sequence[tuple[int, int]], tokens: SpeechFrontend) -> tuple[Segment, ...]:
    """Convert spans of tokens to seconds. A token lasts one hop, around the center of its samples."""
    hop, rate_hz = tokens.hop_samples, tokens.log_mel.sample_rate_hz
    offset = (tokens.window_samples - hop) / 2
    return tuple(
        Segment(name, (first * hop + offset) / rate_hz, (end * hop + offset) / rate_hz)
        for name, (first, end) in zip(names, spans, strict=True)
    )
