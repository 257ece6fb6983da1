"""Image files in one folder per class, of any size and mode, scaled to one size."""

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.batches import Items
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.reading import ENDINGS, read_picture
from vitspeech.data.splits import hashed_splits, relative_name
from vitspeech.errors import InputError

IN_MEMORY_BYTES = 4 * 2**30


class ImageFolder(ImageData):
    """Pictures in ROOT/train/CLASS/*, ROOT/validation/CLASS/* (or `val`) and ROOT/test/CLASS/*.

    If a split has no folder, about a tenth of the training pictures is held out for it. A hash of the picture's path
    decides (`hashed_splits`), so that a picture keeps its split when others are added, and splits do not depend on the
    seed. If ROOT has no folder `train`, its own folders are the classes. Data sets of up to 4 GiB are held in memory;
    larger ones are read by worker processes.

    Args:
        root: The folder described above.
        image: Side in pixels to which the center square of each picture is scaled.
        batch: Pictures per training batch, on each device.
        augment: Augmentation of training pictures; `None` is `Augment()`.
        workers: Number of processes that read a data set too large for memory.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        FileNotFoundError: If `root` does not exist or has no class folders.
        InputError: If a class folder is empty, a split has a class that training does not have, or a picture cannot be
            read, or there are too few training pictures to hold some out.
    """

    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)

    def __init__(
        self,
        root: str,
        *,
        image: int = 64,
        batch: int = 128,
        augment: Augment | None = None,
        workers: int = 2,
        seed: int = 0,
    ) -> None:
        super().__init__(batch=batch, augment=augment, seed=seed)
        self.root, self.image, self.file_workers = Path(root), image, workers
        self.item_root = self.root
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        self.train_folder = self.root / "train" if (self.root / "train").is_dir() else self.root
        self.labels = sorted(folder.name for folder in self.train_folder.iterdir() if folder.is_dir())
        if not self.labels:
            folder = self.train_folder
            raise FileNotFoundError(f"{folder}: no class folders; put each class's pictures in its own folder")

    def setup(self, stage: str | None = None) -> None:
        """List the pictures of all splits before reading any, so that a wrong folder is reported at once."""
        if not hasattr(self, "splits"):
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
        return splits

    def item_names(self) -> dict[str, list[str]]:
        if not hasattr(self, "splits"):
            self.splits = self.find_splits()
        return {split: [relative_name(file, self.root) for file in files] for split, (files, _) in self.splits.items()}

    def list_pictures(self, folder: Path) -> tuple[list[Path], Tensor]:
        """List the pictures of each class folder with their labels."""
        files, labels = [], []
        for class_folder in sorted(path for path in folder.iterdir() if path.is_dir()):
            if class_folder.name not in self.labels:
                classes = ", ".join(self.labels)
                raise InputError(f"{class_folder}: a class that training does not have; known: {classes}")
            pictures = sorted(file for file in class_folder.iterdir() if file.suffix.lower() in ENDINGS)
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
        if len(files) * 3 * self.image**2 > IN_MEMORY_BYTES:
            self.workers = self.file_workers
            return PictureFiles(files, labels, self.image)
        progress = tqdm(files, desc=f"reading {split}", leave=False, disable=len(files) < 500 or None)
        return Items(torch.stack([read_picture(file, self.image) for file in progress]), labels)


class PictureFiles(Dataset):
    """Pictures that are read from their files batch by batch, indexed by (indices, seed)."""

    def __init__(self, files: list[Path], labels: Tensor, side: int) -> None:
        self.files, self.labels, self.side = files, labels, side

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Tensor, Tensor, int]:
        indices, seed = batch
        pictures = torch.stack([read_picture(self.files[index], self.side) for index in indices.tolist()])
        return pictures, self.labels[indices], seed
