"""The callback that ties a trainer to a run's folder: it opens the folder, and restores from it."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger, TensorBoardLogger

from vitspeech.training.checkpoints import CheckpointFiles
from vitspeech.training.metrics_log import METRICS, MetricsLog
from vitspeech.training.resuming import batches_of, check_checkpoint, progress_of


class OpenRun(Callback):
    """Opens the folder of a run when training starts, and puts the logs and checkpoints there.

    The first process opens it, and tells the others of a run on several devices where it is.

    Args:
        open_folder: Chooses the folder of the run and locks it; called in the first process only.
        record_start: Writes into the folder what is trained; called in the first process only, after the checkpoint of
            a resumed run is accepted, so that a run that cannot be resumed remains as it was.
        checkpoints: Those that are saved in the folder. Others without a folder are saved in its `checkpoints/`.
        logger: The trainer's argument: loggers of the user's own log as well.

    Attributes:
        folder: `None` until training starts.
        epochs_done: The number of epochs before this start.
        batches_done: The number of batches of the next epoch before this start, in each process.
    """

    def __init__(
        self,
        open_folder: Callable[[], Path],
        record_start: Callable[[], None],
        checkpoints: Sequence[ModelCheckpoint],
        logger: Logger | Iterable[Logger] | bool | None = None,
    ) -> None:
        self.open_folder, self.record_start, self.checkpoints = open_folder, record_start, checkpoints
        loggers = logger if isinstance(logger, Iterable) else [logger]
        self.loggers = [given for given in loggers if isinstance(given, Logger)]
        self.folder: Path | None = None
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
                lambda checkpoint: check_checkpoint(checkpoint, pl_module, trainer), trainer.is_global_zero
            )

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and not trainer.strategy.restore_checkpoint_after_setup:
            self.record_start()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and trainer.strategy.restore_checkpoint_after_setup:
            self.record_start()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["metrics"] = self.log.text()
        checkpoint["batches"] = batches_of(trainer)
        checkpoint["should_stop"] = trainer.should_stop

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self.log.restore(checkpoint["metrics"])
        self.epochs_done, self.batches_done = progress_of(checkpoint)
        trainer.should_stop = checkpoint.get("should_stop", False)  # `EarlyStopping` has ended training
        trainer.datamodule.begin = self.epochs_done, self.batches_done
        if trainer.strategy.restore_checkpoint_after_setup:
            trainer.fit_loop._combined_loader = None  # made before the checkpoint was read
