#!/usr/bin/env python3
"""Measure on this machine: `benchmark.py loader` prints images/s out of memory, augmentation included.

The medians are of seven passes after a warm-up, the variants interleaved; nothing else should run meanwhile.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from vitspeech import Augment, command_line
from vitspeech.data.in_memory import ImageData, Images
from vitspeech.provenance import provenance

RECIPES = {
    "no augmentation": Augment(flip=False, translate=0),
    "flip, translation": Augment(),
    "flip, translation, cutout": Augment(cutout=12),
    "the same, mixup or cutmix": Augment(cutout=12, mixup=0.8, cutmix=1.0),
    "the same, RandAugment": Augment(cutout=12, mixup=0.8, cutmix=1.0, randaugment=2),
}


class RandomPixels(ImageData):
    """As many images as CIFAR has, of noise: reading and augmenting costs the same."""

    labels = tuple("0123456789")

    def read(self, split: str) -> Images:
        pixels = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8)
        return Images(pixels, torch.randint(0, 10, (50_000,)))


def loader(passes: int, images: int, batch: int) -> dict[str, float]:
    """Images/s of each recipe: the median over the passes."""
    sets = {name: RandomPixels(batch=batch, augment=augment, seed=0) for name, augment in RECIPES.items()}
    pixels = next(iter(sets.values())).read("train")
    seconds = {name: [] for name in sets}
    for number in range(passes + 1):
        for name, data in sets.items():
            data.train = pixels
            batches = iter(data.train_dataloader())
            start = time.perf_counter()
            for _ in range(images // batch):
                data.augmented(*next(batches))
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: images // batch * batch / statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["loader"], help="what to measure")
    parser.add_argument("--passes", type=int, default=7, help="passes of each variant (default 7)")
    parser.add_argument("--images", type=int, default=10_240, help="images a pass (default 10,240)")
    parser.add_argument("--json", type=Path, help="write the numbers there, too")
    arguments = parser.parse_args()
    rates = loader(arguments.passes, arguments.images, batch=512)
    for name, rate in rates.items():
        print(f"{name:28} {rate:10,.0f} images/s")
    if arguments.json:
        arguments.json.write_text(json.dumps({"loader": rates, **provenance()}, indent=2) + "\n")


if __name__ == "__main__":
    command_line.run(main)
