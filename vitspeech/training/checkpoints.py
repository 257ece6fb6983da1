"""The checkpoints of a run: `best.ckpt`, `last.ckpt`, and `previous.ckpt`, which was `last.ckpt` before.

Each is written to a hidden draft beside it, which then replaces it. So a kill, a loss of power or a full disk leaves
the checkpoints as they were. If `last.ckpt` is broken nevertheless, a run is resumed from `previous.ckpt`.
"""

import io
import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from vitspeech.errors import InputError, check_number
from vitspeech.training.metrics_log import MetricsLog
from vitspeech.training.resuming import read_checkpoint
from vitspeech.writing import replacing

LAST, PREVIOUS, BEST = "last.ckpt", "previous.ckpt", "best.ckpt"
ASK_EVERY = 20  # optimizer steps after which several processes agree on the time, for which they wait for each other
PATHS_OF_CHECKPOINTS = ("best_model_path", "kth_best_model_path", "last_model_path")  # in a callback's state


class RunCheckpoint(ModelCheckpoint):
    """A checkpoint of a run whose folder may have been moved before it is resumed.

    Lightning forgets the best value so far if the checkpoint is in another folder than when it was saved.
    """

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for logger in trainer.loggers:
            if isinstance(logger, MetricsLog):
                logger.log_epoch(trainer)
        super().on_train_epoch_end(trainer, pl_module)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        file = str(Path(self.dirpath, self.filename + self.FILE_EXTENSION))  # the only one that it writes or removes
        paths = {name: file if state_dict[name] else "" for name in PATHS_OF_CHECKPOINTS}
        best = dict.fromkeys(state_dict["best_k_models"] and [file], state_dict["best_model_score"])
        super().load_state_dict(state_dict | paths | {"best_k_models": best, "dirpath": self.dirpath})


class LastCheckpoint(RunCheckpoint):
    """`last.ckpt`: saved after each epoch, and within epochs after a number of minutes or optimizer steps.

    Args:
        every_minutes: Minutes after which it is saved again; 0 saves after epochs only.
        every_steps: Optimizer steps after which it is saved again; 0 sets no number.
            A step that is followed by validation is left out: the next one is saved instead.
        **saving: Arguments of `ModelCheckpoint`.

    Raises:
        InputError: If a number is negative.
    """

    def __init__(self, *, every_minutes: float = 0, every_steps: int = 0, **saving: Any) -> None:
        super().__init__(filename="last", **saving)
        check_number("every_minutes", every_minutes, 0, 1e6)
        check_number("every_steps", every_steps, 0, 10**9)
        self.every_minutes, self.every_steps = every_minutes, every_steps
        self.saved_at, self.saved_step = 0.0, 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self.note(trainer)

    def note(self, trainer: Trainer) -> None:
        """Count minutes and steps from here on."""
        self.saved_at, self.saved_step = time.monotonic(), trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if it is time to, but not before validation, nor at the end of an epoch, which is saved after it."""
        loop = trainer.fit_loop.epoch_loop
        followed = loop.batch_progress.is_last_batch or loop._should_check_val_fx(trainer.fit_loop._data_fetcher)
        if trainer.fit_loop._should_accumulate() or followed or not self.is_due(trainer):
            return
        pl_module.check_losses("training")
        for logger in trainer.loggers:
            if isinstance(logger, MetricsLog):
                logger.log_step(trainer)
        self._save_none_monitor_checkpoint(trainer, self._monitor_candidates(trainer))
        self.note(trainer)

    def is_due(self, trainer: Trainer) -> bool:
        """Whether to save after this step; every process gets the same answer."""
        if self.every_steps and trainer.global_step - self.saved_step >= self.every_steps:
            return True
        if not self.every_minutes or (trainer.world_size > 1 and trainer.global_step % ASK_EVERY):
            return False
        return trainer.strategy.broadcast(time.monotonic() - self.saved_at >= 60 * self.every_minutes)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        self.note(trainer)


def checkpoints(monitor: str, mode: str, *, every_minutes: float = 0, every_steps: int = 0) -> list[ModelCheckpoint]:
    """The callbacks that save `best.ckpt` and `last.ckpt`, in this order.

    `last.ckpt` holds the best value so far, which a resumed run must reach. It is therefore saved after `best.ckpt`.

    Args:
        monitor: The validation metric by which the best epoch is chosen.
        mode: `max` or `min`: whether higher or lower values of it are better.
        every_minutes: Minutes after which `last.ckpt` is saved within an epoch; see `LastCheckpoint`.
        every_steps: Optimizer steps after which `last.ckpt` is saved within an epoch.

    Raises:
        InputError: If a number is negative.
    """
    saving = {"enable_version_counter": False, "save_on_train_epoch_end": True}
    best = RunCheckpoint(filename="best", monitor=monitor, mode=mode, **saving)
    return [best, LastCheckpoint(every_minutes=every_minutes, every_steps=every_steps, **saving)]


class CheckpointFiles(TorchCheckpointIO):
    """Writes checkpoints so that there is a whole one at any time, and reads the last one that is whole.

    Args:
        check: Raises an `InputError` if the contents of a checkpoint are not those of this run.
        is_first_process: Whether this process prints warnings.
    """

    def __init__(self, check: Callable[[dict[str, Any]], None], is_first_process: bool = True) -> None:
        self.check, self.is_first_process = check, is_first_process
        self.whole: set[Path] = set()  # files, links resolved, that this process has read or written

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write a checkpoint; `last.ckpt` becomes `previous.ckpt` before it is replaced.

        Raises:
            OSError: If the disk is full or the file cannot be written; the checkpoint before is then unchanged.
        """
        is_last = Path(path).name == LAST
        path = Path(os.path.realpath(path))  # a link stays
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()  # torch reports no OSError when it writes to a file itself
        torch.save(checkpoint, content)
        try:
            if path.is_dir():
                path.rename(path.with_name(f"{path.name}.folder"))
            keep = path.with_name(PREVIOUS) if is_last and path in self.whole else None
            with replacing(path, keep) as draft:
                draft.write_bytes(content.getbuffer())
        except OSError as error:
            error.filename = str(path)  # an error of writing names no file
            raise
        sync_folder(path.parent)
        self.whole.add(path)

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = True
    ) -> dict[str, Any]:
        """Read a checkpoint into memory; instead of a broken `last.ckpt`, read `previous.ckpt`, with a warning.

        Raises:
            InputError: If both are broken, or are checkpoints of another run; the message says what to do.
        """
        path = Path(path)
        files = [path, Path(os.path.realpath(path)).with_name(PREVIOUS)] if path.name == LAST else [path]
        reasons = []
        for file in files:
            try:
                checkpoint = read_checkpoint(file)
                self.check(checkpoint)
            except InputError as error:
                reasons.append(f"{file.name} {error}")
                continue
            if reasons and self.is_first_process:
                warnings.warn(f"{path.parent}: {'; '.join(reasons)}; resuming from {file.name}", stacklevel=2)
            self.whole.add(Path(os.path.realpath(file)))
            return checkpoint
        raise InputError(
            f"{path.parent}: cannot be resumed, since {'; '.join(reasons)}; start again with --config "
            f"{path.parent / 'config.yaml'} and another --run"
        )


def sync_folder(folder: Path) -> None:
    """Have the system write the names in a folder to disk, if it can do so for folders."""
    file = os.open(folder, os.O_RDONLY)
    with suppress(OSError):
        os.fsync(file)
    os.close(file)
