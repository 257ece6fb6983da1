"""Words cut out of their clips: what utterances are put together from, and how a word's ends are found.

Shapes: N samples of a clip.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from torch import Tensor

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ

FRAME, HOP = 320, 80  # 20 ms every 5 ms at 16 kHz
RISE = 0.25  # of the way from a clip's background to its peak, in decibels: where a word begins and ends
RANGE_DB = 35.0  # what lies further below the peak is background, however quiet the rest is
PAUSE_S = 0.15  # inside a word: the closure before a stop's burst
KNOCK_S = 0.15  # what is shorter is no word


@dataclass(frozen=True)
class WordClip:
    """One word as it was recorded.

    Args:
        name: Of the clip in its source, with which a manifest names it.
        word: Which word.
        speaker: Who says it.
        samples: The whole clip, int16 (N,).
        start: The word's first sample.
        end: The sample after its last.
    """

    name: str
    word: str
    speaker: str
    samples: numpy.ndarray
    start: int
    end: int


class WordSource:
    """Where the words of `WordSequences` come from: a data set of single words with splits apart in speakers.

    Attributes:
        words: Every word that may occur in any split.
    """

    words: Sequence[str]
    sample_rate_hz = SAMPLE_RATE_HZ

    def word_clips(self, split: str) -> list[WordClip]:
        """The words of `train`, `validation` or `test`, always in the same order."""
        raise NotImplementedError

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        """Recordings of noise by name, the split's own part of each: int16 (N,)."""
        raise NotImplementedError


def word_span(samples: numpy.ndarray) -> tuple[int, int]:
    """Where the word of a clip begins and ends, by its energy: int16 (N,) -> (first sample, sample after the last).

    The stretch of most energy above a threshold between background and peak, with what lies within `PAUSE_S` of it. It
    is no judgement of an ear: breath before a word may count for it, and a faint last consonant may not. A clip has at
    least 20 ms.
    """
    sound = samples.astype(numpy.float64)
    sound = numpy.diff(sound, prepend=sound[:1])  # lifts consonants above hum
    energy = numpy.concatenate(([0.0], (sound * sound).cumsum()))
    starts = numpy.arange(0, len(samples) - FRAME + 1, HOP)
    power = energy[starts + FRAME] - energy[starts]
    level = 10 * numpy.log10(power / FRAME + 1)
    background, peak = numpy.percentile(level, 10), level.max()
    loud = level > max(background + RISE * (peak - background), peak - RANGE_DB)
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([False], loud, [False])).astype(numpy.int8)))
    if not len(edges):
        return 0, len(samples)  # no louder anywhere: all of it
    begins, ends = starts[edges[::2]], starts[edges[1::2] - 1] + FRAME
    joined = [[begins[0], ends[0]]]
    for begin, end in zip(begins[1:], ends[1:], strict=True):
        if begin - joined[-1][1] <= PAUSE_S * SAMPLE_RATE_HZ:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    long = [span for span in joined if span[1] - span[0] >= KNOCK_S * SAMPLE_RATE_HZ]
    start, end = max(long, key=lambda span: energy[span[1]] - energy[span[0]], default=(0, len(samples)))
    return int(start), int(end)
