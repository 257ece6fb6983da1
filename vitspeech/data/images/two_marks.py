"""Images labeled by the relation of two marks at a given distance: a test of a model's effective receptive field.

A crescent of random rotation lies near the center. A dot lies on its open side or exactly opposite. Neither mark alone
carries information about the label, and neither does a linear combination of both: a model must relate the crescent's
direction to the dot's position, and therefore have both within one receptive field.

Shapes: B batch, N image side.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.batches import TensorItems
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.shapes import LABELS, SPLITS, contrasting_color, coverage, texture
from vitspeech.errors import MOST_SEED, check_number

CRESCENT, DOT = LABELS.index("crescent"), LABELS.index("circle")
CRESCENT_RADIUS, DOT_RADIUS = 3.4, 1.75  # px
NEAREST, FARTHEST = 5.0, 13.0  # px: closer marks would touch; farther, the dot would leave the image
EVALUATION_COUNT = 2000  # images each for validation and test
JITTER = 1.0  # px: largest offset of the crescent from the center, vertically and horizontally


class TwoMarks(ImageData):
    """Images of a crescent and a dot, 3×32×32; training, validation and test images are generated independently.

    For the same `drawn_from`, images at different distances differ only in the dot's position.

    Args:
        distance: Distance between the centers of crescent and dot, in px.
        count: Number of training images. Validation and test have 2,000 each whatever `count` is, so that results of
            small runs are precise, too.
        drawn_from: Seed of the generated images, independent of the run's seed.
        augment: Augmentation of training images; `None` mirrors half of them, which keeps the label. `translate` and
            `cutout` may hide a mark and are off by default.
        **options: The others of `ImageData`: `batch` and `seed`.
    """

    labels = ["away", "towards"]
    image = 32

    def __init__(
        self,
        distance: float = 9.0,
        count: int = 10_000,
        *,
        drawn_from: int = 0,
        augment: Augment | None = None,
        **options: Any,
    ) -> None:
        super().__init__(augment=Augment(translate=0) if augment is None else augment, **options)
        check_number("distance", distance, NEAREST, FARTHEST)
        check_number("count", count, 50, 10**7)
        check_number("drawn_from", drawn_from, 0, MOST_SEED)
        self.distance, self.count, self.drawn_from = distance, count, drawn_from

    def read(self, split: str) -> Dataset:
        generator = torch.Generator().manual_seed(self.drawn_from * len(SPLITS) + SPLITS.index(split))
        count = self.count if split == "train" else EVALUATION_COUNT
        marks = place_marks(count, self.distance, self.image, generator)
        parts = (part.split(500) for part in marks)
        pictures = [draw(Marks(*part), self.image, generator) for part in zip(*parts, strict=True)]
        return TensorItems(torch.cat(pictures), marks.labels)


class Marks(NamedTuple):
    """Positions of the marks in a batch of images, as (down, across) in px from the upper left corner."""

    crescent: Tensor  # its center (B, 2)
    angle: Tensor  # the direction of its opening, in radians clockwise from the right (B,)
    dot: Tensor  # its center (B, 2)
    labels: Tensor  # 1 if the dot is on the open side, 0 if it is opposite (B,)


def place_marks(count: int, distance: float, side: int, generator: torch.Generator) -> Marks:
    """Draw positions, directions and labels independently of each other; the dot's position follows from them."""
    crescent = side / 2 + JITTER * (2 * torch.rand(count, 2, generator=generator) - 1)
    angle = 2 * math.pi * torch.rand(count, generator=generator)
    labels = torch.randint(0, 2, (count,), generator=generator)
    opening = torch.stack((angle.sin(), angle.cos()), dim=1)
    return Marks(crescent, angle, crescent + (2 * labels[:, None] - 1) * distance * opening, labels)


def draw(marks: Marks, side: int, generator: torch.Generator, *, crescent: bool = True, dot: bool = True) -> Tensor:
    """Draw one image per row of `marks`. Leaving out a mark changes nothing else in the image.

    Shape:
        -> uint8 (B, 3, N, N)
    """
    count = len(marks.labels)
    background = 0.1 + 0.8 * torch.rand(count, 3, 1, 1, generator=generator)
    picture = background + 0.25 * texture(count, side, generator)
    for visible, kind, center, radius in (
        (crescent, CRESCENT, marks.crescent, CRESCENT_RADIUS),
        (dot, DOT, marks.dot, DOT_RADIUS),
    ):
        color = contrasting_color(background, generator)
        if visible:
            kinds, radii = torch.full((count,), kind), torch.full((count,), radius)
            cover = coverage(kinds, center, radii, marks.angle, side)[:, None]
            picture = cover * color + (1 - cover) * picture
    noise = 0.04 * torch.randn(count, 3, side, side, generator=generator)
    return ((picture + noise).clamp(0, 1) * 255).round().to(torch.uint8)
