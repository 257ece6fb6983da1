"""From images to patch tokens: by a linear projection of each patch, or by convolutions.

Shapes: B batch, C channels, P patch side, N image side, T = (N / P)² tokens in raster order, D model width.
"""

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.errors import InputError, check_number
from vitspeech.frontends.image_stem import Whitening, halving_group


class LinearPatches(nn.Module):
    """Divides an image into P × P patches and projects each to width D (Dosovitskiy et al. 2021, arXiv:2010.11929).

    Args:
        image: Image side N in pixels.
        patch: Patch side P in pixels; must divide N.
        width: Model width D.
        channels: Color channels C.

    Shape:
        (B, C, N, N) -> (B, T, D)
    """

    def __init__(self, image: int, patch: int, width: int, channels: int = 3) -> None:
        super().__init__()
        self.image, self.patch, self.channels = image, patch, channels
        self.grid = grid_side(image, patch)
        self.project = nn.Linear(channels * patch * patch, width)

    def forward(self, images: Tensor) -> Tensor:
        check_size(images, (self.channels, self.image, self.image))
        # (B, C, rows, P, columns, P) -> (B, rows, columns, C, P, P) -> (B, T, C P P)
        patches = images.unflatten(3, (self.grid, self.patch)).unflatten(2, (self.grid, self.patch))
        return self.project(patches.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))


class ConvolutionalPatches(nn.Module):
    """log2(P) stages that each halve the image: 3×3 convolution, 3×3 max-pooling, batch norm, GELU.

    The convolutional stem of Xiao et al. 2021 (arXiv:2106.14881) with the pooling of Compact Transformers (Hassani et
    al. 2021, arXiv:2104.05704). Patches overlap, and small models train much faster.

    Args:
        image: Image side N in pixels.
        patch: Stride P of the tokens in pixels, a power of two from 2; must divide N.
        width: Model width D.
        channels: Color channels C.
        first: Width of the first stage, which doubles up to D; `None` is the one that reaches D in the last stage, or
            16 if that is more.

    Shape:
        (B, C, N, N) -> (B, T, D)
    """

    def __init__(self, image: int, patch: int, width: int, channels: int = 3, first: int | None = None) -> None:
        super().__init__()
        self.image, self.patch, self.channels = image, patch, channels
        self.grid = grid_side(image, patch)
        widths = [channels, *stage_widths(patch, width, first)]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(narrow, wide, 3, padding=1, bias=False),
                    nn.MaxPool2d(3, stride=2, padding=1),
                    nn.BatchNorm2d(wide),
                    nn.GELU(),
                )
                for narrow, wide in itertools.pairwise(widths)
            )
        )

    def forward(self, images: Tensor) -> Tensor:
        check_size(images, (self.channels, self.image, self.image))
        # On CPU convolutions train 1.2 (bf16) to 1.7 (fp32) times faster in this layout.
        features = self.stages(images.contiguous(memory_format=torch.channels_last))
        return features.flatten(2).transpose(1, 2)


class WhitenedPatches(nn.Module):
    """A 2×2 `Whitening` layer and log2(P) stages that each halve the image by two 3×3 convolutions, as in `CNN`.

    With them a ViT is a hybrid of convolution and attention (Dosovitskiy et al. 2021, arXiv:2010.11929, sec. 3.1). A
    stage is convolution, 2×2 max-pooling, batch norm, GELU; convolution, batch norm, GELU. Images are padded by a row
    and a column of zeros.

    Args:
        image: Image side N in pixels.
        patch: Stride P of the tokens in pixels, a power of two from 2; must divide N.
        width: Model width D.
        first: As in `ConvolutionalPatches`.

    Shape:
        (B, 3, N, N) -> (B, T, D)
    """

    def __init__(self, image: int, patch: int, width: int, first: int | None = None) -> None:
        super().__init__()
        self.image, self.patch = image, patch
        self.grid = grid_side(image, patch)
        self.whitening = Whitening()
        widths = [self.whitening.out_channels, *stage_widths(patch, width, first)]
        self.stages = nn.Sequential(*(halving_group(narrow, wide) for narrow, wide in itertools.pairwise(widths)))

    def forward(self, images: Tensor) -> Tensor:
        check_size(images, (3, self.image, self.image))
        padded = F.pad(images.contiguous(memory_format=torch.channels_last), (0, 1, 0, 1))
        return self.stages(F.gelu(self.whitening(padded))).flatten(2).transpose(1, 2)


def stage_widths(patch: int, width: int, first: int | None = None) -> list[int]:
    """The widths of the stages of a convolutional stem, which doubles where the side halves, up to the model width."""
    halvings = round(math.log2(patch)) if patch > 0 else 0
    if patch < 2 or 2**halvings != patch:
        raise InputError(f"patch={patch} is not 2, 4, 8, …: a convolutional stem halves the image")
    if first is None:
        return [max(width // 2 ** (halvings - 1 - i), 16) for i in range(halvings - 1)] + [width]
    check_number("stem_width", first, 1, width)
    return [min(first * 2**i, width) for i in range(halvings - 1)] + [width]


def grid_side(image: int, patch: int) -> int:
    """The number of patches along one side of the image."""
    if patch < 1 or image % patch:
        raise InputError(f"patch={patch} does not divide image={image}")
    return image // patch


def check_pixels(images: Tensor) -> None:
    """Refuse what is no float tensor, such as pixels that were not normalized."""
    if not isinstance(images, Tensor) or not images.is_floating_point():
        kind = images.dtype if isinstance(images, Tensor) else type(images).__name__
        raise InputError(
            f"pixels are {kind}, not a float tensor: normalize them by (pixels / 255 - mean) / std, or give them to "
            "`predict` of the model that `vitspeech.load` returns"
        )


def check_size(images: Tensor, expected: tuple[int, int, int]) -> None:
    """Check the type and the size of images."""
    check_pixels(images)
    if images.ndim != 4 or tuple(images.shape[1:]) != expected:
        raise InputError(f"images of shape {tuple(images.shape)} are not (batch, {', '.join(map(str, expected))})")
