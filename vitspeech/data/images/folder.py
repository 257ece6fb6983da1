"""Image files in one folder per class, of any size and mode, scaled to one size."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.batches import TensorItems
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.reading import ENDINGS, check_picture, read_picture
from vitspeech.data.labeled_files import (
    LabeledFile,
    check_training,
    class_folders,
    files_in_folders,
    labeled_splits,
    split_sources,
)
from vitspeech.data.module import FILES, MEMORY, TEST
from vitspeech.data.rows import FileRows, readable_files

IN_MEMORY_BYTES = 4 * 2**30


class ImageFolder(ImageData):
    """Images in ROOT/train/CLASS/*, ROOT/validation/CLASS/* (or `val`) and ROOT/test/CLASS/*.

    If a split has no folder, a tenth of the training images of each class is held out for it, at least one of three.
    A hash of the image's name decides (`stratified_splits`), so that nearly all images keep their split when others
    are added, and splits depend neither on the seed nor on where ROOT lies. If ROOT has no folder `train`, its own
    folders are the classes. Data sets larger than 4 GiB are not held in memory: their files are read by worker
    processes, as with `storage: files`.

    Args:
        root: The folder described above.
        image: Side in pixels to which the center square of each image is scaled.
        **options: Those of `ImageData`: `batch`, `augment`, `seed`, `storage`, `workers` and `broken`.
    """

    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)

    storages = (MEMORY, FILES)

    def __init__(self, root: str, *, image: int = 64, **options: Any) -> None:
        super().__init__(**options)
        self.root, self.image = Path(root), image
        self.item_root = self.root
        self.sources = split_sources(self.root)
        self.labels = [folder.name for folder in class_folders(self.sources["train"])]

    def list_splits(self) -> dict[str, list[LabeledFile]]:
        """The images of each split; some of training are held out for a split without a folder."""
        splits = labeled_splits(self.sources, partial(files_in_folders, endings=ENDINGS))
        check_training(splits, self.labels, self.root)
        return splits

    def read(self, split: str) -> Dataset:
        items = self.splits[split]
        files, pictures = [item.file for item in items], []
        in_files = self.storage == FILES or len(items) * 3 * self.image**2 > IN_MEMORY_BYTES
        if self.checks_files or not in_files:
            check = self.check_file(split) if in_files else self.read_file
            verb = "checking" if in_files else "reading"
            places, pictures = readable_files(files, check, split, self.broken, verb=verb)
            items = self.splits[split] = [items[place] for place in places]
        labels = torch.tensor([self.label_indices[item.label] for item in items])
        if not in_files:
            return TensorItems(torch.stack(pictures), labels)
        self.workers = self.reading_workers
        return TensorItems(FileRows([item.file for item in items], self.read_file, replace=split != TEST), labels)

    def check_file(self, split: str) -> Callable[[Path], object]:
        """Checks the header of a file, or all of it for the test, in which no other item may take its place."""
        if split == TEST:
            return lambda file: self.read_file(file).shape
        return partial(check_picture, side=self.image)

    @property
    def read_file(self) -> Callable[[Path], Tensor]:
        """Reads an image's file."""
        return partial(read_picture, side=self.image)
