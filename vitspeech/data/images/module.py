"""The base class of image data sets: uint8 pixels in memory, normalized and augmented in batches.

Shapes: B batch, C channels, N image side.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from vitspeech.data.images.augment import Augment
from vitspeech.data.images.reading import normalize
from vitspeech.data.module import DataModule, check_augment


class ImageData(DataModule):
    """A set of square RGB images with one label each.

    A data set of your own is a subclass that sets `labels` and `image` and implements `read`. In `mine.py`::

        import torch
        from vitspeech.data import ImageData, TensorItems

        class Brightness(ImageData):
            labels = ["dark", "bright"]
            image = 32

            def read(self, split):
                count = {"train": 1000, "validation": 100, "test": 101}[split]
                generator = torch.Generator().manual_seed(count)
                labels = torch.arange(count) % 2
                images = torch.randint(0, 150, (count, 3, 32, 32), generator=generator)
                images += 100 * labels[:, None, None, None]
                return TensorItems(images.to(torch.uint8), labels)

    `read` must return the same items whenever it is called. The config names the class,
    `data: {class_path: mine.Brightness, init_args: {batch: 64}}`. A subclass with a constructor of its own also takes
    `batch`, `augment` and `seed` and passes them on; the command line sets `seed`. Set `mean` and `std` to the
    statistics of the training images if they differ much from the defaults.

    Args:
        batch: Images of an optimizer step, on all devices together.
        augment: Augmentation of training images; `None` is `Augment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: The other arguments of `DataModule`: `storage`, `workers`, `broken`.

    Attributes:
        image: Side of the images in pixels.
        mean: Mean of each channel, with pixels scaled to 0..1.
        std: Standard deviation of each channel, with pixels scaled to 0..1.
    """

    items = "images"
    image: int
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    std: Sequence[float] = (0.25, 0.25, 0.25)

    def __init__(self, *, batch: int = 128, augment: Augment | None = None, seed: int = 0, **storage: Any) -> None:
        super().__init__(batch=batch, seed=seed, **storage)
        self.augment = Augment() if augment is None else augment
        check_augment(self.augment, Augment)

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"image": self.image, "mean": list(self.mean), "std": list(self.std)}

    def augment_batch(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Augment the pixels, normalize them, then apply cutout and mixing."""
        images = self.augment.erase(self.normalize(self.augment.pixels(inputs)))
        return self.augment.mix(images, labels, len(self.labels))

    def normalize(self, inputs: Tensor) -> Tensor:
        """Convert uint8 pixels (B, C, N, N) to floats with about mean 0 and variance 1 per channel."""
        return normalize(inputs, self.mean, self.std)
