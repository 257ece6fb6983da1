"""The base classes of tasks: the loss of a step, the optimizer and its schedule, and a stop where numbers break.

`Task` is the base of all tasks, `UtteranceTask` of those on utterances, whose batches are (waveforms (B, N) padded at
the end, lengths (B,), units (B, U) padded with -1, spans in samples (B, W, 2)). Waveforms are on the training device,
the rest on the host, so that reading lengths does not wait for the device.

Shapes: B batch, N samples, U units of a transcript, W words.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import lightning
import numpy
import torch
from lightning.pytorch.cli import OptimizerCallable
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torchmetrics import Metric

from vitspeech.data.batches import process
from vitspeech.decoding.search import Search
from vitspeech.errors import InputError, check_fraction
from vitspeech.evaluation import Report
from vitspeech.tasks.optimizer import Decay, learning_rate, match_precision, parameter_groups
from vitspeech.tasks.sharding import shard
from vitspeech.trust import import_trusted

CHECK_EVERY = 50  # training steps
SUITED = {"utterances": "Recognition, Transcription or Labeling", "sequences": "Transcription"}  # tasks by items
TRIED_ITEMS = 2  # an even number, since images are mixed in pairs
SAMPLED = 256  # utterances that a network is initialized from
GROUPS = 4  # a batch of 1 to 7 words is half padding as a whole, and a fifth padding in four groups of similar length
SHORT = 256  # inputs, such as symbols: passing their padding through the network takes less time than another pass
SMALLEST_GROUP = 8  # utterances: batch norm over one or two hides how much noise they have, which evaluation does not


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


class Task(lightning.LightningModule):
    """Trains and evaluates a network. A config names a subclass of it as the `class_path` of `model`.

    A subclass implements `loss` and `validation_step`, names its `evaluation`, and implements `sample` if its networks
    are initialized from data. `validation_step` logs the metric `monitor`. `trained_model` is what a run saves.

    A network may have a method `initialize(inputs)`, which sets what depends on the data before training. Any of its
    modules may set an attribute `auxiliary_loss` in its forward pass, a mean over the batch; it is added to the loss.

    A loss that is infinite or NaN ends the training with a `FloatingPointError` that names the steps and the last good
    checkpoint, before the broken weights are saved. Losses are checked every `CHECK_EVERY` steps, before validation and
    at the end of each epoch, on all devices together, since reading a loss waits for the device.

    Args:
        network: The network to train.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        warmup: Fraction of the training steps in which the learning rate rises.
        decay: How the learning rate falls afterwards: `cosine`, `linear`, `constant` or `inverse_sqrt`.
        compile: Compile the network by `torch.compile` (worth it on a GPU and in long runs).

    Attributes:
        starting_weights: Weights by their names that the network gets after `initialize`; the command line sets them.
        trust: Modules of your own whose classes models that it learns from may use; the command line sets them.
        monitor: The validation metric by which the best checkpoint is chosen.
        mode: `max` or `min`: whether higher or lower values of it are better.
        accepted: The `items` of the data that it can be trained on; empty for data with one label for each item.
        evaluation: The module of `vitspeech.evaluation` whose `evaluate` evaluates networks of this task.
        transcribes: Whether networks give transcripts, which `evaluation` decodes by a `search`.
        pending_finite: Whether the losses that are to be checked are finite, and the first and last of their steps.
    """

    monitor, mode = "val_accuracy", "max"
    starting_weights: Mapping[str, Tensor] | None = None
    trust: Sequence[str] = ()
    is_tried_out = False  # while `smoke_test` computes a loss
    accepted: tuple[str, ...] = ()
    evaluation: ModuleType
    transcribes = False
    pending_finite: tuple[Tensor, int | None, int | None] | None = None

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
        check_fraction("warmup", warmup)
        self.network = network
        self.make_optimizer = optimizer
        self.warmup, self.decay = warmup, decay
        self.compiled = compile
        self.epoch_loss, self.val_loss = MeanLoss(), MeanLoss()

    def remarks(self, folder: Path, data: lightning.LightningDataModule) -> list[str]:
        """Lines that training prints at its end besides the report; `folder` has the released model."""
        return []

    @classmethod
    def evaluate(
        cls,
        network: nn.Module,
        data: lightning.LightningDataModule,
        *,
        search: Search | None = None,
        progress: bool = True,
    ) -> Report:
        """Evaluate a trained network on the test set of its data, in fp32, on the device that the network is on.

        After a distributed run every process calls this, and loads its part of the test set; see `per_item`.

        Args:
            network: In evaluation mode.
            data: A data module with the network's labels.
            search: How transcripts are decoded, for tasks that give transcripts; `None` is `Search()`.
            progress: Show a progress bar.
        """
        options = {"search": search} if cls.transcribes else {}
        return cls.evaluation.evaluate(network, data, progress=progress, **options)

    @classmethod
    def network_sizes(cls, labels: Sequence[str]) -> dict[str, int]:
        """The constructor arguments of a network that follow from the labels of the data, by their names."""
        return {"classes": len(labels), "units": len(labels)}

    @classmethod
    def check_data(cls, data: lightning.LightningDataModule) -> None:
        """Refuse data whose items this task cannot be trained on, before it is read."""
        if data.items not in cls.accepted if cls.accepted else data.items in SUITED:
            needed = " or ".join(cls.accepted) or "one label for each item"
            suited = SUITED.get(data.items, "Classification")
            raise InputError(
                f"{cls.__name__} does not fit {type(data).__name__}: it needs {needed}, not {data.items}; use "
                f"vitspeech.{suited}"
            )

    def bind_labels(self, data: lightning.LightningDataModule) -> None:
        """Take from the data what `loss` needs: its labels."""
        self.labels = list(data.labels)

    def smoke_test(self, data: lightning.LightningDataModule) -> None:
        """Compute the loss of a few training items and build the optimizer, to find out whether they fit each other.

        The network, its mode and the random numbers of the run stay as they are. A loss that uses the trainer, which
        does not run yet, cannot be tried out.
        """
        self.bind_labels(data)
        training, numbers = self.training, numpy.random.get_state()
        count = min(data.batch, len(data.train), TRIED_ITEMS)
        with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `self.log` has no effect yet
            self.eval()
            self.is_tried_out = True
            try:
                self.loss(data.training_batch(*data.train[torch.arange(count), data.seed]))
            except RuntimeError as error:
                if "is not attached to a `Trainer`" not in str(error):
                    raise
            finally:
                self.is_tried_out = False
            self.take_auxiliary_loss()
        self.train(training)
        numpy.random.set_state(numbers)
        self.make_optimizer(parameter_groups(self.network))

    def setup(self, stage: str) -> None:
        data = self.trainer.datamodule
        self.bind_labels(data)
        if stage == "fit":
            if hasattr(self.network, "initialize"):
                self.network.initialize(self.sample(data))
            if self.starting_weights is not None:
                self.network.load_state_dict(self.starting_weights, strict=False)
            if self.compiled:
                self.network.compile()

    def configure_model(self) -> None:
        """Divide the weights among the processes if the strategy is `ModelParallelStrategy` (FSDP2)."""
        if isinstance(self.trainer.strategy, ModelParallelStrategy):
            shard(self.network, self.device_mesh["data_parallel"])

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """A sample of training inputs, as the network gets them, from which it is initialized."""
        raise NotImplementedError(f"{type(self).__name__} does not implement sample, and the network has initialize")

    def loss(self, batch: Any) -> Tensor:
        """The training loss of a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not implement loss")

    def check_classes(self, logits: Tensor, other: str = "") -> None:
        """Refuse a network that has not one logit for each label and for one `other` class, such as the blank."""
        if logits.shape[-1] != len(self.labels) + bool(other):
            labels = f"{len(self.labels)} labels{f' and {other}' if other else ''}"
            raise InputError(
                f"the network has {logits.shape[-1]} classes, the data {labels}: leave its number of classes or units "
                "out of the config"
            )

    def training_step(self, batch: Any, number: int) -> Tensor:
        loss = self.loss(batch) + self.take_auxiliary_loss()
        self.note_loss(loss, self.global_step)
        if (number + 1) % CHECK_EVERY == 0:
            self.check_losses("training")
        self.epoch_loss.update(loss, len(batch[0]))
        self.log("train_loss_step", loss.detach(), prog_bar=True)
        self.log("train_loss_epoch", self.epoch_loss, on_step=False, on_epoch=True, prog_bar=True)
        return loss

    def log_val_loss(self, loss: Tensor, items: Tensor | int) -> None:
        """Log the mean loss of a validation batch of so many items, such as clips, frames or units, as `val_loss`."""
        self.note_loss(loss)
        self.val_loss.update(loss, items)
        self.log("val_loss", self.val_loss, prog_bar=True)

    def take_auxiliary_loss(self, share: float = 1.0) -> Tensor | float:
        """The sum of the auxiliary losses of the last forward pass, which the modules then hold no more.

        Args:
            share: The part of the batch in that pass, for tasks that pass a batch through the network in groups.
        """
        total = 0.0
        for module in self.network.modules():
            if getattr(module, "auxiliary_loss", None) is not None:
                total = total + share * module.auxiliary_loss
                module.auxiliary_loss = None  # a module that holds a graph cannot be copied, as weight averaging does
        return total

    def note_loss(self, loss: Tensor, step: int | None = None) -> None:
        """Remember for `check_losses` whether the loss of a training step, or of validation, is finite."""
        before, first, _ = self.pending_finite or (True, step, None)
        self.pending_finite = loss.detach().isfinite() & before, first, step

    def trained_model(self, network: nn.Module, config: dict[str, Any]) -> tuple[nn.Module, dict[str, Any]]:
        """What a run saves as its model. By default it is the network of the run.

        A task whose network has parts for training alone leaves them out here. Every process calls this.

        Args:
            network: The network of the run, whole and with averaged weights, if they were averaged.
            config: The `model` of the run's config: `class_path` of the task, and its `init_args`.

        Returns:
            The network to save, which may share modules with `network`, and the `model` of a config that describes it.
            The `class_path` there is the task that evaluates it.
        """
        return network, config

    def check_losses(self, phase: str) -> None:
        """Stop training by a `FloatingPointError` if a loss since the last check was not finite, on any device."""
        if self.pending_finite is None:
            return
        (finite, first, last), self.pending_finite = self.pending_finite, None
        if self.trainer.strategy.reduce_boolean_decision(bool(finite)):
            return
        saved = [getattr(callback, "saved", "") for callback in self.trainer.checkpoint_callbacks]
        last_good = next(filter(None, saved), "none yet")
        steps = f"step {self.trainer.global_step}" if last is None else f"one of the steps {first} to {last}"
        raise FloatingPointError(
            f"{phase} loss is infinite or NaN at {steps}, epoch {self.trainer.current_epoch}; last good checkpoint: "
            f"{last_good}"
        )

    def on_validation_start(self) -> None:
        self.check_losses("training")

    def on_validation_end(self) -> None:
        self.check_losses("validation")

    def on_train_epoch_end(self) -> None:
        self.check_losses("training")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        epoch = self.trainer.fit_loop.epoch_progress.current
        if epoch.processed < epoch.started:  # within an epoch
            checkpoint["epoch_loss"] = self.trainer.strategy.reduce(self.epoch_loss.sums.clone(), reduce_op="sum").cpu()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if "epoch_loss" in checkpoint and self.trainer.is_global_zero:
            self.epoch_loss.sums.copy_(checkpoint["epoch_loss"])

    def configure_optimizers(self) -> dict:
        optimizer = self.make_optimizer(parameter_groups(self.network))
        match_precision(optimizer, self.trainer.precision)  # before the schedule, which keeps the optimizer's `step`
        steps = self.trainer.estimated_stepping_batches
        if not math.isfinite(steps):
            raise InputError("the learning rate decays until the last step: limit trainer.max_epochs or max_steps")
        steps = int(steps)
        schedule = learning_rate(optimizer, steps=steps, warmup_steps=int(self.warmup * steps), decay=self.decay)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def find_task(class_path: str, trust: Sequence[str] = ()) -> type[Task]:
    """The task that a `class_path` names, such as `vitspeech.Recognition`; modules of `trust` may be imported."""
    task = import_trusted(class_path, trust)
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise InputError(f"{class_path} is not a task; it must be a subclass of vitspeech.Task")
    return task


