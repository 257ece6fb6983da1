"""Your own recordings with transcripts, listed in CSV files.

Shapes: N samples, A samples of background noise.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.audio.listing import read_rows
from vitspeech.data.audio.reading import (
    LONGEST_S,
    SAMPLE_RATE_HZ,
    SHORTEST_S,
    SILENT_PEAK,
    check_audio,
    read_clip,
)
from vitspeech.data.batches import Batches
from vitspeech.data.clips.folder import hold_out, known_speakers, split_sources
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.module import FILES, TEST
from vitspeech.data.splits import relative_name, speaker_in_name
from vitspeech.data.storage.broken import readable_files
from vitspeech.data.storage.rows import FileSounds, readable
from vitspeech.data.utterances.augment import SequenceAugment, add_noise
from vitspeech.data.utterances.batch import SpeechBatch, collate
from vitspeech.data.utterances.duration_batches import DurationBatches, padding_in_random_order
from vitspeech.data.utterances.module import CHARACTERS, UtteranceData, check_vocabulary
from vitspeech.errors import InputError, check_number

COLUMNS = ("path", "transcript")


@dataclass(frozen=True)
class Recording:
    """One row of a CSV file.

    Args:
        id: Path of the recording as in the CSV file.
        words: The transcript.
        file: The audio file.
        speaker: Who speaks, if a column `speaker` or the file name says so.
        location: The CSV file and line, for messages.
    """

    id: str
    words: list[str]
    file: Path
    speaker: str | None
    location: str


class TranscribedAudio(UtteranceData):
    """Recordings with transcripts, listed in ROOT/train.csv, ROOT/validation.csv (or `val.csv`) and ROOT/test.csv.

    Each CSV file is UTF-8, with a header that names the columns `path` (absolute or relative to ROOT) and `transcript`,
    and may name `speaker`. Recordings are WAV, FLAC, OGG or MP3 of any rate, mono or stereo, 0.1 to 60 s long.
    Transcripts are split into words at white space and used as they are, with capitals and punctuation.

    If a split has no CSV file, about a tenth of the training recordings is held out for it. A hash of the recording's
    path decides (`hashed_splits`), so that a recording keeps its split when others are added, and splits do not depend
    on the seed. If a column `speaker` or the file name (SPEAKER_nohash_NUMBER) says who speaks, the hash is of the
    speaker, so that these splits share no speakers. If all speakers of the test set are known, the interval of the
    word error rate resamples them.

    Pink noise is added to most training utterances (`noise_prob` and `snr_db` of `augment`). The times of the words are
    unknown, so frames cannot be labeled (`vitspeech.Labeling`).

    Args:
        root: The folder described above.
        units: What is recognized: `words`, or `characters` (with a space between words).
        vocabulary: All words, or all characters including the space, that transcripts may contain. `None` is the
            sorted words of train.csv, or the space, the apostrophe and the letters a to z.
        batch: Utterances of an optimizer step, on all devices together.
        batch_s: Instead of `batch`: seconds of sound of an optimizer step, with padding. Its utterances are of similar
            duration, so that there is less padding (`DurationBatches`).
        augment: Augmentation of training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: Arguments of `InMemoryData`: `storage`, `workers`, `broken`. With a pack, `root` is not read.

    Raises:
        FileNotFoundError: If `root`, its train.csv or a listed recording is missing.
        InputError: If a CSV file is malformed, a recording is listed twice, a word or a character is outside the
            vocabulary, there are too few training recordings to hold some out, or a recording is too short, too long
            or cannot be read.
    """

    evaluation_batch = 16  # recordings may be a minute long

    reads_files = True

    def __init__(
        self,
        root: str,
        *,
        units: Literal["words", "characters"] = "words",
        vocabulary: Sequence[str] | None = None,
        batch: int = 32,
        batch_s: float | None = None,
        augment: SequenceAugment | None = None,
        seed: int = 0,
        **storage: Any,
    ) -> None:
        super().__init__(units=units, batch=batch, augment=augment, seed=seed, **storage)
        if vocabulary is not None:
            check_vocabulary(vocabulary, units)
        if batch_s is not None:
            check_number("batch_s", batch_s, SHORTEST_S, 1e6)
        self.root, self.vocabulary, self.batch_s = Path(root), vocabulary, batch_s
        self.item_root = self.root
        if self.pack is not None:
            self.labels = self.pack.labels
            return
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        if not (self.root / "train.csv").is_file():
            raise FileNotFoundError(f"{self.root / 'train.csv'}: no such file; it lists recordings with transcripts")
        self.sources = split_sources(self.root)

    @cached_property
    def labels(self) -> list[str]:
        """The vocabulary; reads train.csv at most, no audio.

        Not read in the constructor: jsonargparse would wrap a ValueError raised there in a message about the config.
        """
        if self.vocabulary is not None:
            return list(self.vocabulary)
        if self.units == "characters":
            return list(CHARACTERS)
        return sorted({word for recording in list_recordings(self.sources["train"]) for word in recording.words})

    @cached_property
    def noise(self) -> Tensor:
        """A minute of pink noise, int16 (A,), generated when training first needs it."""
        return pink_noise(round(LONGEST_S * SAMPLE_RATE_HZ / 10))

    def read(self, split: str) -> "RecordedUtterances":
        self.prepare()
        recordings = self.splits[split]
        seconds: list[float] = []
        if self.checks_files and (self.storage == FILES or self.broken):
            check = check_audio if self.storage == FILES else read_clip
            places, seconds = readable_files([item.file for item in recordings], check, split, self.broken)
            recordings = self.splits[split] = [recordings[place] for place in places]
        units = [self.encode(recording.words) for recording in recordings]
        if self.storage == FILES:
            sounds = FileSounds([item.file for item in recordings], read_clip)
            return RecordedUtterances(recordings, sounds, units, torch.tensor(seconds), replace=split != TEST)
        return RecordedUtterances(recordings, read_recordings(recordings, split), units)

    def transcripts(self, split: str) -> list[list[str]]:
        if self.pack is not None:
            return super().transcripts(split)
        self.prepare()
        return [recording.words for recording in self.splits[split]]

    def prepare(self) -> None:
        """List and check the recordings of all splits before reading any; hold out some for a split without a CSV."""
        if hasattr(self, "splits"):
            return
        splits, first_locations = {}, {}
        for split, source in self.sources.items():
            splits[split] = list(list_recordings(source))
            for recording in splits[split]:
                self.check_recording(recording)
                file = recording.file.resolve()
                if file in first_locations:
                    raise InputError(
                        f"{recording.location}: {recording.file} is listed twice, first in {first_locations[file]}"
                    )
                first_locations[file] = recording.location
        self.splits = hold_out(splits, self.root)

    def item_names(self) -> dict[str, list[str]]:
        if self.pack is not None:
            return self.pack.item_names()
        self.prepare()
        return {
            split: [relative_name(recording.file, self.root) for recording in recordings]
            for split, recordings in self.splits.items()
        }

    def check_recording(self, recording: Recording) -> None:
        """Check a row of a CSV file.

        Raises:
            InputError: If its transcript has a unit outside the vocabulary.
            FileNotFoundError: If the recording is missing.
        """
        try:
            self.encode(recording.words)
        except ValueError as error:
            raise InputError(f"{recording.location}: {error}") from None
        if not recording.file.is_file():
            raise FileNotFoundError(f"{recording.location}: {recording.file} does not exist")

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
        random = padding_in_random_order(self.train.seconds, max(len(self.train) // len(batches), 1))
        return (
            f"{len(batches):,} batches of up to {self.batch_s:g} s, {batches.padding():.1%} of it padding (in random "
            f"order: {random:.1%})"
        )

    def augment_batch(self, speech: SpeechBatch) -> SpeechBatch:
        speech = super().augment_batch(speech)
        noise, augment = self.noise.to(speech.waveforms.device), self.augment
        noisy = add_noise(speech.waveforms, speech.lengths, noise, augment.snr_db, augment.noise_prob)
        return speech._replace(waveforms=noisy)


class RecordedUtterances(Dataset):
    """Recorded utterances of variable length, int16, in memory or in files; indexed by (indices, seed)."""

    def __init__(
        self,
        utterances: Sequence[Recording],
        sounds: Sequence[Tensor],
        units: Sequence[list[int]],
        seconds: Tensor | None = None,
        *,
        replace: bool = True,
    ) -> None:
        self.replace = replace
        self.utterances, self.sounds, self.units = utterances, sounds, units
        self.seconds = torch.tensor([len(sound) / SAMPLE_RATE_HZ for sound in sounds]) if seconds is None else seconds

    @property
    def speakers(self) -> list[list[str]] | None:
        """For each utterance the speaker of each word; `None` if unknown."""
        names = known_speakers(self.utterances)
        return names and [[name] * len(item.words) for name, item in zip(names, self.utterances, strict=True)]

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SpeechBatch, int]:
        indices, seed = batch
        sounds, read = readable(indices.tolist(), self.sounds.__getitem__, replace=self.replace)
        return collate(sounds, [self.units[index] for index in read]), seed


def read_recordings(recordings: Sequence[Recording], split: str) -> list[Tensor]:
    """Read the samples of each recording, int16 (N,); warn once about silent ones.

    Raises:
        InputError: If a recording is too short, too long or cannot be read; the message names its line.
    """
    sounds, silent = [], []
    for recording in tqdm(recordings, f"reading {split}", disable=len(recordings) < 500 or None, leave=False):
        try:
            sounds.append(read_clip(recording.file))
        except ValueError as error:
            raise InputError(f"{recording.location}: {error}") from None
        if max(-int(sounds[-1].min()), int(sounds[-1].max())) <= SILENT_PEAK:
            silent.append(f"{recording.location}: {recording.file}")
    if silent:
        count = f"{len(silent):,} of {len(recordings):,} recordings"
        warnings.warn(f"{count} are silent (nothing above -66 dBFS), first {silent[0]}", stacklevel=2)
    return sounds


def list_recordings(listing: Path) -> Iterator[Recording]:
    """Yield the rows of a CSV file."""
    for location, (path, transcript, speaker) in read_rows(listing, COLUMNS, ("speaker",)):
        yield Recording(path, transcript.split(), listing.parent / path, speaker or speaker_in_name(path), location)
