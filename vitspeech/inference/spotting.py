"""Keyword spotting in audio: detections with times and probabilities, and the rate of false alarms.

Shapes: N samples, T tokens, C classes.
"""

from dataclasses import replace

import numpy
from torch import Tensor, nn

from vitspeech.attention import MeanPooling
from vitspeech.checkpoint.model import Model
from vitspeech.decoding.keywords import Detection, KeywordDecoder, SpottingSettings
from vitspeech.errors import InputError
from vitspeech.inference.stream import Listener, stream
from vitspeech.inference.transcript import check_outputs
from vitspeech.metrics.intervals import poisson_interval


class WordSpotter(Listener):
    """Detects the words of a stream of audio: an `AudioStream` and a `KeywordDecoder`, which states the algorithm.

    The labels `unknown` and `silence` are never detected.

    Args:
        model: A speech model from `vitspeech.load` that can be streamed, with mean pooling.
        settings: Thresholds and all other numbers of the decoder; `None` takes those of the model's card, or else the
            defaults.

    Attributes:
        latency_samples: Samples from the start of a word's last token to the last one on which its detection depends:
            the latency of the stream and the pause after the word.

    Raises:
        InputError: If the model can't be streamed or has another pooling, or the thresholds are of other words.
    """

    def __init__(self, model: Model, settings: SpottingSettings | None = None) -> None:
        self.stream = stream(model)
        if not hasattr(model.network, "pooling"):
            raise InputError(f"{type(model.network).__name__} does not classify clips; use a SpeechClassifier")
        check_pooling(model.network)
        check_outputs(self.logits.shape[-1], model.labels)
        self.labels = model.labels
        self.settings = settings or model.spotting or SpottingSettings()
        rate_hz, hop, window = self.stream.sample_rate_hz, self.stream.hop_samples, model.network.tokens.window_samples
        self.decoder = KeywordDecoder(
            model.labels,
            self.settings,
            hop_s=hop / rate_hz,
            first_s=(window - hop) / 2 / rate_hz,
            latency_s=self.stream.latency_samples / rate_hz,
            clip_tokens=1 + (round(model.preprocessing["seconds"] * rate_hz) - window) // hop,
        )
        self.latency_samples = self.stream.latency_samples + self.decoder.latency_tokens * hop
        self.samples = 0  # so far

    def restart(self) -> None:
        """Begin a new recording."""
        self.stream.restart()
        self.decoder.restart()
        self.samples = 0

    def push(self, samples: Tensor | numpy.ndarray) -> list[Detection]:
        """Process the next samples, int16 or floats within ±1: (N,) -> new detections."""
        logits = self.stream.push(samples)
        self.samples += len(samples)
        return self.decoder.push(logits.float().cpu())

    def flush(self) -> list[Detection]:
        """End the recording: the detections in its last samples. The spotter can then be used for another recording."""
        detections = [*self.decoder.push(self.stream.flush().float().cpu()), *self.decoder.flush()]
        duration_s = self.samples / self.stream.sample_rate_hz
        self.restart()
        return [replace(found, decided_s=min(found.decided_s, duration_s)) for found in detections]


def check_pooling(network: nn.Module) -> None:
    """Raise an InputError unless the logits of a clip are the mean of the logits of its tokens."""
    if not isinstance(network.pooling, MeanPooling):
        pooling = type(network.pooling).__name__
        raise InputError(f"{pooling} can't be streamed: only mean pooling is an average of per-token logits")


def alarms_per_hour(alarms: int, seconds: float) -> tuple[float, float, float]:
    """False alarms per hour and the exact 95 % interval of a Poisson rate: (rate, low, high)."""
    hours = seconds / 3600
    low, high = poisson_interval(alarms)
    return alarms / hours, low / hours, high / hours
