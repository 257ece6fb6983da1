"""A speech model on audio as it arrives: the same outputs as on the full recording, each as soon as it is final.

`AudioStream` returns logits; `Listener` is what the streams of words share.

Shapes: N samples, T tokens, D model width, C classes.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy
import torch
from torch import Tensor, nn

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.levels import problem_of_floats
from vitspeech.data.audio.reading import AudioParts, states_rate, to_sound
from vitspeech.errors import InputError
from vitspeech.inference.microphone import listen
from vitspeech.inference.transcript import is_autoregressive
from vitspeech.models import MaskedSpeechModel

FULL_SCALE = 32768  # of int16
PART_S = 10.0  # pushes are processed in parts of this many seconds, so that memory does not grow with the push
LISTEN_S = 0.1  # seconds of sound that a `Listener` takes at a time
STREAMABLE = (
    "use a model with a limited `right` in every block, such as speech-commands-truncated, speech-commands-causal or, "
    "for transcripts, spoken-words-ctc or librispeech-5h-ctc, or for words with start and end, spoken-words-labels"
)


class AudioStream:
    """Takes samples and returns one row of logits per token; created by `vitspeech.stream`.

    Row i is returned once sample i·`hop_samples` + `latency_samples` has been pushed: the look-ahead of all blocks
    plus the samples of one token. All rows together equal `network.forward_frames` of the full recording,
    regardless of how it was split into pushes.

    Args:
        network: A speech model in evaluation mode, whose encoder has a limited look-ahead.

    Attributes:
        hop_samples: Samples from one row to the next.
        latency_samples: Samples from a token's first one to the last one that its row depends on.
        sample_rate_hz: Samples per second.
        logits: The rows that the latest push or flush returned.

    Raises:
        InputError: If the network can't be streamed; the message states the reason.
    """

    def __init__(self, network: nn.Module) -> None:
        reason = None
        if isinstance(network, MaskedSpeechModel):
            reason = "it is pre-trained and outputs no labels or transcripts"
        elif is_autoregressive(network):
            reason = f"its decoder needs the whole recording; {STREAMABLE}"
        elif not all(hasattr(network, part) for part in ("tokens", "encoder", "frame_logits")):
            reason = "it has no encoder of speech tokens"
        elif network.encoder.receptive_field[1] is None:
            reason = "its look-ahead is unlimited (`right: null`, bidirectional), so no output is final before the end"
            reason = f"{reason}; {STREAMABLE}"
        elif not hasattr(network.encoder, "stream"):
            reason = f"{type(network.encoder).__name__} has no method stream"
        if reason is not None:
            raise InputError(f"{type(network).__name__} can't be streamed: {reason}")
        self.network, self.tokens = network, network.tokens
        self.encoder = network.encoder.stream()
        self.sample_rate_hz = self.tokens.log_mel.sample_rate_hz
        self.hop_samples = self.tokens.hop_samples
        self.latency_samples = network.encoder.receptive_field[1] * self.hop_samples + self.tokens.window_samples
        parameter = next(network.parameters())
        self.pending = parameter.new_zeros(1, 0)  # samples of tokens that are not complete yet
        self.skipped = 0  # next samples that no token covers, where the hop exceeds the window
        self.no_tokens = parameter.new_zeros(1, 0, self.tokens.width)
        self.logits = self.no_logits = network.frame_logits(self.no_tokens)[0].detach()

    def restart(self) -> None:
        """Discard all state: the next sample is the first of a recording."""
        self.pending, self.skipped = self.pending[:, :0], 0
        self.encoder.restart()

    @torch.inference_mode()
    def push(self, samples: Tensor | numpy.ndarray) -> Tensor:
        """Process the next samples, int16 or floats within ±1: (N,) -> the logits that became final (T, C).

        The samples are checked before any is processed, so the stream can go on after an `InputError`.

        Raises:
            InputError: If the samples are of another type, not one-dimensional, not finite, or beyond ±16.
        """
        samples = to_samples(samples)
        logits = [self.push_part(part) for part in samples.split(round(PART_S * self.sample_rate_hz))]
        self.logits = logits[0] if len(logits) == 1 else torch.cat(logits)
        return self.logits

    @torch.inference_mode()
    def flush(self) -> Tensor:
        """End the recording: the remaining logits (T, C). The stream can then be used for another recording."""
        self.logits = self.network.frame_logits(self.encoder.flush(self.no_tokens))[0]
        self.restart()
        return self.logits

    def push_part(self, samples: Tensor) -> Tensor:
        """Process one part of a push: (N,) -> (T, C)."""
        skipped = min(self.skipped, len(samples))
        self.skipped -= skipped
        scale = 1 if samples.is_floating_point() else 1 / FULL_SCALE
        waveform = torch.cat((self.pending, samples[None, skipped:].to(self.pending) * scale), dim=1)
        count = max(1 + (waveform.shape[1] - self.tokens.window_samples) // self.hop_samples, 0)
        first = count * self.hop_samples  # of the next token
        self.skipped += max(first - waveform.shape[1], 0)
        self.pending = waveform[:, first:].clone()  # a view would keep the whole waveform in memory
        return self.network.frame_logits(self.encoder.push(self.tokens(waveform)))[0] if count else self.no_logits


class Listener:
    """What the streams of words share; see `Model.stream`.

    Within `with`, the end of the block discards what is left of a recording.

    A subclass has the `AudioStream` as `stream`, and `restart`, `push` and `flush`. The last two return words, or in
    `TranscriptStream`, which has its own `words`, the transcript.
    """

    stream: AudioStream

    @property
    def logits(self) -> Tensor:
        """The logits that became final with the latest push or flush (T, C), see `AudioStream`."""
        return self.stream.logits

    def words(self, parts: Iterable[Tensor]) -> Iterator[Any]:
        """Yield the words of audio that arrives in parts (N,), each as soon as it is final.

        Call `restart` before another recording if you stop before the end.
        """
        for part in parts:
            yield from self.push(part)
        yield from self.flush()

    def listen(self, sound: Any = None, *, sample_rate: int | None = None) -> Iterator[Any]:
        """Yield the words of a sound, each with its times, as soon as it is final.

        Args:
            sound: The path of a recording of any length; samples as `Model.predict` takes them; an iterable of parts of
                samples (N,), such as a microphone gives them; or `None`, the default microphone (the extra `live`),
                until Ctrl-C.
            sample_rate: That of samples; `None` is that of the model. Parts must have that of the model.
        """
        try:
            yield from self.words(parts_of(sound, self.stream.sample_rate_hz, sample_rate))
        finally:
            self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restart()


def parts_of(sound: Any, sample_rate_hz: int, rate_hz: int | None) -> Iterator[Tensor]:
    """The parts of a sound, of LISTEN_S seconds unless they are given; the arguments are those of `Listener.listen`."""
    if sound is None:
        return listen(sample_rate_hz, LISTEN_S)
    if isinstance(sound, str | os.PathLike):
        whole: Iterable[Tensor] = AudioParts(sound, sample_rate_hz)
    elif hasattr(sound, "ndim") or states_rate(sound):
        whole = [to_sound(sound, rate_hz or sample_rate_hz, sample_rate_hz)]
    elif rate_hz in (None, sample_rate_hz):
        return iter(sound)
    else:
        raise InputError(f"sample_rate={rate_hz}: parts of samples must have {sample_rate_hz:,} Hz")
    return (part for samples in whole for part in samples.split(round(LISTEN_S * sample_rate_hz)))


def stream(model: Model | nn.Module) -> AudioStream:
    """Run a speech model on a stream: `push(samples)` returns the logits that became final, `flush()` the last ones.

    Args:
        model: From `vitspeech.load`, or a network in evaluation mode.

    Raises:
        InputError: If the model can't be streamed: its look-ahead is unlimited, or it has no attention over speech.
    """
    return AudioStream(model.network if isinstance(model, Model) else model)


def why_not_streamed(network: nn.Module) -> str | None:
    """Why a network can't be streamed, and which model can; `None` if it can."""
    try:
        AudioStream(network)
    except InputError as error:
        return str(error)
    return None


