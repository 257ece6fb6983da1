"""A folder a class: pictures of any size and mode, scaled to one."""

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.batches import Items, tenth_held_out
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.reading import ENDINGS, read_picture

IN_MEMORY_BYTES = 4 * 2**30


class ImageFolder(ImageData):
    """ROOT/train/CLASS/*, and where they exist ROOT/validation/CLASS/* (or `val`) and ROOT/test/CLASS/*.

    A split without a folder is drawn from the training pictures, a tenth of them each, the same whatever the seed.
    Where ROOT has no `train`, its own folders are the classes. Pictures are kept in memory up to 4 GiB; a larger set
    is read by worker processes.

    Args:
        root: The folder described above.
        image: Side in pixels to which the middle square of each picture is scaled.
        batch: Pictures a training batch, on each device.
        augment: What happens to training pictures; `None` is `Augment()`.
        workers: Processes that read a set too large for memory.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        FileNotFoundError: If `root` is not there or holds no classes.
        ValueError: If a class folder is empty, a split has a class that training has not, or a picture is broken.
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
        self.root, self.image, self.most_workers = Path(root), image, workers
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder")
        self.training = self.root / "train" if (self.root / "train").is_dir() else self.root
        self.labels = sorted(folder.name for folder in self.training.iterdir() if folder.is_dir())
        if not self.labels:
            raise FileNotFoundError(f"{self.training}: no class folders; put each class's pictures in its own folder")

    def setup(self, stage: str | None = None) -> None:
        """Find every picture of every split before the first is read, so that a wrong folder is known at once."""
        if not hasattr(self, "splits"):
            self.splits = self.find_splits()
        super().setup(stage)

    def find_splits(self) -> dict[str, tuple[list[Path], Tensor]]:
        """Files and labels of the three splits; what has no folder is drawn from the training pictures."""
        found = {"train": self.listed(self.training)}
        for split, names in (("validation", ("validation", "val")), ("test", ("test",))):
            folder = next((self.root / name for name in names if (self.root / name).is_dir()), None)
            if folder is not None and self.training != self.root:
                found[split] = self.listed(folder)
                continue
            found["train"], found[split] = tenth_held_out(*found["train"])
        return found

    def listed(self, folder: Path) -> tuple[list[Path], Tensor]:
        """The pictures of each class folder, and their labels."""
        files, labels = [], []
        for inside in sorted(path for path in folder.iterdir() if path.is_dir()):
            if inside.name not in self.labels:
                raise ValueError(f"{inside}: a class that training has not; known: {', '.join(self.labels)}")
            pictures = sorted(file for file in inside.iterdir() if file.suffix.lower() in ENDINGS)
            if not pictures:
                raise ValueError(f"{inside}: no pictures in this class ({', '.join(sorted(ENDINGS))})")
            files += pictures
            labels += [self.labels.index(inside.name)] * len(pictures)
        if not files:
            raise FileNotFoundError(f"{folder}: no class folders; put each class's pictures in its own folder")
        return files, torch.tensor(labels)

    def read(self, split: str) -> Dataset:
        if not hasattr(self, "splits"):
            self.splits = self.find_splits()
        files, labels = self.splits[split]
        if len(files) * 3 * self.image**2 > IN_MEMORY_BYTES:
            self.workers = self.most_workers
            return PictureFiles(files, labels, self.image)
        progress = tqdm(files, desc=f"reading {split}", leave=False, disable=len(files) < 500)
        return Items(torch.stack([read_picture(file, self.image) for file in progress]), labels)


class PictureFiles(Dataset):
    """Pictures read when a batch asks for them, indexed by (indices, seed)."""

    def __init__(self, files: list[Path], labels: Tensor, side: int) -> None:
        self.files, self.labels, self.side = files, labels, side

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Tensor, Tensor, int]:
        indices, seed = batch
        pictures = torch.stack([read_picture(self.files[i], self.side) for i in indices.tolist()])
        return pictures, self.labels[indices], seed
