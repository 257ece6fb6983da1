"""The mean of a loss over batches of different sizes, and over processes."""

import torch
from torch import Tensor
from torchmetrics import Metric


class MeanLoss(Metric):
    """The mean loss per item, exact over all batches of all processes.

    torchmetrics' `MeanMetric` replaces or refuses NaN, for which it reads each value from the device. Here NaN stays.

    Attributes:
        sums: The sum of the losses of all items and the number of items, (2,).
    """

    def __init__(self) -> None:
        super().__init__()
        self.add_state("sums", torch.zeros(2), dist_reduce_fx="sum")

    def update(self, loss: Tensor, items: Tensor | int) -> None:
        """Add the mean loss of a batch of so many items."""
        loss = loss.detach().float()
        weight = items.float() if isinstance(items, Tensor) else torch.full_like(loss, items)  # no copy to the device
        self.sums += torch.stack((loss * weight, weight))

    def compute(self) -> Tensor:
        """The mean per item."""
        return self.sums[0] / self.sums[1]
