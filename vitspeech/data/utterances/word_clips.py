"""Single words: where a word begins and ends in its clip, and utterances composed of them, over noise.

Shapes: N samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
from torch import Tensor

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, fit_length
from vitspeech.data.utterances.manifest import Utterance

FRAME, HOP = 320, 80  # 20 ms every 5 ms at 16 kHz
THRESHOLD = 0.25  # position between the clip's background (0) and its peak (1), in decibels, where a word begins
RANGE_DB = 35.0  # frames further below the peak are background, however quiet the rest of the clip is
PAUSE_S = 0.15  # longest pause within a word, such as the closure before the burst of a stop consonant
SHORTEST_WORD_S = 0.15  # shorter sounds are clicks
APART_S, ALIKE_DB = 0.3, 10.0  # two sounds at least so far apart, and in energy at most so different, are two words


@dataclass(frozen=True)
class WordClip:
    """A recording of one word.

    Args:
        name: Name of the clip in its source, by which a manifest refers to it.
        word: The word.
        speaker: Speaker ID.
        samples: The whole clip, int16 (N,).
        start: First sample of the word.
        end: The sample after the word's last.
    """

    name: str
    word: str
    speaker: str
    samples: numpy.ndarray
    start: int
    end: int


class WordSource:
    """Base class of the sources of words for `WordSequences`: single words, in splits that share no speakers.

    A source of your own sets `words` and implements `word_clips` and `backgrounds`.

    Attributes:
        words: All words that occur in any split.
        sample_rate_hz: Sample rate of the clips and of the noise.
    """

    words: Sequence[str]
    sample_rate_hz = SAMPLE_RATE_HZ

    def word_clips(self, split: str) -> list[WordClip]:
        """The clips of `train`, `validation` or `test`, always in the same order."""
        raise NotImplementedError

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        """The split's own noise recordings by name: int16, of any length."""
        raise NotImplementedError


def word_span(samples: numpy.ndarray) -> tuple[int, int]:
    """Find where the word in a clip begins and ends: int16 (N,) -> (first sample, sample after the last).

    The word is the stretch of most energy above a threshold between background and peak; stretches within `PAUSE_S` of
    each other are joined. The detection uses energy alone: it may include breath before a word and miss a faint final
    consonant. A clip without such a stretch is all word. Clips must have at least 20 ms.
    """
    spans, energy = loud_stretches(samples)
    start, end = max(spans, key=lambda span: energy[span[1]] - energy[span[0]], default=(0, len(samples)))
    return int(start), int(end)


def is_said_twice(samples: numpy.ndarray) -> bool:
    """Whether a clip, int16 (N,), seems to have two words: sounds of similar energy with a long pause between them.

    It names 1 of 768 recordings of two phrases, 96 of 35,347 clips of Speech Commands, and 74 % of 400 pairs of these
    that have the same word by the same speaker; the others have shorter pauses, or noise.
    """
    spans, energy = loud_stretches(samples)
    energies = [energy[end] - energy[start] for start, end in spans]
    word = int(numpy.argmax(energies)) if spans else 0
    return any(
        max(spans[word][0] - end, start - spans[word][1]) >= APART_S * SAMPLE_RATE_HZ
        and 10 * numpy.log10(energies[word] / other) <= ALIKE_DB
        for (start, end), other in zip(spans, energies, strict=True)
    )


def around_word(samples: Tensor, length: int) -> Tensor:
    """Cut int16 (N,) to (length,) with the word in the middle, or as near to it as the recording allows.

    Of a word that is longer, its middle is kept. What is not longer than a clip, or has no word, is left to
    `fit_length`, whose stretch of most energy follows the noise: of 300 clips of Speech Commands in 3 s of pink noise
    at 10 dB it cuts 27 % of the words by more than a twentieth, and this function 5 %.
    """
    if len(samples) <= length or (span := word_span(samples.numpy())) == (0, len(samples)):
        return fit_length(samples, length)
    first = min(max((sum(span) - length) // 2, 0), len(samples) - length)
    return samples[first : first + length]


def loud_stretches(samples: numpy.ndarray) -> tuple[list[list[int]], numpy.ndarray]:
    """The stretches above the threshold of `word_span`, and the energy before each sample (N + 1,)."""
    sound = samples.astype(numpy.float64)
    sound = numpy.diff(sound, prepend=sound[:1])  # pre-emphasis: suppresses hum
    energy = numpy.concatenate(([0.0], (sound * sound).cumsum()))
    starts = numpy.arange(0, len(samples) - FRAME + 1, HOP)
    power = energy[starts + FRAME] - energy[starts]
    level = 10 * numpy.log10(power / FRAME + 1)
    background, peak = numpy.percentile(level, 10), level.max()
    loud = level > max(background + THRESHOLD * (peak - background), peak - RANGE_DB)
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([False], loud, [False])).astype(numpy.int8)))
    if not len(edges):
        return [], energy  # a constant level
    begins, ends = starts[edges[::2]], starts[edges[1::2] - 1] + FRAME
    joined = [[begins[0], ends[0]]]
    for begin, end in zip(begins[1:], ends[1:], strict=True):
        if begin - joined[-1][1] <= PAUSE_S * SAMPLE_RATE_HZ:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    return [span for span in joined if span[1] - span[0] >= SHORTEST_WORD_S * SAMPLE_RATE_HZ], energy


FADE = 640  # samples: 40 ms of fade-in before and fade-out after each word, which may overlap its neighbors
RAMP = (0.5 - 0.5 * numpy.cos(numpy.pi * (numpy.arange(FADE) + 0.5) / FADE)).astype(numpy.float32)
LEVEL = 0.05  # root mean square of every word, relative to full scale: -26 dB
QUIETEST = 1e-4  # lower bound of the root mean square of words and noise: below it is silence


def compose(utterance: Utterance, clips: Mapping[str, WordClip], noises: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
    """Compose an utterance: every word at `LEVEL`, with fades, plus noise at the utterance's SNR: int16 (N,)."""
    sound = numpy.zeros(utterance.samples, numpy.float32)
    for name, (first, last), start in zip(utterance.clips, utterance.cuts, utterance.starts, strict=True):
        samples = clips[name].samples
        # Cut the word with the surroundings to fade, as far as the clip and the utterance have them.
        before = min(FADE, first, start)
        after = min(FADE, len(samples) - last, utterance.samples - start - (last - first))
        cut = samples[first - before : last + after].astype(numpy.float32) / 32768
        word = cut[before : before + last - first]
        cut *= LEVEL / max(float(numpy.sqrt(numpy.mean(word * word))), QUIETEST)
        cut[:before] *= RAMP[FADE - before :]
        cut[len(cut) - after :] *= RAMP[::-1][:after]
        sound[start - before : start + last - first + after] += cut
    recording, position = utterance.noise
    indices = numpy.arange(position, position + len(sound))
    stretch = numpy.take(noises[recording], indices, mode="wrap") / numpy.float32(32768)
    noise_level = max(float(numpy.sqrt(numpy.mean(stretch * stretch))), QUIETEST)
    sound += stretch * (LEVEL / noise_level * 10 ** (-utterance.snr_db / 20))
    return (sound * 32768).round().clip(-32768, 32767).astype(numpy.int16)
