"""Composition of an utterance's waveform: words at one level, with fades, over noise.

Shapes: N samples.
"""

from collections.abc import Mapping

import numpy

from vitspeech.data.utterances.manifest import Utterance
from vitspeech.data.utterances.word_clips import WordClip

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
