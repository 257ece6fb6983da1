"""Images in memory: uint8 pixels to normalized floats, and their augmentation.

Shapes: B batch, C channels, N image side.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vitspeech.data.batches import InMemoryData
from vitspeech.data.images.augment import Augment


class ImageData(InMemoryData):
    """A set of square images: a subclass sets `labels`, `image`, `mean` and `std`, and implements `read`.

    Args:
        batch: Images a training batch, on each device.
        augment: What happens to training images; `None` is `Augment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If `batch` is below 1.
    """

    items = "images"
    image: int  # side in pixels
    mean: Sequence[float] = (0.5, 0.5, 0.5)  # per channel, of 0..1
    std: Sequence[float] = (0.25, 0.25, 0.25)

    def __init__(self, *, batch: int, augment: Augment | None, seed: int) -> None:
        super().__init__(batch=batch, seed=seed)
        self.augment = Augment() if augment is None else augment

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"image": self.image, "mean": list(self.mean), "std": list(self.std)}

    def augmented(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels are moved and cut out, then images and labels mixed."""
        images = self.augment.erase(self.normalized(self.augment.pixels(inputs)))
        return self.augment.mix(images, labels, len(self.labels))

    def normalized(self, inputs: Tensor) -> Tensor:
        """uint8 pixels (B, C, N, N) -> floats of about mean 0 and variance 1 in each channel."""
        return normalized(inputs, self.mean, self.std)


def normalized(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(pixels / 255 - mean) / std, channel by channel: uint8 (B, C, N, N) -> floats."""
    scale = 1 / (255 * torch.tensor(std, device=images.device))
    shift = torch.tensor(mean, device=images.device) / torch.tensor(std, device=images.device)
    return images * scale[:, None, None] - shift[:, None, None]
