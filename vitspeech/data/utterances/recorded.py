"""Batches of utterances of similar duration, each with at most a number of seconds.

Shapes: U utterances.

Recorded utterances with transcripts: the base class of `TranscribedAudio` and `LibriSpeech`.

Shapes: N samples, A samples of background noise.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from vitspeech.data.audio.reading import LONGEST_S, SAMPLE_RATE_HZ, SHORTEST_S, check_audio, read_clip
from vitspeech.data.batches import Batches, derived_seed
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.module import FILES, TEST
from vitspeech.data.splits import relative_name
from vitspeech.data.storage.broken import decodes, readable_files
from vitspeech.data.storage.rows import FileSounds
from vitspeech.data.utterances.augment import SequenceAugment, add_noise, joined
from vitspeech.data.utterances.batch import SpeechBatch
from vitspeech.data.utterances.module import CHARACTERS, PIECES, UtteranceData, check_vocabulary
from vitspeech.data.utterances.recordings import RecordedUtterances, Recording, read_recordings
from vitspeech.data.utterances.subwords import FEWEST, MOST, Pieces
from vitspeech.errors import InputError, check_number

MOST_BUCKETS, BATCHES_PER_BUCKET = 50, 4  # with fewer batches in a bucket, the same utterances would often meet


class DurationBatches(Batches):
    """Batches that are padded little: the utterances of one are from the same bucket of durations.

    The utterances are sorted by duration and cut into buckets of equal size. Each epoch shuffles each bucket, divides
    it into batches of at most `seconds` with padding, and shuffles the batches. Every utterance is in one batch of an
    epoch, and the number of batches is the same in each. As in `Batches`, a batch is a function of seed, epoch and
    number, and the utterances of an optimizer step do not depend on the number of processes.

    Args:
        durations_s: Duration of each utterance in seconds (U,).
        seconds: Maximum duration of an optimizer step in seconds, with padding, in all processes together.
        seed: The run's seed.
        accumulate: Batches of a process whose gradients are added up in an optimizer step.
        ranks: Number of processes; `None` is those of this run.
    """

    def __init__(
        self, durations_s: Tensor, seconds: float, *, seed: int = 0, accumulate: int = 1, ranks: int | None = None
    ) -> None:
        super().__init__(len(durations_s), 1, seed=seed, shuffle=False, ranks=ranks)
        self.durations_s, self.seconds, self.accumulate = durations_s.double(), seconds, accumulate
        self.shuffle, parts, longest = True, self.ranks * accumulate, float(durations_s.max())
        if fitting(seconds, longest) < parts:
            share = f" for each of {parts} parts of an optimizer step" if parts > 1 else ""
            raise InputError(
                f"batch_s={seconds:g} does not hold the longest utterance, {longest:.1f} s,{share or ' at all'}: take "
                f"at least {math.ceil(parts * longest)}"
            )
        order = self.durations_s.argsort(stable=True)
        mean_batch = max(seconds / float(self.durations_s.mean()), 1.0)
        buckets = min(MOST_BUCKETS, max(1, int(len(order) / mean_batch / BATCHES_PER_BUCKET)))
        self.buckets = order.tensor_split(buckets)
        self.sizes = [fitting(seconds, float(self.durations_s[bucket[-1]])) for bucket in self.buckets]
        self.counts = [-(-len(bucket) // size) for bucket, size in zip(self.buckets, self.sizes, strict=True)]
        smallest = min(len(bucket) // count for bucket, count in zip(self.buckets, self.counts, strict=True))
        if smallest < parts:
            raise InputError(f"batch_s={seconds:g}: some batches have {smallest} utterances, fewer than {parts} parts")

    def __len__(self) -> int:
        """The number of batches of a whole epoch in this process."""
        return sum(self.counts) * self.accumulate

    def steps(self, epoch: int) -> list[Tensor]:
        """The utterances of each optimizer step of an epoch."""
        generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch))
        steps = []
        for bucket, count in zip(self.buckets, self.counts, strict=True):
            steps += bucket[torch.randperm(len(bucket), generator=generator)].tensor_split(count)
        return [steps[place] for place in torch.randperm(len(steps), generator=generator).tolist()]

    def training_batches(self) -> Iterator[tuple[Tensor, int]]:
        epoch, (begin_epoch, begin) = self.epoch, self.begin
        steps, parts = self.steps(epoch), self.ranks * self.accumulate
        for number in range(begin if epoch == begin_epoch else 0, len(self)):
            step, micro_batch = divmod(number, self.accumulate)
            part = micro_batch * self.ranks + self.rank
            # Of utterances sorted by duration each part takes every so-manieth: their durations are alike.
            utterances = steps[step][self.durations_s[steps[step]].argsort(stable=True)]
            yield utterances[part::parts], derived_seed(self.seed, epoch, part, step)

    def padding(self) -> float:
        """The share of padding in the batches of the first epoch, before a process divides them."""
        spent = sum(float(self.durations_s[step].max()) * len(step) for step in self.steps(0))
        return 1 - float(self.durations_s.sum()) / spent


def fitting(seconds: float, duration_s: float) -> int:
    """How many utterances of a duration fit into so many seconds: three of 1.1 s into 3.3 s, whatever rounding says."""
    return int(seconds / duration_s + 1e-9)


def padding_in_random_order(durations_s: Tensor, batch: int) -> float:
    """The share of padding in batches of so many utterances in random order (U,), for comparison."""
    order = torch.randperm(len(durations_s), generator=torch.Generator().manual_seed(0))
    rows = [durations_s[part].double() for part in order.split(batch)]
    return 1 - sum(float(row.sum()) for row in rows) / sum(float(row.max()) * len(row) for row in rows)


TRAINING = "training"


class RecordedData(UtteranceData):
    """The base class of data sets of recordings with transcripts.

    A subclass sets `root` and implements `list_splits` and `training_transcripts`.

    Pink noise is added to most training utterances (`noise_prob` and `snr_db` of `augment`). The times of the words are
    unknown, so frames cannot be labeled (`vitspeech.Labeling`).

    Args:
        units: What is recognized: `words`, `characters` or `pieces`.
        vocabulary: All words or characters; `training` is those of the training transcripts. `None` is the words of
            training, or the space, the apostrophe and the letters a to z. Characters of held-out transcripts that
            training does not have are reported, and count as errors in the test.
        vocab_size: Number of pieces.
        batch: Utterances of an optimizer step, on all devices together.
        batch_s: Instead of `batch`: seconds of sound of an optimizer step, with padding. Its utterances are of similar
            duration, so that there is less padding (`DurationBatches`).
        augment: Augmentation of training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: Arguments of `DataModule`: `storage`, `workers`, `broken`. With a pack, no recording is read.

    Attributes:
        root: The folder that the names of recordings are relative to.
        splits: The recordings of each split, once they are listed.
    """

    evaluation_batch = 16  # recordings may be a minute long
    reads_files = True
    root: Path

    def __init__(
        self,
        *,
        units: str,
        vocabulary: Sequence[str] | Literal["training"] | None = None,
        vocab_size: int = 500,
        batch: int,
        batch_s: float | None,
        augment: SequenceAugment | None,
        seed: int,
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
        if self.pack is not None:
            return self.pack.labels
        if self.vocabulary is not None and self.vocabulary != TRAINING:
            return list(self.vocabulary)
        if self.units == PIECES:
            return self.pieces.labels
        if self.units == "characters" and self.vocabulary is None:
            return list(CHARACTERS)
        words = {word for words in self.training_transcripts() for word in words}
        return sorted(words) if self.units == "words" else sorted({" ", *"".join(words)})

    @cached_property
    def pieces(self) -> Pieces | None:
        """Splits words into pieces; those of the pack, or learned from the transcripts of training."""
        if self.units != PIECES:
            return None
        if self.pack is not None:
            return Pieces(self.pack.labels, self.pack.preprocessing.get("merges", ()))
        return Pieces.learn(map(" ".join, self.training_transcripts()), self.vocab_size)

    @property
    def learns_labels(self) -> bool:
        """Whether the labels are those of the training transcripts."""
        return self.units == PIECES or self.vocabulary == TRAINING or (self.vocabulary, self.units) == (None, "words")

    def check_split(self, split: str) -> None:
        """Check that the recordings of a split are there."""

    def training_transcripts(self) -> Iterator[list[str]]:
        """The words of each utterance of training; reads lists, no sound."""
        raise NotImplementedError(f"{type(self).__name__} does not implement training_transcripts")

    def list_splits(self) -> dict[str, list[Recording]]:
        """The recordings of `train`, `validation` and `test`; reads lists, no sound."""
        raise NotImplementedError(f"{type(self).__name__} does not implement list_splits")

    @cached_property
    def noise(self) -> Tensor:
        """A minute of pink noise, int16 (A,), generated when training first needs it."""
        return pink_noise(round(LONGEST_S * SAMPLE_RATE_HZ / 10))

    def read(self, split: str) -> RecordedUtterances:
        self.prepare()
        self.check_split(split)
        recordings = self.splits[split]
        seconds: list[float] = []
        if self.checks_files and (self.storage == FILES or self.broken):
            check = check_audio if self.storage == FILES else decodes(read_clip)
            places, seconds = readable_files([item.file for item in recordings], check, split, self.broken)
            recordings = self.splits[split] = [recordings[place] for place in places]
        units = [self.encode_known(recording.words) for recording in recordings]
        if self.storage == FILES:
            sounds = FileSounds([item.file for item in recordings], read_clip)
            durations_s = torch.tensor(seconds, dtype=torch.float64)
            return RecordedUtterances(recordings, sounds, units, durations_s, replace=split != TEST)
        return RecordedUtterances(recordings, read_recordings(recordings, split), units)

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
        if self.pack is not None:
            return super().transcripts(split)
        self.prepare()
        return [recording.words for recording in self.splits[split]]

    def prepare(self) -> None:
        """List and check the recordings of all splits before reading any."""
        if hasattr(self, "splits"):
            return
        splits, first_locations, foreign = self.list_splits(), {}, set()
        for recording in (recording for recordings in splits.values() for recording in recordings):
            self.check_recording(recording)
            file = recording.file.resolve()
            if file in first_locations:
                raise InputError(
                    f"{recording.location}: {recording.file} is listed twice, first in {first_locations[file]}"
                )
            first_locations[file] = recording.location
            foreign |= self.foreign(recording.words)
        if foreign:
            names = ", ".join(map(repr, sorted(foreign)))
            warnings.warn(f"held-out transcripts have characters that training does not have: {names}", stacklevel=2)
        self.splits = splits

    def item_names(self) -> dict[str, list[str]]:
        if self.pack is not None:
            return self.pack.item_names()
        self.prepare()
        return {
            split: [relative_name(recording.file, self.root) for recording in recordings]
            for split, recordings in self.splits.items()
        }

    def check_recording(self, recording: Recording) -> None:
        """Check a recording."""
        try:
            self.encode_known(recording.words)
        except ValueError as error:
            hint = "; vocabulary: training takes all characters of training"
            ask = self.units == "characters" and self.vocabulary is None
            raise InputError(f"{recording.location}: {error}{hint * ask}") from None
        if not recording.file.is_file():
            raise FileNotFoundError(f"{recording.location}: {recording.file} does not exist")

    def training_batches(self, ranks: int | None = None) -> Batches:
        if self.batch_s is None:
            return super().training_batches(ranks)
        options = {"seed": self.seed, "accumulate": self.accumulate, "ranks": ranks}
        try:
            return DurationBatches(self.train.seconds, self.batch_s, **options)
        except InputError as error:
            longest = self.train.utterances[int(self.train.seconds.argmax())].id
            raise InputError(f"{error}; the longest is {longest}") from None

    def describe_batches(self) -> str:
        """How much of the training batches is padding, in one line; empty if their durations are not looked at."""
        if self.batch_s is None:
            return ""
        batches = self.training_batches()
        count = len(batches) // self.accumulate  # of optimizer steps
        random = padding_in_random_order(self.train.seconds, max(len(self.train) // count, 1))
        return (
            f"{count:,} batches of up to {self.batch_s:g} s, {batches.padding():.1%} of it padding (in random "
            f"order: {random:.1%})"
        )

    def augment_batch(self, speech: SpeechBatch) -> SpeechBatch:
        speech = super().augment_batch(speech)
        noise, augment = self.noise.to(speech.waveforms.device), self.augment
        if augment.join_prob and torch.rand(()) < augment.join_prob:
            between = [self.label_indices[" "]] if self.units == "characters" else []
            speech = joined(speech, between)
        noisy = add_noise(speech.waveforms, speech.lengths, noise, augment.snr_db, augment.noise_prob)
        return speech._replace(waveforms=noisy)
