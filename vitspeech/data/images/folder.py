"""Image files in one folder per class, of any size and mode, scaled to one size."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.batches import TensorItems
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.reading import ENDINGS, check_picture, decode_picture, read_picture
from vitspeech.data.module import FILES, TEST
from vitspeech.data.splits import hashed_splits, relative_name
from vitspeech.data.storage.broken import decodes, readable_files
from vitspeech.data.storage.rows import FileRows
from vitspeech.errors import InputError

IN_MEMORY_BYTES = 4 * 2**30


class ImageFolder(ImageData):
    """Pictures in ROOT/train/CLASS/*, ROOT/validation/CLASS/* (or `val`) and ROOT/test/CLASS/*.

    If a split has no folder, about a tenth of the training pictures is held out for it. A hash of the picture's path
    decides (`hashed_splits`), so that a picture keeps its split when others are added, and splits do not depend on the
    seed. If ROOT has no folder `train`, its own folders are the classes. Data sets larger than 4 GiB are not held in
    memory: their files are read by worker processes, as with `storage: files`.

    Args:
        root: The folder described above.
        image: Side in pixels to which the center square of each picture is scaled.
        batch: Pictures of an optimizer step, on all devices together.
        augment: Augmentation of training pictures; `None` is `Augment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: Arguments of `DataModule`: `storage`, `workers`, `broken`. With a pack, `root` is not read.

    Raises:
        FileNotFoundError: If `root` does not exist or has no class folders.
        InputError: If a class folder is empty, a split has a class that training does not have, or a picture cannot be
            read, or there are too few training pictures to hold some out.
    """

    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)

    reads_files = True

    def __init__(
        self,
        root: str,
        *,
        image: int = 64,
        batch: int = 128,
        augment: Augment | None = None,
        seed: int = 0,
        **storage: Any,
    ) -> None:
        super().__init__(batch=batch, augment=augment, seed=seed, **storage)
        self.root, self.image = Path(root), image
        self.item_root = self.root
        if self.pack is not None:
            self.labels = self.pack.labels
            return
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        self.train_folder = self.root / "train" if (self.root / "train").is_dir() else self.root
        self.labels = [folder.name for folder in class_folders(self.train_folder)]
        if not self.labels:
            folder = self.train_folder
            raise FileNotFoundError(f"{folder}: no class folders; put each class's pictures in its own folder")

    def setup(self, stage: str | None = None) -> None:
        """List the pictures of all splits before reading any, so that a wrong folder is reported at once."""
        if self.pack is None and not hasattr(self, "splits"):
            self.splits = self.find_splits()
        super().setup(stage)

    def find_splits(self) -> dict[str, tuple[list[Path], Tensor]]:
        """List the files and labels of each split; hold out training pictures for a split without a folder."""
        files, labels = self.list_pictures(self.train_folder)
        splits, missing = {"train": (files, labels)}, []
        for split, names in (("validation", ("validation", "val")), ("test", ("test",))):
            folder = next((self.root / name for name in names if (self.root / name).is_dir()), None)
            if folder is not None and self.train_folder != self.root:
                splits[split] = self.list_pictures(folder)
            else:
                missing.append(split)
        if missing:
            assigned = hashed_splits([relative_name(file, self.root) for file in files], missing, self.root)
            for split in ("train", *missing):
                indices = [index for index, its_split in enumerate(assigned) if its_split == split]
                splits[split] = [files[index] for index in indices], labels[indices]
        trained = set(splits["train"][1].tolist())
        if held_out := [name for index, name in enumerate(self.labels) if index not in trained]:
            raise InputError(f"{self.root}: all pictures of {', '.join(held_out)} are held out; add more")
        return splits

    def item_names(self) -> dict[str, list[str]]:
        if self.pack is not None:
            return self.pack.item_names()
        if not hasattr(self, "splits"):
            self.splits = self.find_splits()
        return {split: [relative_name(file, self.root) for file in files] for split, (files, _) in self.splits.items()}

    def list_pictures(self, folder: Path) -> tuple[list[Path], Tensor]:
        """List the pictures of each class folder with their labels."""
        files, labels = [], []
        for class_folder in class_folders(folder):
            if class_folder.name not in self.labels:
                classes = ", ".join(self.labels)
                raise InputError(f"{class_folder}: a class that training does not have; known: {classes}")
            found = (file for file in class_folder.iterdir() if file.suffix.lower() in ENDINGS)
            pictures = sorted(file for file in found if not file.name.startswith("."))  # such as `._1.jpg` of macOS
            if not pictures:
                raise InputError(f"{class_folder}: no pictures in this class ({', '.join(sorted(ENDINGS))})")
            files += pictures
            labels += [self.labels.index(class_folder.name)] * len(pictures)
        if not files:
            raise FileNotFoundError(f"{folder}: no class folders; put each class's pictures in its own folder")
        return files, torch.tensor(labels)

    def read(self, split: str) -> Dataset:
        if not hasattr(self, "splits"):
            self.splits = self.find_splits()
        files, labels = self.splits[split]
        in_files = self.storage == FILES or len(files) * 3 * self.image**2 > IN_MEMORY_BYTES
        if self.checks_files and (in_files or self.broken):
            check = partial(check_picture, side=self.image) if in_files else decodes(self.read_file)
            good, _ = readable_files(files, check, split, self.broken)
            files, labels = [files[place] for place in good], labels[good]
            self.splits[split] = files, labels
        if in_files:
            self.workers = self.reading_workers
            return TensorItems(PictureRows(files, self.read_file, replace=split != TEST), labels)
        progress = tqdm(files, desc=f"reading {split}", leave=False, disable=len(files) < 500 or None)
        return TensorItems(torch.stack([self.read_file(file) for file in progress]), labels)

    @property
    def read_file(self) -> Callable[[Path], Tensor]:
        """Reads a picture's file."""
        return partial(read_picture, side=self.image)

    def packed(self, split: str) -> TensorItems:
        rows = self.pack.rows(split, partial(decode_picture, side=self.image))
        return TensorItems(rows, self.pack.item_labels(split))


def class_folders(folder: Path) -> list[Path]:
    """The folders of the classes in a folder, sorted by name, without hidden ones."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


class PictureRows(FileRows):
    """Pictures, each read from its file when it is needed. A pack holds the bytes of the files."""

    def content(self, index: int) -> bytes:
        """The bytes of a file."""
        self.row(index)
        return self.files[index].read_bytes()