def to_samples(samples: Tensor | numpy.ndarray) -> Tensor:
    """Samples that are int16 or floats within ±1 as a tensor (N,).

    Arrays may be read-only, strided and of either byte order; they are copied only if PyTorch can't share their memory.
    Floats up to ±16 are accepted, since resampling and lossy codecs overshoot.
    """
    if not isinstance(samples, Tensor):
        array = numpy.asarray(samples)
        if array.dtype.kind in "SVUO":
            if isinstance(samples, bytes):
                raise InputError("bytes are not samples; numpy.frombuffer(…, numpy.int16) makes them of bytes")
            item = f" of {type(array.item(0)).__name__}" if array.ndim and array.size else ""
            raise InputError(f"{type(samples).__name__}{item}: not samples; `listen` takes paths")
        dtype = array.dtype.newbyteorder("=")
        if dtype.kind == "f":  # PyTorch has no longdouble
            dtype = min(dtype, numpy.dtype(numpy.float64), key=lambda one: one.itemsize)
        samples = torch.from_numpy(numpy.require(array, dtype, ["C", "W"]))
    if samples.ndim != 1 or not (samples.dtype == torch.int16 or samples.is_floating_point()):
        kind = f"{str(samples.dtype).removeprefix('torch.')} and shape {tuple(samples.shape)}"
        raise InputError(f"samples of type {kind} are neither int16 nor floats within ±1 of shape (N,)")
    if samples.is_floating_point() and len(samples):
        peak = samples.abs().amax().item()
        if problem := problem_of_floats(peak):
            raise InputError(f"{problem}, or pass int16")
    return samples
