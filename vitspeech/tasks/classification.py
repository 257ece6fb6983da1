"""Classification: one label per image or clip.

Shapes: B batch.
"""

from typing import Any

import lightning
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy

from vitspeech.errors import InputError, check_fraction
from vitspeech.evaluation import classification
from vitspeech.tasks.distillation import Distillation, Teachers
from vitspeech.tasks.task import Task


class Classification(Task):
    """Trains a network that returns one row of logits per input, by cross-entropy.

    Args:
        network: Inputs to logits (B, classes).
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        label_smoothing: Probability mass that is spread evenly over all classes.
        distillation: Learn from trained networks, too: see `Distillation`.
        **training: The other arguments of `Task`: `warmup`, `decay`, `compile`.
    """

    evaluation = classification

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        label_smoothing: float = 0.0,
        distillation: Distillation | None = None,
        **training: Any,
    ) -> None:
        super().__init__(network, optimizer, **training)
        check_fraction("label_smoothing", label_smoothing)
        self.label_smoothing = label_smoothing
        self.distillation, self.teachers = distillation, None

    def bind_labels(self, data: lightning.LightningDataModule) -> None:
        super().bind_labels(data)
        if len(self.labels) < 2:
            raise InputError(f"the data has one class, {self.labels[0]!r}; classification needs two or more")
        if self.distillation is not None and self.teachers is None:
            self.teachers = Teachers(self.distillation, data.labels, data.preprocessing, self.trust)

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.accuracy = MulticlassAccuracy(len(self.labels), average="micro")

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """Training inputs spread over the whole set, which may be sorted by label; clips are augmented, as in training.

        Images are not: a network's whitening is that of the images themselves.
        """
        indices = torch.linspace(0, len(data.train) - 1, min(2000, len(data.train))).long()
        inputs, labels, seed = data.train[indices, data.seed]
        return data.training_batch(inputs, labels, seed)[0] if data.items == "clips" else data.normalize(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.network(inputs)
        self.check_classes(logits)
        return logits

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, labels = batch
        logits = self(inputs)
        loss = F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        return self.distilled(loss, inputs, logits)

    def distilled(self, loss: Tensor, inputs: Tensor, logits: Tensor) -> Tensor:
        """The loss of the labels together with that of the teachers, if there are any."""
        if self.teachers is None:
            return loss
        weight = self.distillation.weight
        return (1 - weight) * loss + weight * self.teachers.loss(inputs, logits)

    def validation_step(self, batch: tuple[Tensor, Tensor], number: int) -> None:
        inputs, labels = batch
        logits = self(inputs)
        loss = F.cross_entropy(logits, labels)
        self.log_val_loss(loss, len(labels))
        self.accuracy.update(logits, labels)
        self.log("val_accuracy", self.accuracy, prog_bar=True)
