"""Keyword spotting in a stream: detections with times and probabilities, and the rate of false alarms.

Shapes: N samples, T tokens, C classes.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.attention import MeanPooling
from vitspeech.checkpoint.folder import Model
from vitspeech.data.clips.speech_commands import SILENCE, UNKNOWN
from vitspeech.errors import InputError
from vitspeech.inference.stream import stream
from vitspeech.metrics.intervals import poisson_interval


@dataclass(frozen=True)
class Detection:
    """A word detected in a window of the stream.

    Args:
        label: The word.
        start_s: Start of the window, in seconds from the beginning of the recording.
        end_s: End of the window.
        probability: Probability of the word in the window.
    """

    label: str
    start_s: float
    end_s: float
    probability: float


class WordSpotter:
    """Detects the words of a stream, each as soon as its probability reaches a threshold.

    The logits of the last `seconds` (the length of the training clips) are averaged, as mean pooling does in a clip.
    The labels `unknown` and `silence` are never detected. The same word is detected again only after its probability
    has fallen below the threshold.

    Args:
        model: A speech model from `vitspeech.load` that can be streamed, with mean pooling.
        threshold: Minimum probability of a detection.
        refractory_s: Minimum time in seconds between two detections.

    Raises:
        InputError: If the model can't be streamed or has another pooling, or a number is out of its range.
    """

    def __init__(self, model: Model, *, threshold: float = 0.8, refractory_s: float = 0.5) -> None:
        if not 0 < threshold < 1:
            raise InputError(f"threshold={threshold} is not within 0 .. 1")
        if not 0 <= refractory_s < math.inf:
            raise InputError(f"refractory_s={refractory_s} is not a number of seconds from 0 on")
        self.stream = stream(model)
        if not hasattr(model.network, "pooling"):
            raise InputError(f"{type(model.network).__name__} does not classify clips; use a SpeechClassifier")
        if not isinstance(model.network.pooling, MeanPooling):
            pooling = type(model.network.pooling).__name__
            raise InputError(f"{pooling} can't be streamed: only mean pooling is an average of per-token logits")
        self.labels, self.threshold, self.refractory_s = model.labels, threshold, refractory_s
        self.is_word = torch.tensor([label not in (UNKNOWN, SILENCE) for label in model.labels])
        samples = round(model.preprocessing["seconds"] * self.stream.sample_rate_hz)
        self.clip_window = 1 + (samples - model.network.tokens.window_samples) // self.stream.hop_samples
        self.window_samples = model.network.tokens.window_samples
        self.restart()

    def restart(self) -> None:
        """Begin a new recording."""
        self.window = self.clip_window  # tokens whose logits are averaged
        self.recent = torch.zeros(0, len(self.labels))  # the newest logits, which later windows still need
        self.first_token = 0  # the token of the first row of `recent`
        self.last_end_s, self.last_label = -math.inf, None

    def words(self, parts: Iterable[Tensor]) -> Iterator[Detection]:
        """Yield the detections in audio that arrives in parts (N,), each as soon as it is made."""
        for part in parts:
            yield from self.push(part)
        yield from self.flush()

    def push(self, samples: Tensor) -> list[Detection]:
        """Process the next samples, int16 or floats within ±1: (N,) -> new detections."""
        return self.detect(self.stream.push(samples))

    def flush(self) -> list[Detection]:
        """End the recording: the detections in its last samples. The spotter can then be used for another recording."""
        logits = self.stream.flush()
        count = len(self.recent) + len(logits)
        if self.first_token == 0 and 0 < count < self.window:
            self.window = count  # the recording is shorter than one clip: the window is all of it
        detections = self.detect(logits)
        self.restart()
        return detections

    def detect(self, logits: Tensor) -> list[Detection]:
        """Move the window over the next logits (T, C)."""
        self.recent = torch.cat((self.recent, logits.cpu()))
        count = len(self.recent) - self.window + 1
        if count < 1:
            return []
        probabilities = F.avg_pool1d(self.recent.T[None], self.window, 1)[0].T.softmax(-1)
        first, self.first_token = self.first_token, self.first_token + count
        self.recent = self.recent[count:].clone()
        values, indices = probabilities.masked_fill(~self.is_word, 0).max(-1)
        windows = enumerate(zip(values.tolist(), indices.tolist(), strict=True), first)
        detections = (self.decide(token, value, self.labels[index]) for token, (value, index) in windows)
        return [detection for detection in detections if detection is not None]

    def decide(self, token: int, probability: float, label: str) -> Detection | None:
        """The detection in the window that begins with `token`, unless it is too improbable or a repetition."""
        if probability < self.threshold:
            self.last_label = None
            return None
        hop_s = self.stream.hop_samples / self.stream.sample_rate_hz
        start_s = token * hop_s
        end_s = start_s + (self.window - 1) * hop_s + self.window_samples / self.stream.sample_rate_hz
        if label == self.last_label or end_s - self.last_end_s < self.refractory_s:
            return None
        self.last_end_s, self.last_label = end_s, label
        return Detection(label, start_s, end_s, probability)


def alarms_per_hour(alarms: int, seconds: float) -> tuple[float, float, float]:
    """False alarms per hour and the exact 95 % interval of a Poisson rate: (rate, low, high).

    Raises:
        InputError: If `seconds` is not positive.
    """
    if not 0 < seconds < math.inf:
        raise InputError(f"false alarms per hour need audio of positive duration, not {seconds} s")
    hours = seconds / 3600
    low, high = poisson_interval(alarms)
    return alarms / hours, low / hours, high / hours
