"""An image classifier as a graph: pixels in, probabilities out, normalization inside.

Shapes: B batch, S side of a picture, C classes.
"""

from typing import Any

import torch
from torch import Tensor, nn


class ImageGraph(nn.Module):
    """Pixels of any number of pictures to probabilities.

    Args:
        network: An image classifier in evaluation mode.
        preprocessing: Its `mean` and `std` per channel, for values in 0..1.

    Shape:
        uint8 (B, S, S, 3) -> (B, C)
    """

    def __init__(self, network: nn.Module, preprocessing: dict[str, Any]) -> None:
        super().__init__()
        self.network = network
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(preprocessing[name]).view(-1, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        normalized = (pixels.movedim(3, 1).float() / 255 - self.mean) / self.std
        return self.network(normalized).softmax(-1)
