"""Your own recordings with transcripts, listed in CSV files.

Shapes: N samples, A samples of background noise.
"""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.audio.listing import read_rows
from vitspeech.data.audio.reading import LONGEST_S, SAMPLE_RATE_HZ, SILENT_PEAK, check_clip, read_clip
from vitspeech.data.clips.folder import hold_out, known_speakers, split_sources
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.splits import relative_name, speaker_in_name
from vitspeech.data.storage.broken import Broken, leave_out
from vitspeech.data.storage.packed import packed_names
from vitspeech.data.storage.rows import FileRows, Rows
from vitspeech.data.utterances.augment import SequenceAugment, add_noise
from vitspeech.data.utterances.batch import SpeechBatch, collate
from vitspeech.data.utterances.module import CHARACTERS, UtteranceData, check_vocabulary
from vitspeech.data.utterances.packed import packed_utterances
from vitspeech.data.utterances.recording import Recording
from vitspeech.errors import InputError

COLUMNS = ("path", "transcript")


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
        root: The folder described above, or a pack of it.
        units: What is recognized: `words`, or `characters` (with a space between words).
        vocabulary: All words, or all characters including the space, that transcripts may contain. `None` is the
            sorted words of train.csv, or the space, the apostrophe and the letters a to z.
        batch: Utterances per training batch, on each device.
        augment: Augmentation of training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        reading: `storage` (`memory`, `files` or the folder of a pack), `workers` and `broken`, see `InMemoryData`.

    Raises:
        FileNotFoundError: If `root`, its train.csv or a listed recording is missing.
        InputError: If a CSV file is malformed, a recording is listed twice, a word or a character is outside the
            vocabulary, there are too few training recordings to hold some out, or a recording is too short, too long
            or cannot be read.
    """

    evaluation_batch = 16  # recordings may be a minute long
    storages = ("memory", "files", "pack")

    def __init__(
        self,
        root: str,
        *,
        units: Literal["words", "characters"] = "words",
        vocabulary: Sequence[str] | None = None,
        batch: int = 32,
        augment: SequenceAugment | None = None,
        seed: int = 0,
        **reading: Any,
    ) -> None:
        super().__init__(units=units, batch=batch, augment=augment, seed=seed, **reading)
        if vocabulary is not None:
            check_vocabulary(vocabulary, units)
        self.root, self.vocabulary = Path(root), vocabulary
        self.pack = self.find_pack(root)
        if self.pack is not None:
            return
        self.item_root = self.root
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        if not (self.root / "train.csv").is_file():
            raise FileNotFoundError(f"{self.root / 'train.csv'}: no such file; it lists recordings with transcripts")
        self.sources = split_sources(self.root)

    @property
    def packed_as(self) -> dict[str, Any]:
        return {"units": self.units, "vocabulary": self.vocabulary}

    @cached_property
    def labels(self) -> list[str]:
        """The vocabulary; reads train.csv at most, no audio.

        Not read in the constructor: jsonargparse would wrap a ValueError raised there in a message about the config.
        """
        if self.pack is not None:
            return self.pack.labels
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
        if self.pack is not None:
            return RecordedUtterances(*packed_utterances(self.pack, split, self.units))
        self.prepare()
        recordings, broken = self.splits[split], Broken(self.broken, len(self.splits[split]), split)
        if self.storage == "files":
            leave_out(broken, recordings, broken.check(check_recording, read_recording))
        else:
            sounds = read_recordings(recordings, broken)
        if kept := broken.places and broken.kept():
            recordings = self.splits[split] = [recordings[place] for place in kept]
        if self.storage == "files":
            sounds = FileRows(recordings, read_recording, broken=broken, size=packed_size)
        return RecordedUtterances(recordings, sounds, [self.encode(recording.words) for recording in recordings])

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
            return packed_names(self.pack)
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

    def augment_batch(self, speech: SpeechBatch) -> SpeechBatch:
        speech = super().augment_batch(speech)
        noise, augment = self.noise.to(speech.waveforms.device), self.augment
        noisy = add_noise(speech.waveforms, speech.lengths, noise, augment.snr_db, augment.noise_prob)
        return speech._replace(waveforms=noisy)


class RecordedUtterances(Dataset):
    """Recorded utterances of variable length, int16; indexed by (indices, seed).

    Args:
        utterances: The recordings.
        sounds: The samples of each, in a list or as `Rows`, which are read when a batch needs them.
        units: The transcript of each as indices of labels.
    """

    def __init__(
        self, utterances: Sequence[Recording], sounds: Sequence[Tensor] | Rows, units: Sequence[list[int]]
    ) -> None:
        self.utterances, self.sounds, self.units = utterances, sounds, units

    @property
    def in_memory(self) -> bool:
        """Whether the samples are."""
        return not isinstance(self.sounds, Rows)

    @property
    def speakers(self) -> list[list[str]] | None:
        """For each utterance the speaker of each word; `None` if unknown."""
        names = known_speakers(self.utterances)
        return names and [[name] * len(item.words) for name, item in zip(names, self.utterances, strict=True)]

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SpeechBatch, int]:
        indices, seed = batch
        if isinstance(self.sounds, Rows):
            sounds, indices = self.sounds.read(indices)  # others than those asked for where a file broke
        else:
            sounds = [self.sounds[index] for index in indices.tolist()]
        return collate(sounds, [self.units[index] for index in indices.tolist()]), seed


def read_recording(recording: Recording) -> Tensor:
    """Read the samples of a recording: int16 (N,).

    Raises:
        InputError: If it is too short, too long or cannot be read; the message names its line.
    """
    try:
        return read_clip(recording.file)
    except ValueError as error:
        raise InputError(f"{recording.location}: {error}") from None


def check_recording(recording: Recording) -> float:
    """Check what the header of a recording says, and return its duration in seconds.

    Raises:
        InputError: As `read_recording` does.
    """
    try:
        return check_clip(recording.file)
    except ValueError as error:
        raise InputError(f"{recording.location}: {error}") from None


def packed_size(recording: Recording) -> int:
    """About how many bytes a recording has in a pack."""
    return round(check_recording(recording) * SAMPLE_RATE_HZ) * 2


def read_recordings(recordings: Sequence[Recording], broken: Broken) -> list[Tensor]:
    """Read the samples of each recording, int16 (N,), but of broken ones; warn once about silent ones.

    Raises:
        InputError: If more recordings than allowed are too short, too long or cannot be read.
    """
    progress = tqdm(recordings, f"reading {broken.split}", disable=len(recordings) < 500 or None, leave=False)
    sounds = list(broken.each(progress, read_recording))
    broken.warn()
    silent = [
        recordings[place]
        for place, sound in zip(broken.kept(), sounds, strict=True)
        if max(-int(sound.min()), int(sound.max())) <= SILENT_PEAK
    ]
    if silent:
        count, first = f"{len(silent):,} of {len(recordings):,} recordings", silent[0]
        first_named = f"{first.location}: {first.file}"
        warnings.warn(f"{count} are silent (nothing above -66 dBFS), first {first_named}", stacklevel=2)
    return sounds


def list_recordings(listing: Path) -> Iterator[Recording]:
    """Yield the rows of a CSV file."""
    for location, (path, transcript, speaker) in read_rows(listing, COLUMNS, ("speaker",)):
        yield Recording(path, transcript.split(), listing.parent / path, speaker or speaker_in_name(path), location)
