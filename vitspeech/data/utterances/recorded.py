"""Recorded utterances with transcripts, in memory or in files: the base class of `TranscribedAudio` and `LibriSpeech`.

Shapes: N samples, A samples of background noise.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import LONGEST_S, SAMPLE_RATE_HZ, SHORTEST_S, Notes, check_audio, read_clip
from vitspeech.data.batches import Batches, DurationBatches, SpeechBatch, collate
from vitspeech.data.clips.noise import mixed_noise, pink_noise
from vitspeech.data.labeled_files import check_files, known_speakers
from vitspeech.data.module import FILES, MEMORY, TEST
from vitspeech.data.rows import readable, readable_files
from vitspeech.data.utterances.augment import SequenceAugment, add_noise, joined
from vitspeech.data.utterances.module import CHARACTERS, UtteranceData
from vitspeech.data.utterances.subwords import FEWEST, MOST, Subwords
from vitspeech.decoding.vocabulary import PIECES, check_vocabulary
from vitspeech.errors import InputError, check_number

TRAINING = "training"


@dataclass(frozen=True)
class Recording:
    """A recording with its transcript; the location is the file and line that it is from, for messages.

    The id is the path as in the CSV file, or the corpus's own name.
    """

    id: str
    words: list[str]
    file: Path
    speaker: str | None
    location: str


class RecordedUtterances(Dataset):
    """Recorded utterances of variable length, indexed by (indices, seed).

    `sounds` are the samples of each, int16 (N,); if it is `None`, a file is read when it is needed. `seconds` are the
    durations, if they are not to be taken from the sounds. `replace` says whether another utterance stands for one that
    cannot be read.
    """

    def __init__(
        self,
        utterances: Sequence[Recording],
        units: Sequence[list[int]],
        sounds: Sequence[Tensor] | None,
        seconds: Sequence[float] = (),
        *,
        replace: bool = True,
    ) -> None:
        self.utterances, self.units, self.sounds, self.replace = utterances, units, sounds, replace
        if sounds is not None and not len(seconds):
            seconds = [len(sound) / SAMPLE_RATE_HZ for sound in sounds]
        self.seconds = torch.as_tensor(seconds, dtype=torch.float64)

    @property
    def speakers(self) -> list[list[str]] | None:
        """For each utterance the speaker of each word; `None` if unknown."""
        names = known_speakers(self.utterances)
        return names and [[name] * len(item.words) for name, item in zip(names, self.utterances, strict=True)]

    def sound(self, index: int) -> Tensor:
        """The samples of an utterance, int16 (N,)."""
        return read_clip(self.utterances[index].file) if self.sounds is None else self.sounds[index]

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SpeechBatch, int]:
        indices, seed = batch
        sounds, read = readable(indices.tolist(), self.sound, len(self), replace=self.replace)
        return collate(sounds, [self.units[index] for index in read]), seed


def read_recordings(recordings: Sequence[Recording], split: str, broken: float = 0.0) -> tuple[list[int], list[Tensor]]:
    """Read recordings, of which a share may be broken: the places of the others, and their samples, int16 (N,) each."""
    notes = Notes()

    def read(recording: Recording) -> Tensor:
        try:
            return read_clip(recording.file, notes=notes)
        except ValueError as error:
            raise InputError(f"{recording.location}: {error}") from None

    places, sounds = readable_files(recordings, read, split, broken, verb="reading")
    notes.warn()
    return places, sounds


class RecordedData(UtteranceData):
    """The base class of data sets of recordings with transcripts.

    A subclass sets `root` and `item_root`, and implements `listed` and `training_transcripts`.

    Args:
        units: What is recognized: `words`, `characters` (with a space between words), or `pieces` of words (byte-pair
            units), which can write any word of the characters in training transcripts.
        vocabulary: All words, or all characters including the space, that transcripts may contain; `training` is those
            of the training transcripts. `None` is the words of training, or the space, the apostrophe and the letters
            a to z. Characters of held-out transcripts that training does not have are reported, and count as errors in
            the test.
        vocab_size: Number of pieces, learned from the training transcripts.
        batch: Utterances of an optimizer step, on all devices together.
        batch_s: Instead of `batch`: seconds of sound of an optimizer step, with padding. Its utterances are of similar
            duration, so that there is less padding (`DurationBatches`).
        augment: Augmentation of training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: Arguments of `DataModule`: `storage`, `workers`, `broken`.

    Attributes:
        root: The folder that the names of recordings are relative to.
    """

    evaluation_batch = 16  # recordings may be a minute long
    storages = (MEMORY, FILES)
    root: Path

    def __init__(
        self,
        *,
        units: Literal["words", "characters", "pieces"] = "characters",
        vocabulary: Sequence[str] | Literal["training"] | None = None,
        vocab_size: int = 500,
        batch: int = 32,
        batch_s: float | None = None,
        augment: SequenceAugment | None = None,
        seed: int = 0,
        **storage: Any,
    ) -> None:
        super().__init__(units=units, batch=batch, augment=augment, seed=seed, **storage)
        if batch_s is not None:
            check_number("batch_s", batch_s, SHORTEST_S, 1e6)
        check_number("vocab_size", vocab_size, FEWEST, MOST)
        if vocabulary is not None:
            if units == PIECES:
                raise InputError("vocabulary: pieces are learned from the training transcripts; set vocab_size")
            if vocabulary != TRAINING:
                check_vocabulary(vocabulary, units)
        self.batch_s, self.vocabulary, self.vocab_size = batch_s, vocabulary, vocab_size

    @cached_property
    def labels(self) -> list[str]:
        """The units; reads the transcripts of training at most, no audio.

        Not read in the constructor: jsonargparse would wrap a ValueError raised there in a message about the config.
        """
        if self.vocabulary is not None and self.vocabulary != TRAINING:
            return list(self.vocabulary)
        if self.units == PIECES:
            return self.subwords.labels
        if self.units == "characters" and self.vocabulary is None:
            return list(CHARACTERS)
        words = {word for words in self.training_transcripts() for word in words}
        return sorted(words) if self.units == "words" else sorted({" ", *"".join(words)})

    @cached_property
    def subwords(self) -> Subwords | None:
        """Splits words into pieces, learned from the transcripts of training."""
        if self.units != PIECES:
            return None
        return Subwords.learn(map(" ".join, self.training_transcripts()), self.vocab_size)

    @property
    def learns_labels(self) -> bool:
        """Whether the labels are those of the training transcripts."""
        return self.units == PIECES or self.vocabulary == TRAINING or (self.vocabulary, self.units) == (None, "words")

    def training_transcripts(self) -> Iterator[list[str]]:
        """The words of each utterance of training; reads lists, no sound."""
        raise NotImplementedError

    @property
    def listed(self) -> dict[str, list[Recording]]:
        """The recordings of `train`, `validation` and `test`; reads lists, no sound."""
        raise NotImplementedError

    @cached_property
    def noise(self) -> Tensor:
        """A minute of pink noise, or ten of many kinds, int16 (A,), generated when training first needs it."""
        samples = round(LONGEST_S * SAMPLE_RATE_HZ)
        return mixed_noise(10 * samples, SAMPLE_RATE_HZ) if self.augment.synthetic else pink_noise(samples // 10)

    def read(self, split: str) -> RecordedUtterances:
        recordings, sounds, seconds = self.splits[split], None, ()
        places = list(range(len(recordings)))
        if self.storage != FILES:
            places, sounds = read_recordings(recordings, split, self.broken)
        elif self.checks_files:
            places, seconds = readable_files([item.file for item in recordings], check_audio, split, self.broken)
        recordings = self.splits[split] = [recordings[place] for place in places]
        units = [self.encode_known(recording.words) for recording in recordings]
        return RecordedUtterances(recordings, units, sounds, seconds, replace=split != TEST)

    def encode_known(self, words: Sequence[str]) -> list[int]:
        """As `encode`, without the characters that training does not have, if the characters are those of training."""
        if not self.foreign(words):
            return self.encode(words)
        known = ("".join(letter for letter in word if letter in self.characters) for word in words)
        return self.encode(list(filter(None, known)) or words)

    def foreign(self, words: Sequence[str]) -> set[str]:
        """The characters of a transcript that training does not have, if the characters are those of training."""
        return set("".join(words)) - self.characters if self.learns_labels and self.units != "words" else set()

    @cached_property
    def characters(self) -> set[str]:
        """All characters of the labels."""
        return set("".join(self.labels))

    def transcripts(self, split: str) -> list[list[str]]:
        return [recording.words for recording in self.splits[split]]

    def list_splits(self) -> dict[str, list[Recording]]:
        """The recordings of each split, which are checked."""
        splits = self.listed
        check_files(splits)
        self.check_transcripts(splits)
        return splits

    def check_transcripts(self, splits: Mapping[str, Sequence[Any]]) -> None:
        """Refuse transcripts of training that cannot be written with the labels, and warn of those of other splits."""
        foreign, _ = set(), self.labels  # learned first: its errors are of no single line
        for recording in (recording for recordings in splits.values() for recording in recordings):
            try:
                self.encode_known(recording.words)
            except InputError as error:
                hint = "; vocabulary: training takes all characters of training"
                ask = self.units == "characters" and self.vocabulary is None
                raise InputError(f"{recording.location}: {error}{hint * ask}") from None
            foreign |= self.foreign(recording.words)
        if foreign:
            names = ", ".join(map(repr, sorted(foreign)))
            warnings.warn(f"held-out transcripts have characters that training does not have: {names}", stacklevel=3)

    def training_batches(self, ranks: int | None = None) -> Batches:
        if self.batch_s is None:
            return super().training_batches(ranks)
        options = {"seed": self.seed, "accumulate": self.accumulate, "ranks": ranks}
        return DurationBatches(self.train.seconds, self.batch_s, **options)

    def describe_batches(self) -> str:
        """How much of the training batches is padding, in one line; empty if their durations are not looked at."""
        if self.batch_s is None:
            return ""
        batches = self.training_batches()
        count = len(batches) // self.accumulate  # of optimizer steps
        return f"{count:,} batches of up to {self.batch_s:g} s, {batches.padding():.1%} of it padding"

    def augment_batch(self, speech: SpeechBatch) -> SpeechBatch:
        speech = super().augment_batch(speech)
        noise, augment = self.noise.to(speech.waveforms.device), self.augment
        if augment.join_prob and torch.rand(()) < augment.join_prob:
            between = [self.label_indices[" "]] if self.units == "characters" else []
            speech = joined(speech, between)
        noisy = add_noise(speech.waveforms, speech.lengths, noise, augment.snr_db, augment.noise_prob)
        return speech._replace(waveforms=noisy)
