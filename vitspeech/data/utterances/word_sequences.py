"""Utterances of several words, composed from clips of single words by a seeded, published protocol.

Speech Commands has no utterances of several words, and there was no public protocol for composing them. Here are the
sampling of an utterance (which words, pauses, noise and signal-to-noise ratio) and the data set; `word_clips.py` makes
its waveform. Test sets are manifests with checksums.
"""

import itertools
import math
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.batches import DrawnItems, SpeechBatch, collate
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.manifest import Utterance, read_manifest, write_manifest
from vitspeech.data.utterances.module import CHARACTERS, UtteranceData
from vitspeech.data.utterances.word_clips import WordSource, compose
from vitspeech.errors import InputError, check_number


class UtteranceSampler:
    """Samples utterances from the word clips of a split; the result depends on the random generator only.

    The arguments are those of `WordSequences` and `SequenceAugment`. `clips` and `noises` (int16) have names.
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


MANIFESTS = Path(__file__).parent / "manifests"
PROTOCOL_SEEDS = {"validation": 20_261_121, "test": 20_261_122}  # the same in every run


class WordSequences(UtteranceData):
    """Utterances of 1 to 7 words, with transcripts and the times of the words to the sample.

    The number of words is uniform. The first clip is drawn from all clips of the split. The others are distinct clips
    of the same speaker or, if that speaker has too few, of any speaker. Words are cut at their ends (`word_span`),
    scaled to one level and separated by pauses drawn from `gap_ms`, with one pause before the first and one after the
    last word. Each word fades in and out over 40 ms, which overlaps its neighbor if the pause is shorter. Noise from
    the split's own recordings is added to the whole utterance. Splits share no clips, speakers or noise, as the
    source's splits do not.

    Training utterances are sampled anew for every batch from the batch's own seed; validation and test utterances are
    the same in every run.

    Args:
        source: Source of word clips: `SpeechCommands`, `SpokenWords`, `SpokenVocabulary` or your own `WordSource`.
        units: What is recognized: the source's `words`, or `characters` (with a space between words).
        words: Smallest and largest number of words per utterance.
        gap_ms: Shortest and longest pause between words.
        snr_db: Lowest and highest signal-to-noise ratio in validation and test, in decibels.
        count: Utterances per epoch; validation and test have a tenth of it.
        manifests: Test sets: those of the package by name (`speech-commands-1-7`, `speech-commands-8-12`), others by
            their file. Each is reported and the first gives the main result. If there are none, the test set is
            sampled by this protocol.
        batch: Utterances of an optimizer step, on all devices together.
        workers: Number of processes that compose utterances; 0 composes them in the process that trains.
        augment: Augmentation of training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
    """

    def __init__(
        self,
        source: WordSource,
        *,
        units: Literal["words", "characters"] = "words",
        words: tuple[int, int] = (1, 7),
        gap_ms: tuple[float, float] = (0.0, 400.0),
        snr_db: tuple[float, float] = (10.0, 30.0),
        count: int = 8000,
        manifests: Sequence[str] = (),
        batch: int = 64,
        workers: int = 0,
        augment: SequenceAugment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(units=units, batch=batch, augment=augment, seed=seed, workers=workers)
        self.workers = workers
        check_number("words", words, 1)
        check_number("gap_ms", gap_ms, 0)
        check_number("snr_db", snr_db)
        check_number("count", count, 10)
        self.source, self.words, self.gap_ms, self.snr_db = source, words, gap_ms, snr_db
        self.count, self.manifests = count, list(manifests)
        if len({Path(manifest).stem for manifest in manifests}) < len(self.manifests):
            raise InputError(f"manifests={self.manifests} are reported by name, but two have the same name")
        self.sample_rate_hz = source.sample_rate_hz
        self.labels = list(source.words if units == "words" else CHARACTERS)

    def prepare_data(self) -> None:
        """Check that the source and the manifests exist."""
        if hasattr(self.source, "prepare_data"):
            self.source.prepare_data()
        for manifest in self.manifests:
            read_manifest(manifest_file(manifest))

    def read(self, split: str) -> Dataset:
        if split == "test":
            return next(iter(self.test_sets().values()))
        sampler = self.sampler(split)
        return DrawnItems(self.count, partial(self.draw, sampler)) if split == "train" else self.fixed(split, sampler)

    def draw(self, sampler: UtteranceSampler, count: int, seed: int) -> SpeechBatch:
        """A training batch."""
        generator = numpy.random.default_rng(seed)
        return compose_batch([sampler.sample("", generator) for _ in range(count)], sampler, self)

    def prepare_test(self) -> None:
        """Check that the words, clips and noise of the test utterances exist. They are kept and not read again."""
        self.test_sets()

    def test_sets(self) -> dict[str, "FixedUtterances"]:
        """The test sets by the names of their manifests; without manifests one, called `drawn`."""
        return self.read_test_sets

    @cached_property
    def read_test_sets(self) -> dict[str, "FixedUtterances"]:
        sampler, sets = self.sampler("test"), {}
        for manifest in self.manifests:
            file = manifest_file(manifest)
            utterances = read_manifest(file)
            self.check_manifest(file, utterances, sampler)
            sets[Path(manifest).stem] = FixedUtterances(utterances, sampler, self)
        return sets or {"drawn": self.fixed("test", sampler)}

    def transcripts(self, split: str) -> list[list[str]]:
        """The words of each utterance of a split; for training, those of `count` utterances that have words."""
        if split != "train":
            return super().transcripts(split)
        generator, sampler = numpy.random.default_rng(self.seed), self.sampler(split)
        said = (sampler.sample("", generator).words for _ in range(self.count))
        return [words for words in said if words]

    def item_names(self) -> dict[str, list[str]]:
        """The names of the source's clips in each split, if it names them; for the test those in the manifests."""
        names = self.source.item_names() if hasattr(self.source, "item_names") else {}
        if names and self.manifests:
            utterances = [utterance for name in self.manifests for utterance in read_manifest(manifest_file(name))]
            names["test"] = sorted({clip for utterance in utterances for clip in utterance.clips})
        return names

    @property
    def item_root(self) -> Path | None:
        """The folder that the names of the source's clips are relative to."""
        return getattr(self.source, "item_root", None)

    def sampler(self, split: str) -> UtteranceSampler:
        """The sampler of a split's utterances; noise, long pauses and silence of `augment` are for training alone."""
        augment, common = self.augment, (self.source, split, self.words, self.gap_ms)
        if split != "train":
            return UtteranceSampler(*common, self.snr_db)
        pauses = augment.pause_prob, augment.pause_ms
        return UtteranceSampler(*common, augment.snr_db, augment.noise_prob, *pauses, augment.silence_prob)

    def fixed(self, split: str, sampler: UtteranceSampler) -> "FixedUtterances":
        """Sample the validation or test set, a tenth of `count`; the same utterances for every seed."""
        generator = numpy.random.default_rng(PROTOCOL_SEEDS[split])
        count = max(self.count // 10, 1)
        utterances = [sampler.sample(f"{split}-{number:04}", generator) for number in range(count)]
        return FixedUtterances(utterances, sampler, self)

    def write_manifest(self, file: str | Path) -> str:
        """Sample the test set by this protocol, write it with its line in SHA256SUMS, and return its SHA-256."""
        return write_manifest(self.fixed("test", self.sampler("test")).utterances, file)

    def check_manifest(self, file: Path, utterances: Sequence[Utterance], sampler: UtteranceSampler) -> None:
        """Check that a manifest's words, clips and noise exist in the source and belong together."""
        for number, utterance in enumerate(utterances, 1):
            foreign = [word for word in utterance.words if word not in self.source.words]
            problem = (
                f"the word {foreign[0]!r} is outside the vocabulary {list(self.source.words)}" if foreign else None
            )
            for word, clip, (_, last) in zip(utterance.words, utterance.clips, utterance.cuts, strict=True):
                if problem:
                    break
                if clip not in sampler.clips or last > len(sampler.clips[clip].samples):
                    problem = f"the clip {clip!r} is not in the test split, or shorter than its cut"
                elif sampler.clips[clip].word != word:
                    problem = f"the clip {clip!r} contains {sampler.clips[clip].word!r}, not {word!r}"
            if utterance.noise[0] not in sampler.noises:
                problem = f"the noise {utterance.noise[0]!r} does not exist"
            if problem:
                raise InputError(f"{file}: line {number}: {problem}")


class FixedUtterances(Dataset):
    """Validation or test utterances, which are the same in every run; indexed by (indices, seed)."""

    def __init__(self, utterances: Sequence[Utterance], sampler: UtteranceSampler, data: WordSequences) -> None:
        self.utterances, self.sampler, self.data = utterances, sampler, data

    @property
    def speakers(self) -> list[list[str]]:
        """For each utterance the speaker of each word."""
        return [[self.sampler.clips[clip].speaker for clip in utterance.clips] for utterance in self.utterances]

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SpeechBatch, int]:
        indices, seed = batch
        return compose_batch([self.utterances[index] for index in indices.tolist()], self.sampler, self.data), seed


def compose_batch(utterances: Sequence[Utterance], sampler: UtteranceSampler, data: WordSequences) -> SpeechBatch:
    """Compose a batch of utterances; waveforms are int16."""
    sounds = [torch.from_numpy(compose(utterance, sampler.clips, sampler.noises)) for utterance in utterances]
    units = [data.encode(utterance.words) for utterance in utterances]
    return collate(sounds, units, [utterance.spans for utterance in utterances])


def own_manifests(data: Dataset) -> list[Path]:
    """The files of the manifests that a data set is tested on, apart from those of the package."""
    files = map(manifest_file, getattr(data, "manifests", ()))
    return [file for file in files if file.parent != MANIFESTS]


def manifest_file(manifest: str) -> Path:
    """The file of a manifest: one of the package by its name, or else the path itself."""
    package_file = MANIFESTS / f"{manifest}.jsonl"
    return package_file if package_file.is_file() else Path(manifest)
