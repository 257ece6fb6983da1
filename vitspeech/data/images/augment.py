"""Augmentation of whole batches of images, on the device they are on.

Shapes: B batch, C channels, N image side.
"""

from dataclasses import dataclass

import torch
from timm.data import Mixup
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms import v2

from vitspeech.errors import check_number


@dataclass
class Augment:
    """Random changes to training images that preserve their label. The default suits most small images.

    Random numbers come from torch's global generator (and NumPy's for mixup), which the data module seeds for every
    batch.

    Args:
        flip: Mirror each image horizontally with probability 0.5.
        translate: Largest shift in pixels, in each direction; the border is reflected.
        cutout: Side in pixels of a square set to the mean color (DeVries and Taylor 2017, arXiv:1708.04552).
        randaugment: Operations of RandAugment (Cubuk et al. 2019, arXiv:1909.13719); sixteen images at a time get
            the same operations.
        mixup: Beta parameter of mixup (Zhang et al. 2018, arXiv:1710.09412); 0 is off.
        cutmix: Beta parameter of cutmix (Yun et al. 2019, arXiv:1905.04899); 0 is off. If both are on, each batch
            uses one of them.
    """

    flip: bool = True
    translate: int = 4
    cutout: int = 0
    randaugment: int = 0
    mixup: float = 0.0
    cutmix: float = 0.0

    def __post_init__(self) -> None:
        for name in ("translate", "cutout", "randaugment", "mixup", "cutmix"):
            check_number(name, getattr(self, name), 0)

    def pixels(self, images: Tensor) -> Tensor:
        """Flip and translate uint8 images and apply RandAugment: (B, C, N, N) -> (B, C, N, N)."""
        if self.flip:
            mirror = torch.rand(len(images), device=images.device) < 0.5
            images = torch.where(mirror[:, None, None, None], images.flip(-1), images)
        if self.translate:
            images = translate(images, self.translate)
        if self.randaugment:
            operation = v2.RandAugment(num_ops=self.randaugment)
            images = torch.cat([operation(group) for group in images.split(16)])
        return images

    def erase(self, images: Tensor) -> Tensor:
        """Apply cutout to normalized images, whose mean is 0: (B, C, N, N) -> (B, C, N, N)."""
        return cut_out(images, self.cutout) if self.cutout else images

    def mix(self, images: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """Apply mixup or cutmix: (B, C, N, N), (B,) -> images of the same shape, labels (B, classes) if mixed."""
        if not self.mixup and not self.cutmix:
            return images, labels
        # timm's Mixup pairs a batch with its reverse and needs an even size; the last image of an odd batch stays out.
        even = len(images) - len(images) % 2
        mixup = Mixup(self.mixup, self.cutmix, label_smoothing=0.0, num_classes=classes)
        mixed_images, soft_labels = mixup(images[:even].clone(), labels[:even])
        if even == len(images):
            return mixed_images, soft_labels
        last_label = F.one_hot(labels[even:], classes).to(soft_labels.dtype)
        return torch.cat((mixed_images, images[even:])), torch.cat((soft_labels, last_label))


def translate(images: Tensor, reach: int) -> Tensor:
    """Shift each image by its own random offset of up to `reach` pixels in each direction; reflect the border."""
    count, _, height, width = images.shape
    # Reflection padding needs floats. The windows are views of one padded batch; a single index copies them out.
    padded = F.pad(images.half() if images.is_cuda else images.float(), (reach,) * 4, mode="reflect").to(images.dtype)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    down, across = torch.randint(0, 2 * reach + 1, (2, count), device=images.device)
    return windows[torch.arange(count, device=images.device), :, down, across]


def cut_out(images: Tensor, side: int) -> Tensor:
    """Set one square of `side` pixels, centered anywhere in the image, to zero in each image."""
    count, _, height, width = images.shape

    def mask(length: int) -> Tensor:
        start = torch.randint(0, length, (count, 1), device=images.device) - side // 2
        pixel = torch.arange(length, device=images.device)
        return (pixel >= start) & (pixel < start + side)

    return images.masked_fill(mask(height)[:, None, :, None] & mask(width)[:, None, None, :], 0)
