"""The convolutional baseline: a small, fast network or timm's ResNet-18.

Shapes: B batch, N image side, M side of the feature maps, W features before the head.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from vitspeech.errors import named
from vitspeech.frontends.image_stem import Whitening, halving_group
from vitspeech.frontends.patches import check_pixels
from vitspeech.models.classifier import Classifier


class CNN(Classifier):
    """A convolutional image classifier, the baseline for `ViT`.

    `small` is `SmallBody`, for short training. `resnet18` is timm's ResNet-18 (He et al. 2016, arXiv:1512.03385) with
    the usual stem for 32-pixel images: one 3×3 convolution and no first pooling.

    Args:
        classes: Number of labels; 0 builds no head, and `forward` returns pooled features (B, W).
        body: `small` or `resnet18`.
        widths: Channels of the three groups of the small body; not used by `resnet18`.

    Shape:
        normalized pixels (B, 3, N, N) -> logits (B, classes); `small` needs N of at least 16
    """

    def __init__(
        self,
        classes: int = 0,
        body: Literal["small", "resnet18"] = "small",
        widths: tuple[int, int, int] = (64, 256, 256),
    ) -> None:
        super().__init__()
        if named(("small", "resnet18"), "body", body) == "small":
            self.body = SmallBody(widths)
            self.pool = nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten())
            self.num_features = widths[-1]
        else:
            import timm

            self.body = timm.create_model("resnet18", num_classes=0)
            self.body.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
            self.body.maxpool = nn.Identity()
            self.pool = self.body.global_pool
            self.num_features = self.body.num_features
        self.head = nn.Linear(self.num_features, classes) if classes else nn.Identity()
        # On CPU convolutions train 1.2 (bf16) to 1.7 (fp32) times faster in this layout; on CUDA it is faster, too.
        self.to(memory_format=torch.channels_last)

    def forward_features(self, images: Tensor) -> Tensor:
        """Feature maps: (B, 3, N, N) -> (B, W, M, M)."""
        check_pixels(images)
        images = images.contiguous(memory_format=torch.channels_last)
        return self.body(images) if isinstance(self.body, SmallBody) else self.body.forward_features(images)

    def stages(self, images: Tensor) -> tuple[Tensor, Sequence[nn.Module], Callable[[Tensor], Tensor]]:
        check_pixels(images)
        images, body = images.contiguous(memory_format=torch.channels_last), self.body
        if isinstance(body, SmallBody):
            activation, *groups = body.groups
            return activation(body.whitening(images)), groups, nn.Identity()
        stem = body.maxpool(body.act1(body.bn1(body.conv1(images))))
        return stem, [body.layer1, body.layer2, body.layer3, body.layer4], nn.Identity()

    def forward_head(self, features: Tensor, pre_logits: bool = False) -> Tensor:
        """Pool and classify: (B, W, M, M) -> (B, classes), or pooled features (B, W) with `pre_logits`."""
        pooled = self.pool(features)
        return pooled if pre_logits else self.head(pooled)

    def forward(self, images: Tensor) -> Tensor:
        """Normalized pixels (B, 3, N, N) -> logits (B, classes)."""
        return self.forward_head(self.forward_features(images))

    def initialize(self, images: Tensor) -> None:
        """Set the whitening layer of the small body from a sample of normalized training images (B, 3, N, N)."""
        if isinstance(self.body, SmallBody):
            self.body.whitening.whiten(images)


class SmallBody(nn.Module):
    """A 2×2 `Whitening` layer, then three groups of two 3×3 convolutions that each halve the image.

    After Jordan 2024 (arXiv:2404.00498).

    Args:
        widths: Channels of the three groups.

    Shape:
        (B, 3, N, N) -> (B, widths[-1], M, M)
    """

    def __init__(self, widths: tuple[int, int, int]) -> None:
        super().__init__()
        self.whitening = Whitening()
        channels = (self.whitening.out_channels, *widths)
        self.groups = nn.Sequential(
            nn.GELU(),
            *(halving_group(narrow, wide) for narrow, wide in itertools.pairwise(channels)),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.groups(self.whitening(images))
