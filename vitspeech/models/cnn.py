"""The convolutional baseline: a small fast network, or timm's ResNet-18, under one head.

Shapes: B batch, N image side, W features before the head.
"""

import itertools
from typing import Literal

import timm
import torch
from torch import Tensor, nn


class CNN(nn.Module):
    """A convolutional classifier to stand beside a ViT.

    `small` is made for short budgets (`SmallBody`, below). `resnet18` is timm's ResNet-18 (He et al. 2016,
    arXiv:1512.03385) with the stem that suits 32-pixel images: one 3×3 convolution, no first pooling.

    Args:
        classes: Number of labels.
        body: `small` or `resnet18`.
        widths: Channels of the small body's three groups; `resnet18` has its own.

    Shape:
        normalized pixels (B, 3, N, N) -> logits (B, classes); `small` takes N from 16 up

    Raises:
        ValueError: If the body is unknown or `widths` are not three.
    """

    def __init__(
        self,
        classes: int = 0,
        body: Literal["small", "resnet18"] = "small",
        widths: tuple[int, int, int] = (64, 256, 256),
    ) -> None:
        super().__init__()
        if body == "small":
            self.body = SmallBody(widths)
            features = widths[-1]
        elif body == "resnet18":
            self.body = timm.create_model("resnet18", num_classes=0)
            self.body.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
            self.body.maxpool = nn.Identity()
            features = self.body.num_features
        else:
            raise ValueError(f"body={body!r} is unknown; known: small, resnet18")
        self.head = nn.Linear(features, classes)
        # On CPU convolutions train 1.2 (bf16) to 1.7 times (fp32) faster in this layout; on CUDA it is the fast one.
        self.to(memory_format=torch.channels_last)

    def forward_features(self, images: Tensor) -> Tensor:
        """What the head sees: (B, 3, N, N) -> (B, W)."""
        return self.body(images.contiguous(memory_format=torch.channels_last))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.forward_features(images))

    def initialize(self, images: Tensor) -> None:
        """Set what depends on the data from a sample of normalized training images (B, 3, N, N)."""
        if isinstance(self.body, SmallBody):
            self.body.whiten(images)


class SmallBody(nn.Module):
    """2×2 whitening layer, then three groups of two 3×3 convolutions that each halve the image.

    After the speed-run networks of Jordan 2024 (arXiv:2404.00498): the first layer is not trained but computes the
    principal components of the training images' 2×2 patches, scaled to equal variance, with both signs. Training
    then starts where it otherwise arrives after epochs.

    Args:
        widths: Channels of the three groups.

    Shape:
        (B, 3, N, N) -> (B, widths[-1])

    Raises:
        ValueError: If `widths` are not three.
    """

    def __init__(self, widths: tuple[int, int, int]) -> None:
        super().__init__()
        if len(widths) != 3:
            raise ValueError(f"widths={list(widths)} are not three")
        components = 3 * 2 * 2
        self.whitening = nn.Conv2d(3, 2 * components, 2)
        self.whitening.weight.requires_grad_(False)
        channels = (2 * components, *widths)
        self.groups = nn.Sequential(
            nn.GELU(),
            *(group(narrow, wide) for narrow, wide in itertools.pairwise(channels)),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.groups(self.whitening(images))

    @torch.no_grad()
    def whiten(self, images: Tensor, floor: float = 5e-4) -> None:
        """Set the first layer from images (B, 3, N, N); `floor` is added to each component's variance."""
        patches = images.float().unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).flatten(0, 2).flatten(1)
        variances, components = torch.linalg.eigh(patches.T @ patches / len(patches))
        scaled = (components / (variances + floor).sqrt()).T.reshape(-1, *self.whitening.weight.shape[1:])
        self.whitening.weight.copy_(torch.cat((scaled, -scaled)))


def group(narrow: int, wide: int) -> nn.Sequential:
    """Convolution, halving, norm, GELU; convolution, norm, GELU."""
    return nn.Sequential(
        nn.Conv2d(narrow, wide, 3, padding=1, bias=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(wide),
        nn.GELU(),
        nn.Conv2d(wide, wide, 3, padding=1, bias=False),
        nn.BatchNorm2d(wide),
        nn.GELU(),
    )
