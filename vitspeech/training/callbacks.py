"""The callbacks of every run: its progress, and what ties a trainer to the run's folder."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.loggers import Logger, TensorBoardLogger

from vitspeech.training.checkpoints import METRICS, CheckpointFiles, MetricsLog, batches_of, check_same_run, progress


class Progress(TQDMProgressBar):
    """Shows epoch, loss, the validation metric, and the time remaining of the whole run.

    The remaining time assumes that the remaining steps take as long as those since this start, with validation.

    Args:
        lines: Print one line per epoch instead of bars; `None` does so unless standard output is a terminal.
    """

    BAR_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_noinv_fmt}{postfix}]"  # without the epoch's rest

    def __init__(self, lines: bool | None = None) -> None:
        self.lines = not sys.stdout.isatty() if lines is None else lines
        super().__init__(refresh_rate=0 if self.lines else 1)  # 0: no bars
        self.validated = False
        self.started, self.first_step = 0.0, 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self.started, self.first_step = time.monotonic(), trainer.global_step
        if trainer.fit_loop.restarted_mid_epoch:
            self.on_train_epoch_start(trainer, pl_module)  # which Lightning leaves out

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_start(trainer, pl_module)
        self.train_progress_bar.set_description(self.epoch(trainer))
        self.validated = False

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_end(trainer, pl_module)
        self.validated = not trainer.sanity_checking

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        if self.lines and trainer.is_global_zero:
            names = ["train_loss_epoch", *([pl_module.monitor] if self.validated else [])]
            metrics = trainer.callback_metrics
            shown = [f"{name.removesuffix('_epoch')} {metrics[name]:.4g}, " for name in names if name in metrics]
            print(f"{self.epoch(trainer)}: {''.join(shown)}{self.remaining(trainer)} left", flush=True)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, int | str | float]:
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)  # the number of the folder of logs
        return metrics | {"left": self.remaining(trainer)}

    @staticmethod
    def epoch(trainer: Trainer) -> str:
        """`epoch 3 of 10`."""
        of = f" of {trainer.max_epochs}" if (trainer.max_epochs or -1) > 0 else ""
        return f"epoch {trainer.current_epoch + 1}{of}"

    def remaining(self, trainer: Trainer) -> str:
        """The time until the end of training as `1:23:45`; `?` if it is not known."""
        done, total = trainer.global_step - self.first_step, trainer.estimated_stepping_batches
        if not self.started or done <= 0 or total == float("inf"):
            return "?"
        seconds = (time.monotonic() - self.started) / done * max(total - trainer.global_step, 0)
        return str(timedelta(seconds=round(seconds)))


class RunCallback(Callback):
    """Opens the folder of a run when training starts, puts logs and checkpoints there, and restores from it.

    The first process opens it, and tells the others of a run on several devices where it is.

    Args:
        open_folder: Chooses the folder of the run and locks it; called in the first process only.
        record_start: Writes into the folder what is trained; called in the first process only, after the checkpoint of
            a resumed run is accepted, so that a run that cannot be resumed remains as it was.
        checkpoints: Those that are saved in the folder. Others without a folder are saved in its `checkpoints/`.
        logger: The trainer's argument: loggers of the user's own log as well.

    Attributes:
        checkpoint: The one that training resumes from; `None` in a new run.
        folder: `None` until the run is opened.
        is_training: Whether training, or the validation that tests it, has begun, after everything is restored.
        epochs_done: The number of epochs before this start.
        batches_done: The number of batches of the next epoch before this start, in each process.
    """

    def __init__(
        self,
        open_folder: Callable[[], Path],
        record_start: Callable[[], None],
        checkpoints: Sequence[Checkpoint],
        logger: Logger | Iterable[Logger] | bool | None = None,
    ) -> None:
        self.open_folder, self.record_start, self.checkpoints = open_folder, record_start, checkpoints
        loggers = logger if isinstance(logger, Iterable) else [logger]
        self.loggers = [given for given in loggers if isinstance(given, Logger)]
        self.checkpoint: Path | None = None
        self.folder: Path | None = None
        self.is_training = False
        self.epochs_done = self.batches_done = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.folder = trainer.strategy.broadcast(self.open_folder() if trainer.is_global_zero else None)
        self.log = MetricsLog(self.folder / METRICS)
        version = str(sum(1 for _ in (self.folder / "logs").glob("*")))
        trainer.loggers = [self.log, TensorBoardLogger(self.folder, name="logs", version=version), *self.loggers]
        for callback in trainer.checkpoint_callbacks:
            if callback in self.checkpoints:
                callback.dirpath = str(self.folder.resolve())
            elif isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
                callback.dirpath = str(self.folder.resolve() / "checkpoints")
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:  # not a plugin of the user's
            trainer.strategy.checkpoint_io = CheckpointFiles(
                lambda checkpoint: check_same_run(checkpoint, pl_module, trainer.datamodule)
            )
        if self.checkpoint and trainer.strategy.restore_checkpoint_after_setup:
            # The batches are made before the checkpoint is restored, so that they have to begin where it was saved.
            self.begin_at(trainer, trainer.strategy.checkpoint_io.load_checkpoint(self.checkpoint))

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # Not in `on_train_start`, which Lightning leaves out if a resumed run has nothing left to train.
        if trainer.is_global_zero and not trainer.strategy.restore_checkpoint_after_setup:
            self.record_start()

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.is_training = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.is_training = True
        if trainer.is_global_zero and trainer.strategy.restore_checkpoint_after_setup:
            self.record_start()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.log.log_early(trainer, "_epoch")

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["metrics"] = self.log.text()
        checkpoint["progress"] = progress(trainer) | batches_of(trainer.datamodule)
        checkpoint["should_stop"] = trainer.should_stop

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self.log.restore(checkpoint["metrics"])
        self.begin_at(trainer, checkpoint)
        trainer.should_stop = checkpoint["should_stop"]  # `EarlyStopping` has ended training

    def begin_at(self, trainer: Trainer, checkpoint: dict[str, Any]) -> None:
        """Let the batches begin where a checkpoint was saved."""
        self.epochs_done, self.batches_done = (checkpoint["progress"][name] for name in ("epochs", "batches"))
        trainer.datamodule.begin = self.epochs_done, self.batches_done
