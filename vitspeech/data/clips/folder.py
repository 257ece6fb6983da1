"""Audio files in one folder per word, or listed in CSV files: WAV, FLAC, OGG or MP3, any rate, mono or stereo."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import ENDINGS, audio_files, read_audio, some_names
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.clips.silence import NOISE
from vitspeech.data.listing import read_rows
from vitspeech.data.splits import hashed_splits, percentage, relative_name, speaker_in_name, split_at
from vitspeech.errors import InputError

SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}
COLUMNS = ("path", "label")


@dataclass(frozen=True)
class LabeledFile:
    """A recording of a folder or of a CSV file.

    Args:
        file: The audio file.
        label: Its word.
        speaker: Who speaks, if a column `speaker` or the file name says so.
        location: The folder, or the CSV file and line, for messages.
    """

    file: Path
    label: str
    speaker: str | None
    location: str


class AudioFolder(WaveformData):
    """Recordings in ROOT/train/WORD/*, ROOT/validation/WORD/* (or `val`) and ROOT/test/WORD/*.

    Alternatively ROOT/train.csv, ROOT/validation.csv (or `val.csv`) and ROOT/test.csv list the recordings: UTF-8, with
    a header that names the columns `path` (absolute or relative to ROOT) and `label`, and may name `speaker`. If there
    is a train.csv, folders are ignored. If ROOT has no folder `train`, its own folders are the words. Folders whose
    names begin with `_` or `.` are ignored. Recordings in ROOT/_background_noise_ are the noise that `WaveformAugment`
    mixes in besides synthesized noise; without them it is pink noise.

    If a split has no folder or CSV file, about a tenth of the training recordings is held out for it. A hash of the
    recording's path decides (`hashed_splits`), so that a recording keeps its split when others are added, and splits do
    not depend on the seed. If a column `speaker` or the file name (SPEAKER_nohash_NUMBER) says who speaks, the hash is
    of the speaker, so that these splits share no speakers. If all speakers of the test set are known, intervals of
    accuracies resample them. If there are too few speakers, the hash is of the path after all, with a warning. Where
    the hash is of the path, validation and test have at least one recording each of every word with three or more.

    Args:
        root: The folder described above.
        seconds: Length of a clip. Shorter recordings are padded; of longer ones the stretch of most energy is kept.
        batch: Clips of an optimizer step, on all devices together.
        augment: Augmentation of training clips; `None` is `WaveformAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: Arguments of `DataModule`: `storage`, `workers`, `broken`. With a pack, `root` is not read.

    Raises:
        FileNotFoundError: If `root` does not exist or has no word folders, or a recording listed in a CSV file is
            missing.
        InputError: If a word's folder is empty, a CSV file is malformed or lists a recording twice, a split has a word
            that training does not have, there are too few training recordings to hold some out, the noise is shorter
            than a clip, all recordings of a word are held out, or a recording cannot be read.

    Warns:
        UserWarning: If recordings are silent or clipped, a word has only one, or held-out splits share speakers.

    Attributes:
        splits: The recordings of each split, once they are listed.
    """

    reads_files = True

    def __init__(
        self,
        root: str,
        *,
        seconds: float = 1.0,
        batch: int = 128,
        augment: WaveformAugment | None = None,
        seed: int = 0,
        **storage: Any,
    ) -> None:
        super().__init__(seconds=seconds, batch=batch, augment=augment, seed=seed, **storage)
        self.root = self.item_root = Path(root)
        if self.pack is not None:
            self.labels = self.pack.labels
            return
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        self.sources = split_sources(self.root)

    @cached_property
    def labels(self) -> list[str]:
        """The words of training, sorted; reads folder names or train.csv, no audio.

        Not read in the constructor: jsonargparse would wrap a ValueError raised there in a message about the config.
        """
        return sorted({recording.label for recording in list_recordings(self.sources["train"])})

    def read(self, split: str) -> Dataset:
        self.prepare()
        clips, places = self.clips_of([item.file for item in self.splits[split]], split)
        recordings = self.splits[split] = [self.splits[split][place] for place in places]
        indices = {label: index for index, label in enumerate(self.labels)}
        labels = torch.tensor([indices[item.label] for item in recordings])
        return TensorItems(clips, labels, known_speakers(recordings))

    def item_names(self) -> dict[str, list[str]]:
        if self.pack is not None:
            return self.pack.item_names()
        self.prepare()
        return {
            split: [relative_name(item.file, self.root) for item in recordings]
            for split, recordings in self.splits.items()
        }

    def prepare(self) -> None:
        """List the recordings of all splits before reading any, so that a wrong folder is reported at once."""
        if hasattr(self, "splits"):
            return
        splits = word_recordings(self.root)
        warn_of_few(splits)
        if missing := set(self.labels) - {item.label for item in splits["train"]}:
            raise InputError(f"{self.root}: all recordings of {', '.join(sorted(missing))} are held out; add more")
        if noise_files := audio_files(self.root / NOISE):
            noise = torch.cat([read_audio(file) for file in noise_files])
            if len(noise) < self.samples:
                duration_s = len(noise) / self.sample_rate_hz
                raise InputError(f"{self.root / NOISE}: {duration_s:.3g} s in all, below a clip's {self.seconds:g} s")
            self.noise = noise
        self.splits = splits


def word_recordings(root: Path) -> dict[str, list[LabeledFile]]:
    """The recordings of each split of a folder as `AudioFolder` describes it, the folder of Speech Commands included.

    Training recordings are held out for a split without a source; in Speech Commands these are the official splits.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder")
    splits, first_locations = {}, {}
    for split, source in split_sources(root).items():
        splits[split] = list(list_recordings(source))
        if split == "train":
            labels = {item.label for item in splits[split]}
        for item in splits[split]:
            if item.label not in labels:
                words = ", ".join(sorted(labels))
                raise InputError(
                    f"{item.location}: {item.label!r} is a word that training does not have; known: {words}"
                )
            if not item.file.is_file():
                raise FileNotFoundError(f"{item.location}: {item.file} does not exist")
            file = item.file.resolve()
            if file in first_locations:
                raise InputError(f"{item.location}: {item.file} is listed twice, first in {first_locations[file]}")
            first_locations[file] = item.location
    return hold_out(splits, root, of_every_word=True)


def hold_out(splits: dict[str, list], root: Path, *, of_every_word: bool = False) -> dict[str, list]:
    """Hold out training recordings for validation and test where these are missing; see `hashed_splits`.

    Args:
        splits: Lists of recordings with `file` and `speaker`, and `label` if `of_every_word`.
        root: Folder of the recordings.
        of_every_word: If recordings are held out by their paths, hold out some of every label that has enough.
    """
    missing = [split for split in SPLIT_NAMES if split not in splits]
    if not missing:
        return splits
    recordings = splits["train"]
    names = [relative_name(item.file, root) for item in recordings]
    keys = [item.speaker or name for item, name in zip(recordings, names, strict=True)]
    if len(set(keys)) <= len(missing) < len(names):
        keys = names
        warnings.warn(
            f"{root}: too few speakers to hold out some for {' and '.join(missing)}: recordings are held out instead, "
            "so accuracies are those of known speakers",
            stacklevel=2,
        )
    if of_every_word and keys == names:
        chosen = splits_of_words(names, [item.label for item in recordings], missing, root)
    else:
        chosen = hashed_splits(keys, missing, root)
    assigned = list(zip(recordings, chosen, strict=True))
    return splits | {
        split: [item for item, its_split in assigned if its_split == split] for split in ("train", *missing)
    }


def splits_of_words(names: Sequence[str], labels: Sequence[str], held_out: Sequence[str], root: Path) -> list[str]:
    """As `hashed_splits`, but every word with more recordings than `held_out` has splits is in all splits.

    Args:
        names: The path of each recording relative to the root.
        labels: Its word.
        held_out: The splits to hold out.
        root: Folder of the recordings, for messages.
    """
    names_of_words = defaultdict(list)
    for name, label in zip(names, labels, strict=True):
        names_of_words[label].append(name)
    if max(map(len, names_of_words.values())) <= len(held_out):
        return hashed_splits(names, held_out, root)
    splits = {name: split_at(percentage(name), held_out) for name in names}
    for of_word in names_of_words.values():
        if len(of_word) > len(held_out):
            splits |= dict(zip(of_word, hashed_splits(of_word, held_out, root), strict=True))
    return [splits[name] for name in names]


def warn_of_few(splits: dict[str, list[LabeledFile]], words: Sequence[str] | None = None) -> None:
    """Warn once about the words of which there is only one recording in all splits together, and about those of none.

    Args:
        splits: From `word_recordings`.
        words: The words to look at; `None` is all that have recordings.
    """
    items = [item for split_items in splits.values() for item in split_items]
    if words is not None:
        found = {item.label: item.location for item in items}
        for label in found.keys() - set(words):
            if word := next((word for word in words if word.casefold() == label.casefold()), None):
                raise InputError(f"{found[label]}: {label!r} is not {word!r}; give both the same capital letters")
        if none := [word for word in words if word not in found]:
            warnings.warn(
                f"no recordings of {some_names(none)}; only synthesized clips of it are learned", stacklevel=2
            )
        items = [item for item in items if item.label in words]
    counts = Counter(item.label for item in items)
    if single := [str(item.file) for item in items if counts[item.label] == 1]:
        count = "1 word has" if len(single) == 1 else f"{len(single):,} words have"
        warnings.warn(
            f"{count} only one recording, which is in one split: {some_names(single)}; record more", stacklevel=2
        )


def known_speakers(recordings: Sequence[Any]) -> list[str] | None:
    """The speaker of each recording; `None` if one is unknown."""
    speakers = [recording.speaker for recording in recordings]
    return None if None in speakers else speakers


def split_sources(root: Path) -> dict[str, Path]:
    """The CSV file or folder of each split that has one; training always has one."""
    ending = ".csv" if (root / "train.csv").is_file() else ""
    if not ending and not (root / "train").is_dir():
        return {"train": root}
    candidates = [(split, root / f"{name}{ending}") for split, names in SPLIT_NAMES.items() for name in reversed(names)]
    return {split: source for split, source in candidates if source.exists()}


def list_recordings(source: Path) -> Iterator[LabeledFile]:
    """Yield the recordings of a CSV file or folder."""
    if source.is_dir():
        yield from list_word_folders(source)
    else:
        for location, (path, label, speaker) in read_rows(source, COLUMNS, ("speaker",)):
            yield LabeledFile(source.parent / path, label, speaker or speaker_in_name(path), location)


def list_word_folders(folder: Path) -> Iterator[LabeledFile]:
    """Yield the recordings in the word folders of `folder`."""
    words = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "_.")
    if not words:
        raise FileNotFoundError(f"{folder}: no word folders; put each word's recordings in its own folder")
    for word in words:
        files = audio_files(word)
        if not files:
            raise InputError(f"{word}: no recordings of this word ({', '.join(sorted(ENDINGS))})")
        yield from (LabeledFile(file, word.name, speaker_in_name(file.name), str(word)) for file in files)
