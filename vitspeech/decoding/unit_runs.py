"""Greedy decoding of a stream: runs of tokens of one class are units, with their times. Needs numpy alone.

With CTC, the last class is the blank, which is no unit. Shapes: T tokens, C classes.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

NOTHING = -1


@dataclass(frozen=True)
class Segment:
    """A word, a character, a piece of a word or a label of frames, with its times.

    Args:
        label: Its name.
        start_s: Start in seconds from the beginning of the recording. A token lasts one hop, around the center of its
            samples. With CTC, segments are those of the best alignment. CTC outputs peak within the spoken word, so
            that the segment is usually shorter than the word.
        end_s: End in seconds.
    """

    label: str
    start_s: float
    end_s: float


class UnitDecoder:
    """Takes logits and returns units, each as soon as a token of another class follows.

    Args:
        labels: The name of each class, without the blank.
        hop_s: Seconds from one token to the next.
        first_s: Start of the first token's hop, in seconds from the beginning of the recording.
        shortest_s: Shorter runs are left out.
        least_probability: Runs whose mean probability is lower are left out.
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        hop_s: float,
        first_s: float,
        shortest_s: float = 0.0,
        least_probability: float = 0.0,
    ) -> None:
        self.labels, self.hop_s, self.first_s = labels, hop_s, first_s
        self.shortest_s, self.least_probability = shortest_s, least_probability
        self.restart()

    def restart(self) -> None:
        """Begin a new recording."""
        self.count, self.first, self.newest = 0, 0, NOTHING  # tokens so far, the first one of the newest class
        self.total = 0.0  # sum of the probabilities of the newest class

    def push(self, logits: numpy.ndarray) -> list[Segment]:
        """Process the next logits: (T, C) -> the units that have ended."""
        units, probabilities = [], 1 / numpy.exp(logits - logits.max(1, keepdims=True)).sum(1)
        for best, probability in zip(logits.argmax(1).tolist(), probabilities.tolist(), strict=True):
            if best != self.newest:
                units += self.ended()
                self.first, self.newest, self.total = self.count, best, 0.0
            self.count += 1
            self.total += probability
        return units

    def flush(self) -> list[Segment]:
        """End the recording: the last unit. The decoder can then be used for another."""
        units = self.ended()
        self.restart()
        return units

    def ended(self) -> list[Segment]:
        """The newest run of tokens as a unit, unless it is the blank, too short or too improbable."""
        tokens = self.count - self.first
        is_long = tokens * self.hop_s >= self.shortest_s - 1e-9  # but for rounding
        is_probable = self.total >= self.least_probability * tokens
        if not is_long or not is_probable or not 0 <= self.newest < len(self.labels):
            return []
        start_s, end_s = (self.first_s + token * self.hop_s for token in (self.first, self.count))
        return [Segment(self.labels[self.newest], start_s, end_s)]

    def state(self) -> dict[str, numpy.ndarray]:
        """What later units depend on, as arrays: `restore` goes on from there."""
        tokens = numpy.array([self.count, self.first, self.newest])
        return {"tokens": tokens, "total": numpy.array(self.total)}

    def restore(self, state: Mapping[str, numpy.ndarray]) -> None:
        """Go on from what `state` returned."""
        count, first, newest = map(operator.index, state["tokens"].tolist())
        total = float(state["total"])
        if not 0 <= first <= count or not 0 <= total <= count - first or not NOTHING <= newest <= len(self.labels):
            raise ValueError("not a state of this decoder")
        self.count, self.first, self.newest, self.total = count, first, newest, total
