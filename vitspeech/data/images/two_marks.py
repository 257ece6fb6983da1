"""Pictures whose label is the relation of two marks at a chosen distance: what a model has to see together.

Near the middle lies a crescent, turned anyhow; a dot lies where it opens, or exactly behind its back. Each mark by
itself says nothing of the label, and neither do both, added up: direction and place are known, their agreement is not.

Shapes: B batch, N image side.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.batches import Items
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.shapes import LABELS, SPLITS, contrasting, covered, texture

CRESCENT, DOT = LABELS.index("crescent"), LABELS.index("circle")
CRESCENT_RADIUS, DOT_RADIUS = 3.4, 1.75  # px
NEAREST, FARTHEST = 5.0, 13.0  # px: nearer they would touch, farther the dot would leave the picture
HELD_OUT = 2000  # pictures
JITTER = 1.0  # px that the crescent is off the middle at most, down and across


class TwoMarks(ImageData):
    """Pictures 3×32×32 of a crescent and a dot; training, validation and test pictures are drawn apart.

    The same number draws the same pictures at any distance, but for where the dot lies.

    Args:
        distance: From the crescent's center to the dot's, in px.
        count: Training pictures; validation and test have 2,000 each, so that a probe with few is still a sharp one.
        drawn_from: Seed of the pictures themselves; the same number gives the same pictures.
        batch: Pictures a training batch, on each device.
        augment: What happens to training pictures; `None` mirrors half of them, both marks alike. What moves or hides a
            mark (`translate`, `cutout`) would leave pictures without an answer.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If the marks would touch or the dot would leave the picture at that distance, or `count` is below
            50.
    """

    labels = ["away", "toward"]
    image = 32

    def __init__(
        self,
        distance: float = 9.0,
        count: int = 10_000,
        *,
        drawn_from: int = 0,
        batch: int = 128,
        augment: Augment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(batch=batch, augment=Augment(translate=0) if augment is None else augment, seed=seed)
        if not NEAREST <= distance <= FARTHEST:
            raise ValueError(f"distance={distance} px is not within {NEAREST} .. {FARTHEST}")
        if count < 50:
            raise ValueError(f"count={count} is below 50")
        self.distance, self.count, self.drawn_from = distance, count, drawn_from

    def read(self, split: str) -> Dataset:
        generator = torch.Generator().manual_seed(self.drawn_from * len(SPLITS) + SPLITS.index(split))
        count = self.count if split == "train" else HELD_OUT
        marks = placed(count, self.distance, self.image, generator)
        parts = (part.split(500) for part in marks)
        pictures = [draw(Marks(*some), self.image, generator) for some in zip(*parts, strict=True)]
        return Items(torch.cat(pictures), marks.labels)


class Marks(NamedTuple):
    """Where the marks of a batch of pictures lie; places are (down, across) in px from the upper left corner.

    Attributes:
        crescent: Its center (B, 2).
        angle: Where it opens, in radians clockwise from the right (B,).
        dot: Its center (B, 2).
        labels: 1 where the dot lies on the open side, 0 where it lies behind (B,).
    """

    crescent: Tensor
    angle: Tensor
    dot: Tensor
    labels: Tensor


def placed(count: int, distance: float, side: int, generator: torch.Generator) -> Marks:
    """Places, directions and labels, each drawn independently of the others; the dot follows from them."""
    crescent = side / 2 + JITTER * (2 * torch.rand(count, 2, generator=generator) - 1)
    angle = 2 * math.pi * torch.rand(count, generator=generator)
    labels = torch.randint(0, 2, (count,), generator=generator)
    opening = torch.stack((angle.sin(), angle.cos()), dim=1)
    return Marks(crescent, angle, crescent + (2 * labels[:, None] - 1) * distance * opening, labels)


def draw(marks: Marks, side: int, generator: torch.Generator, *, crescent: bool = True, dot: bool = True) -> Tensor:
    """A picture of each row of `marks`; without one of the marks everything else is drawn as it was.

    Shape:
        -> uint8 (B, 3, N, N)
    """
    count = len(marks.labels)
    ground = 0.1 + 0.8 * torch.rand(count, 3, 1, 1, generator=generator)
    picture = ground + 0.25 * texture(count, side, generator)
    for shown, kind, place, radius in (
        (crescent, CRESCENT, marks.crescent, CRESCENT_RADIUS),
        (dot, DOT, marks.dot, DOT_RADIUS),
    ):
        color = contrasting(ground, generator)
        if shown:
            kinds, radii = torch.full((count,), kind), torch.full((count,), radius)
            cover = covered(kinds, place, radii, marks.angle, side)[:, None]
            picture = cover * color + (1 - cover) * picture
    noise = 0.04 * torch.randn(count, 3, side, side, generator=generator)
    return ((picture + noise).clamp(0, 1) * 255).round().to(torch.uint8)
