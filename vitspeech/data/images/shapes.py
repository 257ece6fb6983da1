"""Ten classes of shapes, made on the spot: a data set to try everything on, without a file.

Each picture holds one shape of random place, size, rotation and color on a textured background, among smaller
distractors. Neither color nor place tells the class, so a linear model learns next to nothing.

Shapes: B batch, N image side.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset
from torchvision.io import write_png

from vitspeech.data.batches import Items
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.module import ImageData

LABELS = ("circle", "ring", "square", "triangle", "star", "cross", "crescent", "heart", "bar", "semicircle")
CONTRAST = 0.6  # distance of the shape's color from the ground's in RGB of 0..1
DISTRACTORS = 3
SPLITS = ("train", "validation", "test")


class Shapes(ImageData):
    """Pictures 3×32×32 of one of ten shapes; training, validation and test pictures are drawn apart.

    Args:
        count: Training pictures; validation and test have a fifth of it each.
        drawn_from: Seed of the pictures themselves; the same number gives the same pictures.
        batch: Pictures a training batch, on each device.
        augment: What happens to training pictures; `None` is `Augment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If `count` is below 50.
    """

    labels = list(LABELS)
    image = 32

    def __init__(
        self,
        count: int = 10_000,
        *,
        drawn_from: int = 0,
        batch: int = 128,
        augment: Augment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(batch=batch, augment=augment, seed=seed)
        if count < 50:
            raise ValueError(f"count={count} is below 50")
        self.count, self.drawn_from = count, drawn_from

    def read(self, split: str) -> Dataset:
        generator = torch.Generator().manual_seed(self.drawn_from * len(SPLITS) + SPLITS.index(split))
        count = self.count if split == "train" else self.count // 5
        labels = torch.randint(0, len(LABELS), (count,), generator=generator)
        pictures = [draw(some, self.image, generator) for some in labels.split(500)]
        return Items(torch.cat(pictures), labels)


def draw(labels: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """One picture a label: (B,) -> uint8 (B, 3, N, N)."""
    count = len(labels)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    ground = uniform(0.1, 0.9, 3, 1, 1)
    canvas = ground + texture(count, side, generator)
    for _ in range(DISTRACTORS):
        kinds = torch.randint(0, len(LABELS), (count,), generator=generator)
        cover = covered(kinds, uniform(0, side, 2), uniform(1.5, 3.0), uniform(0, 2 * math.pi), side)
        canvas = torch.where(cover[:, None] > 0.5, uniform(0, 1, 3, 1, 1), canvas)
    color = contrasting(ground, generator)
    radius = uniform(side / 4.5, side / 2.8)
    place = radius[:, None] * 0.8 + uniform(0, 1, 2) * (side - 1.6 * radius[:, None])
    cover = covered(labels, place, radius, uniform(0, 2 * math.pi), side)[:, None]
    painted = color + 0.3 * texture(count, side, generator)
    noise = 0.04 * torch.randn(count, 3, side, side, generator=generator)
    return ((cover * painted + (1 - cover) * canvas + noise).clamp(0, 1) * 255).round().to(torch.uint8)


def contrasting(ground: Tensor, generator: torch.Generator) -> Tensor:
    """A random color `CONTRAST` away from the ground's: (B, 3, 1, 1) -> (B, 3, 1, 1)."""
    step = CONTRAST * F.normalize(torch.randn(ground.shape, generator=generator), dim=1)
    return torch.where((ground + step - 0.5).abs() > 0.5, ground - step, ground + step)


def texture(count: int, side: int, generator: torch.Generator) -> Tensor:
    """Smooth blotches and a grating of random direction, about ±0.2: (B, 3, N, N)."""
    blotches = F.interpolate(torch.randn(count, 3, 6, 6, generator=generator), side, mode="bicubic") * 0.08
    angle, wavelength, phase = torch.rand(3, count, 1, 1, generator=generator)
    angle, wavelength = angle * math.pi, 3 + 9 * wavelength
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    wave = torch.sin(2 * math.pi * ((row * angle.sin() + column * angle.cos()) / wavelength + phase))
    return blotches + 0.1 * wave[:, None] * torch.randn(count, 3, 1, 1, generator=generator)


def covered(labels: Tensor, place: Tensor, radius: Tensor, angle: Tensor, side: int) -> Tensor:
    """How much of each pixel the shape covers, 0 to 1 over one pixel at its edge: (B, N, N)."""
    pixel = torch.arange(side) + 0.5
    down = (pixel[:, None] - place[:, 0, None, None]) / radius[:, None, None]
    across = (pixel[None, :] - place[:, 1, None, None]) / radius[:, None, None]
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    x, y = across * cosine + down * sine, down * cosine - across * sine
    outside = torch.empty_like(x)
    for kind in labels.unique().tolist():
        chosen = labels == kind
        outside[chosen] = distance(LABELS[kind], x[chosen], y[chosen])
    return (0.5 - outside * radius[:, None, None]).clamp(0, 1)


def distance(shape: str, x: Tensor, y: Tensor) -> Tensor:
    """Roughly how far a point is outside a shape of radius one; negative inside."""
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
    if shape == "semicircle":
        return torch.maximum(r - 0.95, -0.25 - y)
    raise ValueError(f"shape {shape!r} is unknown; known: {', '.join(LABELS)}")


def save_example(path: str, label: str = "star") -> None:
    """Write one picture of that shape, of no split, larger than the training pictures."""
    picture = draw(torch.tensor([LABELS.index(label)]), 96, torch.Generator().manual_seed(7))
    write_png(picture[0], path)
