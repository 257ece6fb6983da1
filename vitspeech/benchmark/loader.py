"""Throughput of the data loader alone: images/s from memory, with augmentation."""

import statistics
import time

import torch

from vitspeech.data import Augment
from vitspeech.data.batches import TensorItems
from vitspeech.data.images.module import ImageData
from vitspeech.errors import InputError

RECIPES = {
    "no augmentation": Augment(flip=False, translate=0),
    "flip, translation": Augment(),
    "flip, translation, cutout": Augment(cutout=12),
    "the same, mixup or cutmix": Augment(cutout=12, mixup=0.8, cutmix=1.0),
    "the same, RandAugment": Augment(cutout=12, mixup=0.8, cutmix=1.0, randaugment=2),
}


class RandomPixels(ImageData):
    """Random images of the size and number of CIFAR's, with the same cost of reading and augmenting."""

    labels = tuple("0123456789")

    def read(self, split: str) -> TensorItems:
        pixels = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8)
        return TensorItems(pixels, torch.randint(0, 10, (50_000,)))


def benchmark(passes: int, images: int, batch: int) -> dict[str, float]:
    """Images/s of each recipe: the median over the passes, with interleaved recipes after a warm-up.

    Args:
        passes: Number of passes of each recipe.
        images: Images per pass.
        batch: Batch size.

    Raises:
        InputError: If there is no pass, or a pass is shorter than one batch.
    """
    if passes < 1:
        raise InputError(f"passes={passes} is below 1")
    if not batch <= images <= 50_000:
        raise InputError(f"images={images} is not between one batch and one epoch, {batch}..50000")
    sets = {name: RandomPixels(batch=batch, augment=augment, seed=0) for name, augment in RECIPES.items()}
    pixels = next(iter(sets.values())).read("train")
    seconds = {name: [] for name in sets}
    for number in range(passes + 1):
        for name, data in sets.items():
            data.train = pixels
            batches = iter(data.train_dataloader())
            start = time.perf_counter()
            for _ in range(images // batch):
                data.training_batch(*next(batches))
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: images // batch * batch / statistics.median(times) for name, times in seconds.items()}


def table(rates: dict[str, float]) -> str:
    """The rates as text."""
    return "\n".join(f"{name:28} {rate:10,.0f} images/s" for name, rate in rates.items())
