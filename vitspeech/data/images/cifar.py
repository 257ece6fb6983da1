"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in torchvision's folder layout."""

from functools import cached_property
from typing import Literal

import torch
from torch.utils.data import Dataset
from torchvision.datasets import CIFAR10, CIFAR100

from vitspeech.data.batches import Items, default_root, held_out
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData


class Cifar(ImageData):
    """CIFAR-10 or CIFAR-100: 50,000 images to train and validate, 10,000 to test, 3×32×32, read once into memory.

    Args:
        classes: 10 or 100.
        root: Folder that holds `cifar-10-batches-py` or `cifar-100-python`; `None` is VITSPEECH_DATA, else `data`.
        batch: Images a training batch, on each device.
        validation: Training images held out to validate on, the same whatever the seed.
        download: Fetch the data set into `root` if it is not there.
        augment: What happens to training images; `None` is `Augment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If `classes` is neither 10 nor 100.
        FileNotFoundError: If the data set is not in `root`, or a file of it differs from the published MD5.
    """

    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)

    def __init__(
        self,
        classes: Literal[10, 100] = 10,
        root: str | None = None,
        *,
        batch: int = 512,
        validation: int = 5000,
        download: bool = False,
        augment: Augment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(batch=batch, augment=augment, seed=seed)
        if classes not in (10, 100):
            raise ValueError(f"classes={classes}; CIFAR has 10 or 100")
        self.classes, self.image = classes, 32
        self.reader = CIFAR10 if classes == 10 else CIFAR100
        self.root = default_root(root)
        self.held_out, self.download = validation, download

    def prepare_data(self) -> None:
        """Check every file's MD5, or fetch the set if that was asked for; one process of a machine does it."""
        if self.download:
            self.reader(self.root, download=True)
        self.official("test")

    @cached_property
    def labels(self) -> list[str]:
        return self.official("test").classes

    def read(self, split: str) -> Dataset:
        official = self.official(split)
        images = torch.from_numpy(official.data).permute(0, 3, 1, 2)
        labels = torch.tensor(official.targets)
        if split != "test":
            train, validation = held_out(len(labels), self.held_out)
            chosen = train if split == "train" else validation
            images, labels = images[chosen], labels[chosen]
        return Items(images.contiguous(), labels)

    def official(self, split: str) -> CIFAR10:
        """torchvision's reader of the official training or test batches."""
        try:
            return self.reader(self.root, train=split != "test")
        except RuntimeError:
            folder = f"{self.root}/{self.reader.base_folder}"
            raise FileNotFoundError(
                f"{folder}: CIFAR-{self.classes} is not there or a file's MD5 differs from the published one; "
                "give its folder's parent by --data.root or VITSPEECH_DATA, or fetch it with --data.download true"
            ) from None
