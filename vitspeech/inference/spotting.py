"""Words in sound that goes on and on: which, when, how sure, and how often there was none.

Shapes: T frames, C classes.
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
from vitspeech.inference.stream import stream


@dataclass(frozen=True)
class Word:
    """A word that was recognized.

    Args:
        label: Which.
        start_s: Where the stretch of sound begins in which it was recognized, in seconds from the stream's beginning.
        end_s: Where that stretch ends.
        probability: Of the label in that stretch.
    """

    label: str
    start_s: float
    end_s: float
    probability: float


class WordSpotter:
    """Words of a stream, each as soon as it is recognized.

    The rows of logits of the last `seconds` (the length of the clips that the model was trained on) are averaged, as
    mean pooling does in a clip; a word is recognized when its probability reaches `threshold`. `unknown` and `silence`
    are no words. The same word comes again only after its probability has fallen below the threshold.

    Args:
        model: A speech model from `vitspeech.load` that can be streamed, with mean pooling.
        threshold: Probability from which on a word is recognized.
        refractory_s: Seconds after a word in which there is no other.

    Raises:
        ValueError: If the model can't be streamed or pools otherwise, or a number is out of its range.
    """

    def __init__(self, model: Model, *, threshold: float = 0.8, refractory_s: float = 0.5) -> None:
        if not 0 < threshold < 1:
            raise ValueError(f"threshold={threshold} is not within 0 .. 1")
        if refractory_s < 0:
            raise ValueError(f"refractory_s={refractory_s} is negative")
        self.stream = stream(model)
        if not hasattr(model.network, "pooling"):
            raise ValueError(f"{type(model.network).__name__} gives no label of a whole clip; a SpeechClassifier does")
        if not isinstance(model.network.pooling, MeanPooling):
            pooling = type(model.network.pooling).__name__
            raise ValueError(f"{pooling}: the mean of a stream's rows is what a clip gives only with pooling: mean")
        self.labels, self.threshold, self.refractory_s = model.labels, threshold, refractory_s
        self.is_word = torch.tensor([label not in (UNKNOWN, SILENCE) for label in model.labels])
        samples = round(model.preprocessing["seconds"] * self.stream.sample_rate_hz)
        self.window = 1 + (samples - model.network.tokens.window_samples) // self.stream.hop_samples
        self.window_samples = model.network.tokens.window_samples
        self.recent = torch.zeros(0, len(model.labels))
        self.frames = 0  # frames that have gone out of `recent`
        self.last_s, self.last_label = -math.inf, None

    def words(self, parts: Iterable[Tensor]) -> Iterator[Word]:
        """The words of sound that comes in parts (N,), each as soon as it is recognized, to the end of the sound."""
        for part in parts:
            yield from self.push(part)
        yield from self.flush()

    def push(self, samples: Tensor) -> list[Word]:
        """The next samples, int16 or floats within ±1: (N,) -> the words recognized with them."""
        return self.recognized(self.stream.push(samples))

    def flush(self) -> list[Word]:
        """The words in the tail, when no sound comes any more."""
        rows = self.stream.flush()
        short = self.frames == 0 and len(self.recent) + len(rows) < self.window
        if short and len(self.recent) + len(rows):
            self.window = len(self.recent) + len(rows)  # less sound than one clip: the stretch is all of it
        return self.recognized(rows)

    def recognized(self, rows: Tensor) -> list[Word]:
        """Go on by rows of logits (T, C)."""
        self.recent = torch.cat((self.recent, rows.cpu()))
        count = len(self.recent) - self.window + 1
        if count < 1:
            return []
        shares = F.avg_pool1d(self.recent.T[None], self.window, 1)[0].T.softmax(-1)
        first, self.frames = self.frames, self.frames + count
        self.recent = self.recent[count:].clone()
        chances, places = shares.masked_fill(~self.is_word, 0).max(-1)
        found = []
        for number, (chance, place) in enumerate(zip(chances.tolist(), places.tolist(), strict=True), first):
            word = self.decided(number, chance, self.labels[place])
            found += [word] if word else []
        return found

    def decided(self, number: int, chance: float, label: str) -> Word | None:
        """Whether the stretch that begins with that frame says a word that was not said already."""
        if chance < self.threshold:
            self.last_label = None
            return None
        seconds = self.stream.hop_samples / self.stream.sample_rate_hz
        start = number * seconds
        end = start + (self.window - 1) * seconds + self.window_samples / self.stream.sample_rate_hz
        if label == self.last_label or end - self.last_s < self.refractory_s:
            return None
        self.last_s, self.last_label = end, label
        return Word(label, start, end, chance)


def alarms_per_hour(alarms: int, seconds: float) -> tuple[float, float, float]:
    """False alarms an hour, and the exact 95 % interval of a Poisson rate (Garwood 1936): (rate, low, high).

    Raises:
        ValueError: If there was no sound.
    """
    if seconds <= 0:
        raise ValueError("no sound to count false alarms in")
    hours = seconds / 3600

    def quantile(shape: int, share: float) -> float:
        """Where the gamma distribution of that shape has that share below it, by halving."""
        low, high = 0.0, shape + 10 * math.sqrt(shape) + 10
        for _ in range(60):
            middle = (low + high) / 2
            below = torch.special.gammainc(torch.tensor(float(shape)).double(), torch.tensor(middle).double())
            low, high = (middle, high) if below < share else (low, middle)
        return low

    return alarms / hours, quantile(alarms, 0.025) / hours if alarms else 0.0, quantile(alarms + 1, 0.975) / hours
