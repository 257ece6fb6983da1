"""One label for an input: loss, metrics, optimizer.

Shapes: B batch.
"""

import lightning
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy

from vitspeech.optimizer import Decay, learning_rate, parameter_groups


class Classification(lightning.LightningModule):
    """Trains a network that gives one row of logits an input.

    The network may have `initialise(inputs)`, which sets what depends on the data before training, and any of its
    modules may leave an `auxiliary_loss` after a forward pass, which is added to the cross-entropy.

    Args:
        network: Inputs to logits (B, classes).
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        warmup: Share of the run in which the learning rate rises.
        decay: How it falls afterwards: `cosine`, `linear` or `constant`.
        label_smoothing: Share of the label's weight spread over all classes.
        compile: Compile the network by `torch.compile` (pays off on a GPU and in long runs).

    Raises:
        ValueError: If a share is not within 0 .. 1.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        warmup: float = 0.05,
        decay: Decay = "cosine",
        label_smoothing: float = 0.0,
        compile: bool = False,
    ) -> None:
        super().__init__()
        for name, share in (("warmup", warmup), ("label_smoothing", label_smoothing)):
            if not 0 <= share < 1:
                raise ValueError(f"{name}={share} is not within 0 .. 1 (1 excluded)")
        self.network = network
        self.make_optimizer = optimizer
        self.warmup, self.decay, self.label_smoothing = warmup, decay, label_smoothing
        self.compiled = compile

    def setup(self, stage: str) -> None:
        data = self.trainer.datamodule
        self.classes = len(data.labels)
        self.accuracy = MulticlassAccuracy(self.classes, average="micro")
        if stage == "fit":
            if hasattr(self.network, "initialise"):
                # From all over the set, which may be in order of its labels.
                places = torch.linspace(0, len(data.train) - 1, min(2000, len(data.train))).long()
                sample, _, _ = data.train[places, 0]
                self.network.initialise(data.normalised(sample))
            if self.compiled:
                self.network.compile()

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.network(inputs)
        if logits.shape[-1] != self.classes:
            raise ValueError(f"the network has classes={logits.shape[-1]}, the data {self.classes} labels")
        return logits

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        inputs, labels = batch
        loss = F.cross_entropy(self(inputs), labels, label_smoothing=self.label_smoothing)
        for module in self.network.modules():
            if getattr(module, "auxiliary_loss", None) is not None:
                loss = loss + module.auxiliary_loss
                module.auxiliary_loss = None  # a module that holds a graph can't be copied, for averaging say
        self.stop_if_broken(loss.detach(), "training")
        self.log("train_loss", loss.detach(), prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], number: int) -> None:
        inputs, labels = batch
        logits = self(inputs)
        loss = F.cross_entropy(logits, labels)
        self.stop_if_broken(loss, "validation")
        self.accuracy(logits, labels)
        self.log("val_loss", loss, prog_bar=True, sync_dist=True)
        self.log("val_accuracy", self.accuracy, prog_bar=True)

    def stop_if_broken(self, loss: Tensor, phase: str) -> None:
        """Stop a run whose loss is no number any more, before such weights are saved."""
        if torch.isfinite(loss):
            return
        kept = [callback.best_model_path for callback in self.trainer.checkpoint_callbacks if not callback.monitor]
        good = next((path for path in kept if path), "none yet")
        raise FloatingPointError(
            f"{phase} loss is {loss.item()} at step {self.trainer.global_step} of epoch {self.trainer.current_epoch}; "
            f"last good checkpoint: {good}"
        )

    def configure_optimizers(self) -> dict:
        optimizer = self.make_optimizer(parameter_groups(self.network))
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = learning_rate(optimizer, steps=steps, warmup_steps=int(self.warmup * steps), decay=self.decay)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