class UtteranceTask(Task):
    """The base class of tasks on utterances of variable length, each with its transcript."""

    accepted = ("utterances",)

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """Training utterances as training feeds them, augmented, joined end to end without their padding: (1, N).

        They are spread over the data set, whose recordings may be in the order of their speakers.
        """
        count = min(SAMPLED, len(data.train))
        indices = torch.linspace(0, len(data.train) - 1, count).round().long()
        speech = data.training_batch(*data.train[indices, data.seed])
        rows = zip(speech.waveforms, speech.lengths.tolist(), strict=True)
        return torch.cat([row[:length] for row, length in rows])[None]


def length_groups(batch: tuple[Tensor, ...]) -> Iterator[tuple[Any, ...]]:
    """Split a batch into groups of utterances of similar length, each padded only to its own longest utterance.

    There are at most `GROUPS`, of at least `SMALLEST_GROUP` utterances, or one; inputs up to `SHORT` are one group. So
    are those of several processes: they wait for one another in each forward pass (synchronized batch norm, FSDP), so
    all of them need the same number of passes, though their batches may differ in size.
    """
    waveforms, lengths, units, spans = batch
    is_divided = waveforms.shape[1] > SHORT and process()[1] == 1
    groups = min(GROUPS, max(len(lengths) // SMALLEST_GROUP, 1)) if is_divided else 1
    for rows in lengths.argsort().tensor_split(groups):
        longest = max(lengths[rows].tolist())
        most_units, most_words = (max(mask.sum(1).tolist()) for mask in (units[rows] >= 0, spans[rows, :, 1] > 0))
        yield waveforms[rows, :longest], lengths[rows], units[rows, :most_units], spans[rows, :most_words]
