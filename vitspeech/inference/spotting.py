"""Keyword spotting in a stream: detections with times and probabilities, and the rate of false alarms.

Shapes: N samples, T tokens, C classes.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from vitspeech.attention import MeanPooling
from vitspeech.checkpoint.folder import Model
from vitspeech.data.clips.speech_commands import SILENCE, UNKNOWN
from vitspeech.errors import InputError
from vitspeech.inference.stream import stream
from vitspeech.metrics.intervals import poisson_interval

PAUSE_S = 0.08  # a word ends where its tokens pause for so long
SHORTEST_S = 0.15  # of a word; shorter ones are mostly false alarms
LOWEST_TOKEN = 0.5  # probability from which a token belongs to a word, unless the threshold is lower
LEAST_FRACTION = 0.5  # of a clip's tokens; fewer are averaged as if tokens up to there had logits of 0
NO_WORD = -1


@dataclass(frozen=True)
class Detection:
    """A word detected in the stream.

    Args:
        label: The word.
        start_s: Start of the word, in seconds from the beginning of the recording: that of its first token.
        end_s: End of the word: that of its last token. A token lasts one hop, around the center of its samples.
        probability: Probability of the word in a clip that ends with it or soon after.
    """

    label: str
    start_s: float
    end_s: float
    probability: float


@dataclass
class Run:
    """Tokens of one word, with pauses below `PAUSE_S`.

    Args:
        first: The first token.
        last: The last token so far.
        reported: Whether the word has been detected.
    """

    first: int
    last: int
    reported: bool = False


class WordSpotter:
    """Detects the words of a stream, each once, also if the same word follows.

    A token belongs to the most probable word if that has half of the token's probability (or `threshold`, if lower). A
    word is a run of such tokens: it ends where none has followed for 80 ms, or after `seconds`, the length of the
    training clips. It is detected if it lasts 0.15 s and its probability in a clip of `seconds` reaches the threshold.
    As mean pooling does, the probability averages the logits of the clip's tokens, but without those of words that have
    been detected before. Of the clips that end between the word's last token and the newest one, the one with the
    highest probability counts.

    The labels `unknown` and `silence` are never detected. Detections are ordered by their ends.

    Args:
        model: A speech model from `vitspeech.load` that can be streamed, with mean pooling.
        threshold: Minimum probability of a detection.
        refractory_s: Minimum time in seconds between the ends of two detections, of whichever words; 0 keeps all.

    Attributes:
        delay_samples: Samples from the start of a word's last token to the one with which the word is detected: the
            delay of the stream and the pause after the word.

    Raises:
        InputError: If the model can't be streamed or has another pooling, or a number is out of its range.
    """

    def __init__(self, model: Model, *, threshold: float = 0.8, refractory_s: float = 0.0) -> None:
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
        self.tokens, rate_hz = model.network.tokens, self.stream.sample_rate_hz
        samples = round(model.preprocessing["seconds"] * rate_hz)
        self.clip = 1 + (samples - self.tokens.window_samples) // self.stream.hop_samples  # tokens
        self.pause = max(round(PAUSE_S * rate_hz / self.stream.hop_samples), 1)  # tokens
        self.delay_samples = self.stream.delay_samples + self.pause * self.stream.hop_samples
        self.restart()

    def restart(self) -> None:
        """Begin a new recording."""
        self.stream.restart()
        self.count = 0  # tokens so far
        self.logits = torch.zeros(0, len(self.labels))  # of the newest tokens, which decisions may still need
        self.is_free = torch.zeros(0, dtype=torch.bool)  # whether the same tokens are in no detection
        self.runs: dict[int, Run] = {}  # that have not ended, by word
        self.last_end_s = -math.inf

    def words(self, parts: Iterable[Tensor]) -> Iterator[Detection]:
        """Yield the detections in audio that arrives in parts (N,), each as soon as it is made.

        Call `restart` before another recording if you stop before the end.
        """
        for part in parts:
            yield from self.push(part)
        yield from self.flush()

    def push(self, samples: Tensor | numpy.ndarray) -> list[Detection]:
        """Process the next samples, int16 or floats within ±1: (N,) -> new detections."""
        return self.detect(self.stream.push(samples))

    def flush(self) -> list[Detection]:
        """End the recording: the detections in its last samples. The spotter can then be used for another recording."""
        detections = self.detect(self.stream.flush())
        ending = sorted(self.runs.items(), key=lambda item: item[1].last)
        detections += [found for word, run in ending for found in self.decide(word, run)]
        self.restart()
        return detections

    def detect(self, logits: Tensor) -> list[Detection]:
        """Process the next logits (T, C): new detections."""
        logits = logits.float().cpu()
        probabilities, best = (logits.softmax(-1) * self.is_word).max(-1)
        is_word = probabilities >= min(LOWEST_TOKEN, self.threshold)
        detections = []
        kept = self.clip + self.pause - 1
        for row, word in zip(logits, best.masked_fill(~is_word, NO_WORD).tolist(), strict=True):
            self.logits = torch.cat((self.logits[-kept:], row[None]))
            self.is_free = torch.cat((self.is_free[-kept:], torch.tensor([True])))
            self.count += 1
            detections += self.advance(word)
        return detections

    def advance(self, word: int) -> list[Detection]:
        """Add the newest token to its word's run: the detections of runs that end here or are as long as a clip."""
        newest = self.count - 1
        if word != NO_WORD:
            self.runs.setdefault(word, Run(newest, newest)).last = newest
        detections = []
        for other, run in list(self.runs.items()):
            has_ended = newest - run.last >= self.pause
            if has_ended or newest - run.first + 1 >= self.clip:
                detections += self.decide(other, run)
            if has_ended:
                del self.runs[other]
        return detections

    def decide(self, word: int, run: Run) -> list[Detection]:
        """The detection of a run, unless it is too short or improbable, or has been reported."""
        hop, rate_hz = self.stream.hop_samples, self.stream.sample_rate_hz
        is_short = (run.last + 1 - run.first) * hop < SHORTEST_S * rate_hz
        probability = 0.0 if run.reported or is_short else self.probability(word, run)
        run.reported = run.reported or probability >= self.threshold
        if run.reported:
            oldest = self.count - len(self.is_free)  # the token of the first row
            self.is_free[max(run.first - oldest, 0) : run.last + 1 - oldest] = False
        if probability < self.threshold:
            return []
        offset = (self.tokens.window_samples - hop) / 2
        start_s, end_s = (run.first * hop + offset) / rate_hz, ((run.last + 1) * hop + offset) / rate_hz
        if end_s - self.last_end_s < self.refractory_s:
            return []
        self.last_end_s = end_s
        return [Detection(self.labels[word], start_s, end_s, probability)]

    def probability(self, word: int, run: Run) -> float:
        """The highest probability of a run's word in clips that end with it or later; 0 if another word's is higher."""
        size, after = min(self.clip, len(self.logits)), self.count - run.last  # tokens of a clip; clips
        sums = (self.logits * self.is_free[:, None]).unfold(0, size, 1).sum(-1)
        counts = self.is_free.unfold(0, size, 1).sum(-1).clamp(min=LEAST_FRACTION * self.clip)
        probabilities = (sums / counts[:, None])[-after:].softmax(-1) * self.is_word
        best = probabilities[probabilities[:, word].argmax()]
        return best[word].item() if best.argmax() == word else 0.0


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
