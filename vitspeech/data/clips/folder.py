"""Audio files in one folder per word, or listed in CSV files: WAV, FLAC, OGG or MP3, any rate, mono or stereo."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import ENDINGS, read_audio
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.clips.silence import NOISE
from vitspeech.data.labeled_files import (
    LabeledFile,
    check_training,
    files_in_folders,
    files_of,
    known_speakers,
    labeled_splits,
    read_rows,
    split_sources,
    warn_of_few,
)
from vitspeech.data.module import FILES, MEMORY
from vitspeech.data.splits import speaker_in_name
from vitspeech.errors import InputError, some_names

COLUMNS = ("path", "label")
FEW = 20  # recordings of a keyword, below which all but those of validation are learned


class AudioFolder(WaveformData):
    """Recordings in ROOT/train/WORD/*, ROOT/validation/WORD/* (or `val`) and ROOT/test/WORD/*.

    Alternatively ROOT/train.csv, ROOT/validation.csv (or `val.csv`) and ROOT/test.csv list the recordings: UTF-8, with
    a header that names the columns `path` (absolute or relative to ROOT) and `label`, and may name `speaker`. If there
    is a train.csv, folders are ignored. If ROOT has no folder `train`, its own folders are the words. Folders whose
    names begin with `_` or `.` are ignored. Recordings in ROOT/_background_noise_ are the noise that `WaveformAugment`
    mixes in besides synthesized noise; without them it is pink noise.

    If a split has no folder or CSV file, a tenth of the training recordings of each word is held out for it, at least
    one of three. A hash of the recording's name decides (`stratified_splits`), so that nearly all recordings keep their
    split when others are added, and splits depend neither on the seed nor on where ROOT lies. If a column `speaker` or
    the file name (SPEAKER_nohash_NUMBER) says of each who speaks, a hash of the speaker decides (`hashed_splits`), so
    that these splits share no speakers. If all speakers of the test set are known, intervals of accuracies resample
    them. If there are too few speakers, or some are unknown, recordings are held out after all, with a warning.

    Args:
        root: The folder described above.
        **options: Those of `WaveformData`: `seconds`, `batch`, `augment`, `seed`, `storage`, `workers` and `broken`.
            Recordings shorter than `seconds` are padded; of longer ones the stretch of most energy is kept.

    Warns:
        UserWarning: If recordings are silent or clipped, a split has none of a word, or held-out splits share
            speakers.

    Attributes:
        splits: The recordings of each split, once they are listed.
    """

    storages = (MEMORY, FILES)

    def __init__(self, root: str, **options: Any) -> None:
        super().__init__(**options)
        self.root = self.item_root = Path(root)

    @cached_property
    def labels(self) -> list[str]:
        """The words of training, sorted; reads folder names or train.csv, no audio.

        Not read in the constructor: jsonargparse would wrap a ValueError raised there in a message about the config.
        """
        return sorted({recording.label for recording in list_recordings(word_sources(self.root)["train"])})

    def read(self, split: str) -> Dataset:
        clips, places = self.clips_of([item.file for item in self.splits[split]], split)
        recordings = self.splits[split] = [self.splits[split][place] for place in places]
        labels = torch.tensor([self.label_indices[item.label] for item in recordings])
        return TensorItems(clips, labels, known_speakers(recordings))

    def list_splits(self) -> dict[str, list[LabeledFile]]:
        """The recordings of each split; the noise is read as well, so that what is wrong is reported at once."""
        splits = word_recordings(self.root)
        check_training(splits, self.labels, self.root)
        if noise_files := files_of(self.root / NOISE, ENDINGS):
            noise = torch.cat([read_audio(file) for file in noise_files])
            if len(noise) < self.samples:
                duration_s = len(noise) / self.sample_rate_hz
                raise InputError(f"{self.root / NOISE}: {duration_s:.3g} s in all, below a clip's {self.seconds:g} s")
            self.noise = noise
        return splits


def word_recordings(root: Path, words: Sequence[str] = (), others: Sequence[str] = ()) -> dict[str, list[LabeledFile]]:
    """The recordings of each split of a folder as `AudioFolder` describes it, the folder of Speech Commands included.

    Training recordings are held out for a split without a source; in Speech Commands these are the official splits.
    A label that is one of the `words` or `others` but for underscores in place of spaces is that one: `smart_mirror`.
    If each of the `words` has fewer than `FEW` recordings, none of them are held out for the test.
    """
    sources, known = word_sources(root), {with_spaces(word): word for word in (*words, *others)}

    def listed(source: Path) -> Iterator[LabeledFile]:
        for item in list_recordings(source):
            yield replace(item, label=known.get(with_spaces(item.label), item.label))

    splits = labeled_splits(sources, listed)
    if "test" not in sources and are_few(splits, words):
        splits["train"] = [*splits["train"], *(item for item in splits["test"] if item.label in words)]
        splits["test"] = [item for item in splits["test"] if item.label not in words]
    return splits


def are_few(splits: dict[str, list[LabeledFile]], words: Sequence[str]) -> bool:
    """Whether each of the words has fewer than `FEW` recordings, and one has some."""
    counts = Counter(item.label for items in splits.values() for item in items if item.label in words)
    return 0 < max(counts.values(), default=0) < FEW


def with_spaces(label: str) -> str:
    """A label with spaces in place of underscores, which many names of folders have."""
    return label.replace("_", " ")


def word_sources(root: Path) -> dict[str, Path]:
    """The CSV file or folder of each split that has one; training always has one."""
    return split_sources(root, ".csv" if (root / "train.csv").is_file() else "")


def list_recordings(source: Path) -> Iterator[LabeledFile]:
    """Yield the recordings of a CSV file or of a folder of word folders."""
    if source.suffix != ".csv":
        yield from files_in_folders(source, ENDINGS, hidden="_.")
        return
    for location, (path, label, speaker) in read_rows(source, COLUMNS, ("speaker",)):
        yield LabeledFile(source.parent / path, label, speaker or speaker_in_name(path), location)


def warn_of_words(splits: dict[str, list[LabeledFile]], words: Sequence[str]) -> None:
    """Warn once about the words of few recordings, and once about those without any.

    A folder named like one of them but for capital letters is refused: it would be another word.
    """
    found = {item.label: item.location for items in splits.values() for item in items}
    known = {with_spaces(word.casefold()): word for word in words}
    for label in found.keys() - set(words):
        if word := known.get(with_spaces(label.casefold())):
            raise InputError(f"{found[label]}: {label!r} is not {word!r}; give both the same capital letters")
    if none := [word for word in words if word not in found]:
        warnings.warn(f"no recordings of {some_names(none)}; only synthesized clips of it are learned", stacklevel=2)
    named = [word for word in words if word in found]
    if are_few(splits, words) and not any(item.label in words for item in splits["test"]):
        warnings.warn(
            f"fewer than {FEW} recordings of each word: the test has none of them, at most synthesized ones, and "
            "does not say how often people are missed; vitspeech spot does, on further recordings",
            stacklevel=2,
        )
        splits = {split: items for split, items in splits.items() if split != "test"}
    warn_of_few(splits, named)
