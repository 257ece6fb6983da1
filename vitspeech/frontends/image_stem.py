"""The first convolutions of the CNN and of the front end of a ViT: whitening filters, and a group that halves the side.

Shapes: B batch, C channels, N image side.
"""

import torch
from torch import Tensor, nn

AT_ONCE = 100  # images whose patches are in memory


class Whitening(nn.Conv2d):
    """A 2×2 convolution with fixed filters: the principal components of the patches of the training images.

    After Jordan 2024 (arXiv:2404.00498). The components are scaled to equal variance, and each is there with both
    signs. Such filters would otherwise have to be learned in the first epochs. The bias is trained.

    Shape:
        normalized pixels (B, 3, N, N) -> (B, 24, N - 1, N - 1)
    """

    def __init__(self) -> None:
        super().__init__(3, 2 * 3 * 2 * 2, 2)
        self.weight.requires_grad_(False)

    @torch.no_grad()
    def whiten(self, images: Tensor, floor: float = 5e-4) -> None:
        """Set the filters from images (B, 3, N, N); `floor` is added to the variance of each component."""
        covariance, count = torch.zeros(12, 12, device=images.device), 0
        for part in images.float().split(AT_ONCE):
            patches = part.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).flatten(0, 2).flatten(1)
            covariance, count = covariance + patches.T @ patches, count + len(patches)
        variances, components = torch.linalg.eigh(covariance / count)
        scaled = (components / (variances + floor).sqrt()).T.reshape(-1, *self.weight.shape[1:])
        self.weight.copy_(torch.cat((scaled, -scaled)))


def halving_group(narrow: int, wide: int) -> nn.Sequential:
    """Convolution, 2×2 max-pooling, batch norm, GELU; convolution, batch norm, GELU.

    After Jordan 2024 (arXiv:2404.00498), for short training: at first the convolutions pass their inputs on to as many
    outputs, the scales of batch norm stay 1, and its running statistics follow the last few batches.

    Shape:
        (B, narrow, N, N) -> (B, wide, N // 2, N // 2)
    """
    return nn.Sequential(
        passing_convolution(narrow, wide),
        nn.MaxPool2d(2),
        unscaled_norm(wide),
        nn.GELU(),
        passing_convolution(wide, wide),
        unscaled_norm(wide),
        nn.GELU(),
    )


def passing_convolution(narrow: int, wide: int) -> nn.Conv2d:
    """A 3×3 convolution without bias; its first `narrow` outputs are its inputs, the others random combinations."""
    convolution = nn.Conv2d(narrow, wide, 3, padding=1, bias=False)
    nn.init.dirac_(convolution.weight[:narrow].data)
    return convolution


def unscaled_norm(width: int) -> nn.BatchNorm2d:
    """Batch norm without a trained scale; the running statistics have a momentum of 0.4 (PyTorch: 0.1)."""
    norm = nn.BatchNorm2d(width, momentum=0.4)
    norm.weight.requires_grad_(False)
    return norm
