"""One label for an input: loss, metrics, optimizer.

Shapes: B batch.
"""

from typing import Any

import lightning
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy

from vitspeech.tasks.task import Task, check_share


class Classification(Task):
    """Trains a network that gives one row of logits an input.

    Args:
        network: Inputs to logits (B, classes).
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        label_smoothing: Share of the label's weight spread over all classes.
        **training: What else `Task` takes: `warmup`, `decay`, `compile`.

    Raises:
        ValueError: If a share is not within 0 .. 1.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        label_smoothing: float = 0.0,
        **training: Any,
    ) -> None:
        super().__init__(network, optimizer, **training)
        check_share("label_smoothing", label_smoothing)
        self.label_smoothing = label_smoothing

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.accuracy = MulticlassAccuracy(len(self.labels), average="micro")

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        # From all over the set, which may be in order of its labels.
        places = torch.linspace(0, len(data.train) - 1, min(2000, len(data.train))).long()
        inputs, _, _ = data.train[places, 0]
        return data.normalize(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.network(inputs)
        if logits.shape[-1] != len(self.labels):
            raise ValueError(f"the network has classes={logits.shape[-1]}, the data {len(self.labels)} labels")
        return logits

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, labels = batch
        return F.cross_entropy(self(inputs), labels, label_smoothing=self.label_smoothing)

    def validation_step(self, batch: tuple[Tensor, Tensor], number: int) -> None:
        inputs, labels = batch
        logits = self(inputs)
        loss = F.cross_entropy(logits, labels)
        self.check_finite(loss, "validation")
        self.accuracy(logits, labels)
        self.log("val_loss", loss, prog_bar=True, sync_dist=True)
        self.log("val_accuracy", self.accuracy, prog_bar=True)
