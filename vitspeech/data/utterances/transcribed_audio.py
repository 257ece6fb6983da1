"""One's own recordings with what is said in them: CSV files that name each with its transcript.

Shapes: B utterances, N samples, A samples of background noise.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.audio.listing import rows_of
from vitspeech.data.audio.reading import LONGEST_S, SAMPLE_RATE_HZ, SILENT_PEAK, read_clip
from vitspeech.data.batches import tenth_held_out
from vitspeech.data.clips.folder import NAMES, sources
from vitspeech.data.clips.module import QUIETEST, hiss
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.composition import Speech
from vitspeech.data.utterances.module import CHARACTERS, UtteranceData, check_vocabulary

COLUMNS = ("path", "transcript")


@dataclass(frozen=True)
class Recording:
    """One row of a CSV.

    Args:
        id: The recording's name, as the CSV has it.
        words: Its transcript.
        file: Where it lies.
        place: The CSV and the line, for messages.
    """

    id: str
    words: list[str]
    file: Path
    place: str


class TranscribedAudio(UtteranceData):
    """ROOT/train.csv, and where they exist ROOT/validation.csv (or `val.csv`) and ROOT/test.csv.

    Each is UTF-8, with a header that names the columns `path` (relative to ROOT) and `transcript`. Recordings are of
    any rate, mono or stereo, WAV, FLAC, OGG or MP3, 0.1 to 60 s long. Transcripts are taken as they stand, capitals and
    punctuation, too, and split into words at white space.

    A split without a CSV is drawn from the training recordings, a tenth of them each, the same whatever the seed; the
    drawing knows no speakers, so where they should be apart, say who is in which split.

    Training utterances have pink noise under them, at a ratio to the whole recording's energy that is drawn from
    `snr_db` of `augment`. When each word is said is not known, so nothing that needs it can be trained (`labeling`).

    Args:
        root: The folder described above.
        units: What is recognized: `words`, or `characters` (a space between words).
        vocabulary: Every word, or every character with the space, that a transcript may have; `None` is the words of
            train.csv, sorted, or the space, the apostrophe and the letters a to z.
        batch: Utterances a training batch, on each device.
        augment: What happens to training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        FileNotFoundError: If `root` or its train.csv is not there, or a recording that a CSV names.
        ValueError: If a CSV is malformed or lists a recording twice, or two of them do, a word or a character is
            outside the vocabulary, training is too small to draw from, or a recording is broken, too short or too long.
    """

    evaluation_batch = 16  # recordings may last a minute

    def __init__(
        self,
        root: str,
        *,
        units: Literal["words", "characters"] = "words",
        vocabulary: Sequence[str] | None = None,
        batch: int = 32,
        augment: SequenceAugment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(units=units, batch=batch, augment=augment, seed=seed)
        if vocabulary is not None:
            check_vocabulary(vocabulary, units)
        self.root, self.vocabulary = Path(root), vocabulary
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        if not (self.root / "train.csv").is_file():
            raise FileNotFoundError(f"{self.root / 'train.csv'}: no such file; it names recordings with transcripts")
        self.sources = sources(self.root)

    @cached_property
    def labels(self) -> list[str]:
        """The vocabulary; not found when constructed, for the command line buries a ValueError from there."""
        if self.vocabulary is not None:
            return list(self.vocabulary)
        if self.units == "characters":
            return list(CHARACTERS)
        return sorted({word for recording in listed(self.sources["train"]) for word in recording.words})

    @cached_property
    def noise(self) -> Tensor:
        """A minute of pink noise, int16 (A,); made when training first needs it."""
        return hiss(round(LONGEST_S * SAMPLE_RATE_HZ / 10))

    def setup(self, stage: str | None = None) -> None:
        """Find and read every recording of every split, so that a broken one is known before training."""
        if not hasattr(self, "train"):
            self.read("test")  # and put away
        super().setup(stage)

    def read(self, split: str) -> "Recordings":
        self.prepare()
        recordings = self.splits[split]
        return Recordings(recordings, read_sounds(recordings, split), [self.encoded(some.words) for some in recordings])

    def tests(self) -> dict[str, "Recordings"]:
        return {"test": self.read("test")}

    def prepare(self) -> None:
        """Find every recording of every split before the first is read; what has no CSV is drawn from training."""
        if hasattr(self, "splits"):
            return
        found, seen = {}, {}
        for split, source in self.sources.items():
            found[split] = list(listed(source))
            for recording in found[split]:
                self.check(recording)
                file = recording.file.resolve()
                if file in seen:
                    raise ValueError(f"{recording.place}: {recording.file} is there twice, first in {seen[file]}")
                seen[file] = recording.place
        for split in NAMES:
            if split not in found:
                found["train"], found[split] = without_tenth(found["train"])
        self.splits = found

    def check(self, recording: Recording) -> None:
        """Refuse a row that nothing can be trained or tested with.

        Raises:
            ValueError: If its transcript is not within the vocabulary.
            FileNotFoundError: If the recording is not there.
        """
        try:
            self.encoded(recording.words)
        except ValueError as error:
            raise ValueError(f"{recording.place}: {error}") from None
        if not recording.file.is_file():
            raise FileNotFoundError(f"{recording.place}: {recording.file} is not there")

    def augmented(self, speech: Speech) -> Speech:
        speech = super().augmented(speech)
        noise = self.noise.to(speech.waveforms.device)
        return speech._replace(waveforms=noisy(speech.waveforms, speech.lengths, noise, self.augment.snr_db))


class Recordings(Dataset):
    """Utterances that were recorded, each of its own length (int16), indexed by whole batches."""

    def __init__(self, utterances: Sequence[Recording], sounds: Sequence[Tensor], units: Sequence[list[int]]) -> None:
        self.utterances, self.sounds, self.units = utterances, sounds, [torch.tensor(some) for some in units]

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Speech, int]:
        indices, seed = batch
        sounds = [self.sounds[index] for index in indices.tolist()]
        units = [self.units[index] for index in indices.tolist()]
        speech = Speech(
            pad_sequence(sounds, batch_first=True),
            torch.tensor([len(sound) for sound in sounds]),
            pad_sequence(units, batch_first=True, padding_value=-1),
            torch.zeros(len(sounds), 0, 2, dtype=torch.long),  # of no word is known when it is said
        )
        return speech, seed


def noisy(waveforms: Tensor, lengths: Tensor, noise: Tensor, snr_db: tuple[float, float]) -> Tensor:
    """A stretch of the noise under each utterance, padding left silent: (B, N), (B,), int16 (A,) -> (B, N).

    The stretch begins anywhere, and again from the noise's beginning where that ends; all is drawn on the CPU, so that
    it is the same on every device.
    """
    starts = torch.randint(len(noise), (len(lengths),)).tolist()
    ratios_db = (snr_db[0] + (snr_db[1] - snr_db[0]) * torch.rand(len(lengths))).tolist()
    waveforms = waveforms.clone()
    for row, length, start, ratio_db in zip(waveforms, lengths.tolist(), starts, ratios_db, strict=True):
        sound = row[:length]
        places = torch.arange(start, start + length, device=noise.device) % len(noise)
        stretch = noise[places].to(sound) / 32768
        level, loudness = (some.square().mean().sqrt().clamp(min=QUIETEST) for some in (sound, stretch))
        sound += stretch * (level / loudness * 10 ** (-ratio_db / 20))
    return waveforms


def read_sounds(recordings: Sequence[Recording], split: str) -> list[Tensor]:
    """The samples of each recording, int16 (N,); warn once of silent ones.

    Raises:
        ValueError: If one is broken, too short or too long; the message names its line.
    """
    sounds, silent = [], []
    for recording in tqdm(recordings, f"reading {split}", disable=len(recordings) < 500, leave=False):
        try:
            sounds.append(read_clip(recording.file))
        except ValueError as error:
            raise ValueError(f"{recording.place}: {error}") from None
        if max(-int(sounds[-1].min()), int(sounds[-1].max())) <= SILENT_PEAK:
            silent.append(f"{recording.place}: {recording.file}")
    if silent:
        count = f"{len(silent):,} of {len(recordings):,} recordings"
        warnings.warn(f"{count} are silent (nothing above -66 dBFS), first {silent[0]}", stacklevel=2)
    return sounds


def without_tenth(recordings: Sequence[Recording]) -> tuple[list[Recording], list[Recording]]:
    """What is kept, and the tenth that is held out; see `tenth_held_out`."""
    parts = tenth_held_out([recording.file for recording in recordings], torch.arange(len(recordings)))
    kept, drawn = ([recordings[place] for place in places.tolist()] for _, places in parts)
    return kept, drawn


def listed(listing: Path) -> Iterator[Recording]:
    """The rows of a CSV, which `rows_of` has checked."""
    for place, (path, transcript) in rows_of(listing, COLUMNS):
        yield Recording(path, transcript.split(), listing.parent / path, place)
