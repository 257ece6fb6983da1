"""What all training shares: the optimizer and its schedule, the data's sample to start from, the stop at a loss that
is no number."""

from typing import Any

import lightning
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn

from vitspeech.tasks.optimizer import Decay, learning_rate, parameter_groups


class Task(lightning.LightningModule):
    """Trains a network: a subclass says what the loss of a batch is, and how well the network does on validation.

    The network may have `initialize(inputs)`, which sets what depends on the data before training, and any of its
    modules may leave an `auxiliary_loss` after a forward pass, which is added to the loss.

    Args:
        network: What is trained.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        warmup: Share of the run in which the learning rate rises.
        decay: How it falls afterwards: `cosine`, `linear` or `constant`.
        compile: Compile the network by `torch.compile` (pays off on a GPU and in long runs).

    Raises:
        ValueError: If a share is not within 0 .. 1.
    """

    monitor, mode = "val_accuracy", "max"  # what the best checkpoint is best in
    sequences = False  # whether an item of the data has a transcript rather than one label

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        warmup: float = 0.05,
        decay: Decay = "cosine",
        compile: bool = False,
    ) -> None:
        super().__init__()
        check_share("warmup", warmup)
        self.network = network
        self.make_optimizer = optimizer
        self.warmup, self.decay = warmup, decay
        self.compiled = compile

    def setup(self, stage: str) -> None:
        data = self.trainer.datamodule
        self.labels = list(data.labels)
        if stage == "fit":
            if hasattr(self.network, "initialize"):
                self.network.initialize(self.sample(data))
            if self.compiled:
                self.network.compile()

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """Training inputs as the network takes them, enough of them to set what depends on the data."""
        raise NotImplementedError

    def loss(self, batch: Any) -> Tensor:
        """What is to become small."""
        raise NotImplementedError

    def training_step(self, batch: Any, number: int) -> Tensor:
        loss = self.loss(batch)
        for module in self.network.modules():
            if getattr(module, "auxiliary_loss", None) is not None:
                loss = loss + module.auxiliary_loss
                module.auxiliary_loss = None  # a module that holds a graph can't be copied, for averaging say
        self.check_finite(loss.detach(), "training")
        self.log("train_loss", loss.detach(), prog_bar=True, on_step=True, on_epoch=True, batch_size=len(batch[0]))
        return loss

    def check_finite(self, loss: Tensor, phase: str) -> None:
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


def check_share(name: str, share: float) -> None:
    """Refuse a share that is not within 0 .. 1.

    Raises:
        ValueError: If it is not.
    """
    if not 0 <= share < 1:
        raise ValueError(f"{name}={share} is not within 0 .. 1 (1 excluded)")
