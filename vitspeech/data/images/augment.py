"""Augmentation of whole batches, on whatever device they are.

Shapes: B batch, C channels, N image side.
"""

from dataclasses import dataclass

import torch
from timm.data import Mixup
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms import v2


@dataclass
class Augment:
    """Random changes that leave an image's label true; the default is the one that suits most small images.

    Draws come from torch's global generator (and NumPy's for mixup), which the data module seeds for every batch.

    Args:
        flip: Mirror left and right, for half of the images.
        translate: Shift by up to this many pixels each way; the border is reflected.
        cutout: Side in pixels of a square set to the mean color (DeVries and Taylor 2017, arXiv:1708.04552).
        randaugment: Operations of RandAugment (Cubuk et al. 2019, arXiv:1909.13719); groups of sixteen images
            share their draw.
        mixup: Beta parameter of mixup (Zhang et al. 2018, arXiv:1710.09412); 0 is off.
        cutmix: Beta parameter of cutmix (Yun et al. 2019, arXiv:1905.04899); 0 is off. With both, each batch
            takes one of them.

    Raises:
        ValueError: If a number is negative.
    """

    flip: bool = True
    translate: int = 4
    cutout: int = 0
    randaugment: int = 0
    mixup: float = 0.0
    cutmix: float = 0.0

    def __post_init__(self) -> None:
        for name in ("translate", "cutout", "randaugment", "mixup", "cutmix"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} is negative; 0 switches it off")

    def pixels(self, images: Tensor) -> Tensor:
        """Change uint8 images: (B, C, N, N) -> (B, C, N, N)."""
        if self.flip:
            mirrored = torch.rand(len(images), device=images.device) < 0.5
            images = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
        if self.translate:
            images = translated(images, self.translate)
        if self.randaugment:
            operation = v2.RandAugment(num_ops=self.randaugment)
            images = torch.cat([operation(some) for some in images.split(16)])
        return images

    def erase(self, images: Tensor) -> Tensor:
        """Cut squares out of normalized images, whose mean is 0: (B, C, N, N) -> (B, C, N, N)."""
        return cut_out(images, self.cutout) if self.cutout else images

    def mix(self, images: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """Blend images and labels: (B, C, N, N), (B,) -> the same images' shape, labels (B, classes) if mixed."""
        if not self.mixup and not self.cutmix:
            return images, labels
        # timm's mixup pairs a batch with itself in reverse and needs an even one; an odd last image stays out.
        even = len(images) - len(images) % 2
        blend = Mixup(self.mixup, self.cutmix, label_smoothing=0.0, num_classes=classes)
        mixed, shares = blend(images[:even].clone(), labels[:even])
        if even == len(images):
            return mixed, shares
        last = F.one_hot(labels[even:], classes).to(shares.dtype)
        return torch.cat((mixed, images[even:])), torch.cat((shares, last))


def translated(images: Tensor, reach: int) -> Tensor:
    """Each image shifted by its own draw of up to `reach` pixels each way, the border reflected."""
    count, _, height, width = images.shape
    # Reflection is defined for floats; the windows are views of one padded batch, and one index copies them out.
    padded = F.pad(images.half() if images.is_cuda else images.float(), (reach,) * 4, mode="reflect").to(images.dtype)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    down, across = torch.randint(0, 2 * reach + 1, (2, count), device=images.device)
    return windows[torch.arange(count, device=images.device), :, down, across]


def cut_out(images: Tensor, side: int) -> Tensor:
    """Each image with one square of `side` pixels, centerd anywhere in it, set to zero."""
    count, _, height, width = images.shape

    def hidden(length: int) -> Tensor:
        start = torch.randint(0, length, (count, 1), device=images.device) - side // 2
        pixel = torch.arange(length, device=images.device)
        return (pixel >= start) & (pixel < start + side)

    return images.masked_fill(hidden(height)[:, None, :, None] & hidden(width)[:, None, None, :], 0)
