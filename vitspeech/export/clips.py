"""A speech classifier as a graph: the samples of a clip in, logits out.

Shapes: B batch, N samples of a clip, C classes.
"""

from torch import Tensor, nn


class ClipGraph(nn.Module):
    """Any number of clips of one length to logits.

    Args:
        network: A speech classifier in evaluation mode.

    Shape:
        samples within ±1 (B, N) -> (B, C)
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, samples: Tensor) -> Tensor:
        return self.network(samples)
