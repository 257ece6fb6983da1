"""Which words an utterance has, when and over which noise: drawn from clips of single words."""

import itertools

import numpy

from vitspeech.data.utterances.composition import Utterance
from vitspeech.data.utterances.word_clips import WordSource


class Drawing:
    """Draws utterances of a split; what is drawn follows from the generator alone.

    Args:
        source: Single words.
        split: Whose.
        words: The fewest and the most words of an utterance.
        gap_ms: The shortest and the longest silence.
        snr_db: The lowest and the highest ratio of words to noise.
    """

    def __init__(
        self,
        source: WordSource,
        split: str,
        words: tuple[int, int],
        gap_ms: tuple[float, float],
        snr_db: tuple[float, float],
    ) -> None:
        self.list = source.word_clips(split)
        if words[1] > len(self.list):
            raise ValueError(f"words={list(words)} are more than the {len(self.list)} clips for {split}")
        self.clips = {clip.name: clip for clip in self.list}
        ordered = sorted(range(len(self.list)), key=lambda place: self.list[place].speaker)
        groups = itertools.groupby(ordered, key=lambda place: self.list[place].speaker)
        self.of_speaker = {speaker: numpy.array(list(places)) for speaker, places in groups}
        self.noises = {name: noise.numpy() for name, noise in source.backgrounds(split).items()}
        self.names = sorted(self.noises)
        self.words, self.snr_db = words, snr_db
        self.gaps = [round(milliseconds * source.sample_rate_hz / 1000) for milliseconds in gap_ms]

    def draw(self, name: str, generator: numpy.random.Generator) -> Utterance:
        """One utterance of that name."""
        count = int(generator.integers(self.words[0], self.words[1] + 1))
        clips = [self.list[place] for place in self.places(count, generator)]
        gaps = generator.integers(self.gaps[0], self.gaps[1] + 1, len(clips) + 1).tolist()
        starts, place = [], 0
        for gap, clip in zip(gaps, clips, strict=False):
            starts.append(place + gap)
            place = starts[-1] + clip.end - clip.start
        recording = self.names[int(generator.integers(len(self.names)))]
        return Utterance(
            name,
            [clip.word for clip in clips],
            place + gaps[-1],
            [clip.name for clip in clips],
            [[clip.start, clip.end] for clip in clips],
            starts,
            [recording, int(generator.integers(len(self.noises[recording])))],
            round(float(generator.uniform(*self.snr_db)), 2),
        )

    def places(self, count: int, generator: numpy.random.Generator) -> list[int]:
        """So many clips of one speaker as far as there are, the rest of anyone."""
        first = int(generator.integers(len(self.list)))
        same = self.of_speaker[self.list[first].speaker]
        others = generator.permutation(same[same != first])[: count - 1].tolist()
        chosen = [first, *others]
        while len(chosen) < count:
            more = int(generator.integers(len(self.list)))
            if more not in chosen:
                chosen.append(more)
        return chosen
