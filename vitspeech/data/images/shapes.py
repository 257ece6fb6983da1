"""Generated images, which need no files: ten classes of shapes, and pairs of marks at a given distance.

An image of `Shapes` has one shape of random position, size, rotation and color on a textured background with smaller
distractors. Color and position carry no information about the class, so a linear model learns almost nothing.

Shapes: B batch, N image side.
"""

import math
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset

from vitspeech.data.batches import TensorItems
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData
from vitspeech.errors import MOST_SEED, check_number

LABELS = ("circle", "ring", "square", "triangle", "star", "cross", "crescent", "heart", "bar", "semicircle")
CONTRAST = 0.6  # distance between the colors of shape and background, in RGB of 0..1
DISTRACTORS = 3
SPLITS = ("train", "validation", "test")


class Shapes(ImageData):
    """Images of ten shapes, 3×32×32; training, validation and test images are generated independently.

    Args:
        count: Number of training images; validation and test have a fifth of it each.
        drawn_from: Seed of the generated images, independent of the run's seed.
        **options: Those of `ImageData`: `batch`, `augment` and `seed`.
    """

    labels = list(LABELS)
    image = 32

    def __init__(self, count: int = 10_000, *, drawn_from: int = 0, **options: Any) -> None:
        super().__init__(**options)
        check_number("count", count, 50, 10**7)
        check_number("drawn_from", drawn_from, 0, MOST_SEED)
        self.count, self.drawn_from = count, drawn_from

    def read(self, split: str) -> Dataset:
        generator = torch.Generator().manual_seed(self.drawn_from * len(SPLITS) + SPLITS.index(split))
        count = self.count if split == "train" else self.count // 5
        labels = torch.randint(0, len(LABELS), (count,), generator=generator)
        pictures = [draw(part, self.image, generator) for part in labels.split(500)]
        return TensorItems(torch.cat(pictures), labels)


def draw(labels: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Draw one image per label: (B,) -> uint8 (B, 3, N, N)."""
    count = len(labels)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    background = uniform(0.1, 0.9, 3, 1, 1)
    canvas = background + texture(count, side, generator)
    for _ in range(DISTRACTORS):
        kinds = torch.randint(0, len(LABELS), (count,), generator=generator)
        cover = coverage(kinds, uniform(0, side, 2), uniform(1.5, 3.0), uniform(0, 2 * math.pi), side)
        canvas = torch.where(cover[:, None] > 0.5, uniform(0, 1, 3, 1, 1), canvas)
    color = contrasting_color(background, generator)
    radius = uniform(side / 4.5, side / 2.8)
    center = radius[:, None] * 0.8 + uniform(0, 1, 2) * (side - 1.6 * radius[:, None])
    cover = coverage(labels, center, radius, uniform(0, 2 * math.pi), side)[:, None]
    shape = color + 0.3 * texture(count, side, generator)
    noise = 0.04 * torch.randn(count, 3, side, side, generator=generator)
    return ((cover * shape + (1 - cover) * canvas + noise).clamp(0, 1) * 255).round().to(torch.uint8)


def contrasting_color(background: Tensor, generator: torch.Generator) -> Tensor:
    """Random colors at distance `CONTRAST` from the background's: (B, 3, 1, 1) -> (B, 3, 1, 1)."""
    step = CONTRAST * F.normalize(torch.randn(background.shape, generator=generator), dim=1)
    return torch.where((background + step - 0.5).abs() > 0.5, background - step, background + step)


def texture(count: int, side: int, generator: torch.Generator) -> Tensor:
    """Random textures, smooth blotches plus a grating of random direction, about ±0.2: (B, 3, N, N)."""
    blotches = F.interpolate(torch.randn(count, 3, 6, 6, generator=generator), side, mode="bicubic") * 0.08
    angle, wavelength, phase = torch.rand(3, count, 1, 1, generator=generator)
    angle, wavelength = angle * math.pi, 3 + 9 * wavelength
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    wave = torch.sin(2 * math.pi * ((row * angle.sin() + column * angle.cos()) / wavelength + phase))
    return blotches + 0.1 * wave[:, None] * torch.randn(count, 3, 1, 1, generator=generator)


def coverage(labels: Tensor, center: Tensor, radius: Tensor, angle: Tensor, side: int) -> Tensor:
    """The fraction of each pixel that the shape covers, antialiased over one pixel at its edge: (B, N, N)."""
    pixel = torch.arange(side) + 0.5
    down = (pixel[:, None] - center[:, 0, None, None]) / radius[:, None, None]
    across = (pixel[None, :] - center[:, 1, None, None]) / radius[:, None, None]
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    x, y = across * cosine + down * sine, down * cosine - across * sine
    outside = torch.empty_like(x)
    for kind in labels.unique().tolist():
        rows = labels == kind
        outside[rows] = distance(LABELS[kind], x[rows], y[rows])
    return (0.5 - outside * radius[:, None, None]).clamp(0, 1)


def distance(shape: str, x: Tensor, y: Tensor) -> Tensor:
    """Approximate signed distance of a point to the edge of a shape of radius 1; negative inside."""
    r = (x * x + y * y).sqrt()
    if shape == "circle":
        return r - 0.85
    if shape == "ring":
        return (r - 0.72).abs() - 0.22
    if shape == "square":
        return torch.maximum(x.abs(), y.abs()) - 0.75
    if shape == "triangle":
        corners = [2 * math.pi * corner / 3 for corner in range(3)]
        return torch.stack([x * math.cos(a) + y * math.sin(a) for a in corners]).amax(0) - 0.5
    if shape == "star":
        return (r - 0.62 - 0.33 * torch.cos(5 * torch.atan2(y, x))) * 0.6
    if shape == "cross":
        return torch.maximum(torch.minimum(x.abs(), y.abs()) - 0.25, torch.maximum(x.abs(), y.abs()) - 0.95)
    if shape == "crescent":
        return torch.maximum(r - 0.95, 0.72 - ((x - 0.5) ** 2 + y * y).sqrt())
    if shape == "heart":
        lobes = 0.9 * x.abs()
        return ((lobes**2 + (y - 0.6 * lobes.sqrt()) ** 2).sqrt() - 0.72) * 0.8
    if shape == "bar":
        return torch.maximum(x.abs() - 0.95, y.abs() - 0.28)
    return torch.maximum(r - 0.95, -0.25 - y)  # a semicircle


def save_example(path: str, label: str = "star") -> None:
    """Write an image of one shape, 96×96, that belongs to no split."""
    picture = draw(torch.tensor([LABELS.index(label)]), 96, torch.Generator().manual_seed(7))
    Image.fromarray(picture[0].permute(1, 2, 0).numpy()).save(path)


# Two marks at a given distance test a model's effective receptive field. A crescent of random rotation lies near the
# center, and a dot on its open side or exactly opposite. Neither mark alone carries information about the label, nor
# does a linear combination of both: a model must relate the crescent's direction to the dot's position, and therefore
# have both within one receptive field.

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
        pictures = [draw_marks(Marks(*part), self.image, generator) for part in zip(*parts, strict=True)]
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


def draw_marks(
    marks: Marks, side: int, generator: torch.Generator, *, crescent: bool = True, dot: bool = True
) -> Tensor:
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
