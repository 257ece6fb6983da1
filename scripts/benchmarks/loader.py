"""Throughput of the data loader alone: images/s from memory, with augmentation."""

import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import origin
from vitspeech.data import Augment
from vitspeech.data.batches import TensorItems
from vitspeech.data.images.module import ImageData
from vitspeech.files import write_json

RECIPES = {
    "no augmentation": Augment(flip=False, translate=0),
    "flip, translation": Augment(),
    "flip, translation, cutout": Augment(cutout=12),
    "the same, mixup or cutmix": Augment(cutout=12, mixup=0.8, cutmix=1.0),
    "the same, RandAugment": Augment(cutout=12, mixup=0.8, cutmix=1.0, randaugment=2),
}


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        repeats: Passes of each recipe after a warm-up.
        images: Images per pass, at least one batch and at most 50,000.
        batch: Batch size.
    """

    repeats: int = 7
    images: int = 10_240
    batch: int = 512


class RandomPixels(ImageData):
    """Random images of the size and number of CIFAR's, with the same cost of reading and augmenting."""

    labels = tuple("0123456789")

    def read(self, split: str) -> TensorItems:
        pixels = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8)
        return TensorItems(pixels, torch.randint(0, 10, (50_000,)))


def benchmark(settings: Settings, path: Path) -> dict[str, Any]:
    """Images/s of each recipe: the median over the passes, recipes interleaved. The report is written to `path`."""
    sets = {name: RandomPixels(batch=settings.batch, augment=augment, seed=0) for name, augment in RECIPES.items()}
    pixels, batches_per_pass = next(iter(sets.values())).read("train"), settings.images // settings.batch
    seconds = {name: [] for name in sets}
    for number in range(settings.repeats + 1):
        for name, data in sets.items():
            data.train = pixels
            batches = iter(data.train_dataloader())
            start = time.perf_counter()
            for _ in range(batches_per_pass):
                data.training_batch(*next(batches))
            if number:
                seconds[name].append(time.perf_counter() - start)
    rates = {name: batches_per_pass * settings.batch / statistics.median(times) for name, times in seconds.items()}
    report = {"benchmark": "loader", "settings": asdict(settings), "loader": rates, **origin("cpu")}
    write_json(report, path)
    return report


def table(report: dict[str, Any]) -> str:
    """The rates as text."""
    return "\n".join(f"{name:28} {rate:10,.0f} images/s" for name, rate in report["loader"].items())
