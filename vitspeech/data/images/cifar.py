"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in torchvision's folder layout."""

from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils.data import Dataset
from torchvision.datasets import CIFAR10, CIFAR100

from vitspeech.data.batches import TensorItems
from vitspeech.data.downloads import downloading
from vitspeech.data.images.module import ImageData
from vitspeech.data.module import default_root
from vitspeech.data.splits import split_indices

# The order of the official label numbers.
LABELS = {
    10: "airplane automobile bird cat deer dog frog horse ship truck".split(),
    100: (
        "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
        "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
        "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
        "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
        "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
        "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
        "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
    ).split(),
}


class Cifar(ImageData):
    """CIFAR-10 or CIFAR-100: 50,000 images for training and validation, 10,000 for test, 3×32×32, held in memory.

    Args:
        classes: 10 or 100.
        root: Folder that contains `cifar-10-batches-py` or `cifar-100-python`; `None` is VITSPEECH_DATA, else `data`.
        batch: Images of an optimizer step, on all devices together.
        validation: Number of training images held out for validation; the same images for every seed.
        download: Download the data set into `root` if it is missing.
        **options: Those of `ImageData`: `augment`, `seed`, `storage` and `workers`.
    """

    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)
    image = 32

    def __init__(
        self,
        classes: Literal[10, 100] = 10,
        root: str | None = None,
        *,
        batch: int = 512,
        validation: int = 5000,
        download: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(batch=batch, **options)
        self.classes, self.labels = classes, LABELS[classes]
        self.reader = CIFAR10 if classes == 10 else CIFAR100
        self.root = default_root(root)
        self.validation_count, self.download = validation, download

    def prepare_data(self) -> None:
        """Check the MD5 of every file, or download the data set if asked to; every process of a run calls this."""
        try:
            self.official_split("test")
        except FileNotFoundError:
            if not self.download:
                raise
            with downloading(Path(self.root, self.reader.base_folder).expanduser(), self.reader.url):
                self.reader(self.root, download=True)  # only reads what another process has unpacked in the meantime

    def read(self, split: str) -> Dataset:
        official = self.official_split(split)
        images = torch.from_numpy(official.data).permute(0, 3, 1, 2)
        labels = torch.tensor(official.targets)
        if split != "test":
            train, validation = split_indices(len(labels), self.validation_count)
            indices = train if split == "train" else validation
            images, labels = images[indices], labels[indices]
        return TensorItems(images.contiguous(), labels)

    def official_split(self, split: str) -> CIFAR10:
        """Read the official training or test batches with torchvision."""
        try:
            return self.reader(self.root, train=split != "test")
        except RuntimeError:
            folder = f"{self.root}/{self.reader.base_folder}"
            raise FileNotFoundError(
                f"{folder}: CIFAR-{self.classes} is missing, or a file's MD5 differs from the published one; pass the "
                "parent folder by VITSPEECH_DATA or --data.root (evaluate, compare: --data), or download the data set "
                "with `vitspeech train ... --data.download true`"
            ) from None
