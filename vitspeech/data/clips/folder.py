"""A folder a word: recordings of any rate, mono or stereo, WAV, FLAC or OGG; or CSV files that list them."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.listing import rows_of
from vitspeech.data.audio.reading import ENDINGS, read_audio, read_clips
from vitspeech.data.batches import Items, tenth_held_out
from vitspeech.data.clips.module import WaveformAugment, WaveformData
from vitspeech.data.clips.speech_commands import NOISE

NAMES = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}
COLUMNS = ("path", "label")


class AudioFolder(WaveformData):
    """ROOT/train/WORD/*, and where they exist ROOT/validation/WORD/* (or `val`) and ROOT/test/WORD/*.

    Or ROOT/train.csv, and where they exist ROOT/validation.csv (or `val.csv`) and ROOT/test.csv: UTF-8, with a header
    that names the columns `path` (relative to ROOT) and `label`. Where there is a train.csv, folders say nothing.

    A split without a folder or CSV is drawn from the training recordings, a tenth of them each, the same whatever the
    seed; the drawing knows no speakers, so where they should be apart, say who is in which split. Where ROOT has no
    `train`, its own folders are the words. A folder whose name begins with `_` or `.` is no word. Recordings in
    ROOT/_background_noise_ are what `WaveformAugment` mixes in; without them it is pink noise.

    Args:
        root: The folder described above.
        seconds: Length of a clip. A shorter recording is padded, of a longer one the stretch with most energy is kept.
        batch: Clips a training batch, on each device.
        augment: What happens to training clips; `None` is `WaveformAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        FileNotFoundError: If `root` is not there or holds no words, or a recording that a CSV names is not there.
        ValueError: If a word's folder is empty, a CSV is malformed or lists a recording twice, a split has a word that
            training has not, training is too small to draw from, the noise is shorter than a clip, or a recording is
            broken.
    """

    def __init__(
        self,
        root: str,
        *,
        seconds: float = 1.0,
        batch: int = 128,
        augment: WaveformAugment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seconds=seconds, batch=batch, augment=augment, seed=seed)
        self.root = Path(root)
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        self.sources = sources(self.root)

    @cached_property
    def labels(self) -> list[str]:
        """The words of training; not found when constructed, for the command line buries a ValueError from there."""
        return sorted({label for _, _, label in listed(self.sources["train"])})

    def setup(self, stage: str | None = None) -> None:
        """Find and read every recording of every split, so that a broken one is known before training."""
        if not hasattr(self, "train"):
            self.read("test")  # and put away
        super().setup(stage)

    def read(self, split: str) -> Dataset:
        self.prepare()
        files, labels = self.splits[split]
        return Items(read_clips(files, self.samples, progress=f"reading {split}"), labels)

    def prepare(self) -> None:
        """Find every recording of every split before the first is read, so that a wrong folder is known at once."""
        if hasattr(self, "splits"):
            return
        splits = self.find_splits()
        if recordings := recordings_in(self.root / NOISE):
            noise = torch.cat([read_audio(file) for file in recordings])
            if len(noise) < self.samples:
                lasts_s = len(noise) / self.sample_rate_hz
                raise ValueError(f"{self.root / NOISE}: {lasts_s:.3g} s in all, below a clip's {self.seconds:g} s")
            self.noise = noise
        self.splits = splits

    def find_splits(self) -> dict[str, tuple[list[Path], Tensor]]:
        """Files and labels of the three splits; what has no source is drawn from the training recordings."""
        found, seen = {}, {}
        number = {label: place for place, label in enumerate(self.labels)}
        for split, source in self.sources.items():
            rows = list(listed(source))
            for place, file, label in rows:
                if label not in number:
                    raise ValueError(f"{place}: {label!r} is a word that training has not; known: {', '.join(number)}")
                if not file.is_file():
                    raise FileNotFoundError(f"{place}: {file} is not there")
                if file in seen:
                    raise ValueError(f"{place}: {file} is there twice, first in {seen[file]}")
                seen[file] = place
            found[split] = [file for _, file, _ in rows], torch.tensor([number[label] for _, _, label in rows])
        for split in NAMES:
            if split not in found:
                found["train"], found[split] = tenth_held_out(*found["train"])
        return found


def sources(root: Path) -> dict[str, Path]:
    """The CSV or folder of each split that has one; training always has."""
    ending = ".csv" if (root / "train.csv").is_file() else ""
    if not ending and not (root / "train").is_dir():
        return {"train": root}
    candidates = [(split, root / f"{name}{ending}") for split, names in NAMES.items() for name in reversed(names)]
    return {split: source for split, source in candidates if source.exists()}


def listed(source: Path) -> Iterator[tuple[str, Path, str]]:
    """Of each recording of a CSV or folder: the place that names it, for messages, the file and the label."""
    if source.is_dir():
        return from_folders(source)
    return ((place, source.parent / path, label) for place, (path, label) in rows_of(source, COLUMNS))


def from_folders(folder: Path) -> Iterator[tuple[str, Path, str]]:
    """The recordings of each word's folder.

    Raises:
        FileNotFoundError: If there are no words.
        ValueError: If a word has no recordings.
    """
    words = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "_.")
    if not words:
        raise FileNotFoundError(f"{folder}: no word folders; put each word's recordings in its own folder")
    for word in words:
        recordings = recordings_in(word)
        if not recordings:
            raise ValueError(f"{word}: no recordings of this word ({', '.join(sorted(ENDINGS))})")
        yield from ((str(word), file, word.name) for file in recordings)


def recordings_in(folder: Path) -> list[Path]:
    """The recordings that lie in a folder, in order of their names; none if it is not there."""
    # macOS leaves a ._NAME.wav that is no recording beside each NAME.wav in archives and on foreign disks.
    return sorted(file for file in folder.glob("[!.]*") if file.suffix.lower() in ENDINGS)
