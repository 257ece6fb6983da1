"""Random sampling of utterances: which words, pauses, noise and signal-to-noise ratio each one has."""

import itertools
import math

import numpy

from vitspeech.data.utterances.manifest import Utterance
from vitspeech.data.utterances.word_clips import WordSource
from vitspeech.errors import InputError


class UtteranceSampler:
    """Samples utterances from the word clips of a split; the result depends on the random generator only.

    Args:
        source: Source of word clips and noise.
        split: `train`, `validation` or `test`.
        words: Smallest and largest number of words per utterance.
        gap_ms: Shortest and longest pause.
        snr_db: Lowest and highest signal-to-noise ratio.
        noise_prob: Probability that an utterance gets noise; without it, its signal-to-noise ratio is infinite.
        pause_prob: Probability that a pause is drawn from `pause_ms` instead of `gap_ms`.
        pause_ms: Shortest and longest of these pauses.
        silence_prob: Probability that an utterance has no words, for as long as an utterance with words.

    Attributes:
        clips: The split's word clips by name.
        noises: The split's noise recordings by name, int16.

    Raises:
        InputError: If utterances may have more words than there are clips.
    """

    def __init__(
        self,
        source: WordSource,
        split: str,
        words: tuple[int, int],
        gap_ms: tuple[float, float],
        snr_db: tuple[float, float],
        noise_prob: float = 1.0,
        pause_prob: float = 0.0,
        pause_ms: tuple[float, float] = (0.0, 0.0),
        silence_prob: float = 0.0,
    ) -> None:
        self.clip_list = source.word_clips(split)
        if words[1] > len(self.clip_list):
            raise InputError(f"words={list(words)} are more than the {len(self.clip_list)} clips for {split}")
        self.clips = {clip.name: clip for clip in self.clip_list}

        def speaker(index: int) -> str:
            return self.clip_list[index].speaker

        groups = itertools.groupby(sorted(range(len(self.clip_list)), key=speaker), key=speaker)
        self.indices_by_speaker = {name: numpy.array(list(indices)) for name, indices in groups}
        self.noises = {name: noise.numpy() for name, noise in source.backgrounds(split).items()}
        self.noise_names = sorted(self.noises)
        self.words, self.snr_db, self.noise_prob = words, snr_db, noise_prob
        self.pause_prob, self.silence_prob = pause_prob, silence_prob
        self.gap_samples, self.pause_samples = (
            [round(milliseconds * source.sample_rate_hz / 1000) for milliseconds in bounds]
            for bounds in (gap_ms, pause_ms)
        )

    def sample(self, name: str, generator: numpy.random.Generator) -> Utterance:
        """Sample one utterance and give it a name."""
        count = int(generator.integers(self.words[0], self.words[1] + 1))
        clips = [self.clip_list[index] for index in self.sample_clips(count, generator)]
        gaps = self.sample_gaps(len(clips) + 1, generator)
        starts, end = [], 0
        for gap, clip in zip(gaps, clips, strict=False):
            starts.append(end + gap)
            end = starts[-1] + clip.end - clip.start
        recording = self.noise_names[int(generator.integers(len(self.noise_names)))]
        position = int(generator.integers(len(self.noises[recording])))
        snr_db = round(float(generator.uniform(*self.snr_db)), 2)
        # Validation and test draw no numbers for clean sound, silence and long pauses, so they stay as published.
        clean = self.noise_prob < 1 and generator.random() >= self.noise_prob
        if self.silence_prob and generator.random() < self.silence_prob:
            starts, clips = [], []
        return Utterance(
            name,
            [clip.word for clip in clips],
            end + gaps[-1],
            [clip.name for clip in clips],
            [[clip.start, clip.end] for clip in clips],
            starts,
            [recording, position],
            math.inf if clean else snr_db,
        )

    def sample_gaps(self, count: int, generator: numpy.random.Generator) -> list[int]:
        """Sample the pauses of an utterance, in samples."""
        gaps = generator.integers(self.gap_samples[0], self.gap_samples[1] + 1, count)
        if self.pause_prob:
            pauses = generator.integers(self.pause_samples[0], self.pause_samples[1] + 1, count)
            gaps = numpy.where(generator.random(count) < self.pause_prob, pauses, gaps)
        return gaps.tolist()

    def sample_clips(self, count: int, generator: numpy.random.Generator) -> list[int]:
        """Sample indices of distinct clips: of the first clip's speaker as far as possible, the rest of any speaker."""
        first = int(generator.integers(len(self.clip_list)))
        same_speaker = self.indices_by_speaker[self.clip_list[first].speaker]
        indices = [first, *generator.permutation(same_speaker[same_speaker != first])[: count - 1].tolist()]
        while len(indices) < count:
            index = int(generator.integers(len(self.clip_list)))
            if index not in indices:
                indices.append(index)
        return indices
