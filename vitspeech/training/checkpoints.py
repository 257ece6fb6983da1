"""The checkpoints of a run and its log: a whole checkpoint is there at any time, and what resumes from it is checked.

RUN/best.ckpt       of the best epoch by the task's validation metric
RUN/last.ckpt       of the last epoch, or of a step within one
RUN/previous.ckpt   what was last.ckpt before; a run is resumed from it if last.ckpt is broken
RUN/metrics.csv     losses, metrics and learning rates, one row for each step at which something was logged

A checkpoint is written to a hidden draft beside it, which then replaces it. So a kill, a loss of power or a full disk
leaves the checkpoints as they were. Each one holds the rows of the log up to its step, and a resumed run continues from
them, so the log of an interrupted run equals that of an uninterrupted one.
"""

import csv
import io
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only, rank_zero_warn
from torch import Tensor

from vitspeech.data.batches import process
from vitspeech.data.module import STREAM, DataModule
from vitspeech.errors import InputError, check_number
from vitspeech.files import replacing, write_text
from vitspeech.tasks import Task
from vitspeech.tasks.optimizer import parameter_groups

METRICS, LAST, PREVIOUS, BEST = "metrics.csv", "last.ckpt", "previous.ckpt", "best.ckpt"
FIRST = ["epoch", "step"]  # the first columns; the others follow in alphabetical order
OF_STREAMS = ("storage", "processes", "workers")  # determine the batches of streams alone
ASK_EVERY = 20  # optimizer steps after which several processes agree on the time, for which they wait for each other


class MetricsLog(Logger):
    """Collects the rows in the first process. The file is written after each checkpoint and at the end of training."""

    name, version = "metrics", None

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.rows: dict[int, dict[str, str]] = {}  # by step

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Tensor | float], step: int | None = None) -> None:
        values = {name: str(value.item() if isinstance(value, Tensor) else value) for name, value in metrics.items()}
        self.rows.setdefault(step, {}).update(values | {"step": str(step)})

    def log_early(self, trainer: Trainer, ending: str) -> None:
        """Log what Lightning logs only after the checkpoint of this step or epoch; its row then stays as it is.

        Args:
            trainer: The trainer. The metrics are reduced over all devices, so every process takes part.
            ending: Of the names: `_step` or `_epoch`, which Lightning gives to what is logged for both.
        """
        values = {name: value for name, value in trainer.logged_metrics.items() if name.endswith(ending)}
        if values:
            self.log_metrics({"epoch": trainer.current_epoch, **values}, trainer.global_step - 1)

    def text(self) -> str:
        """The table as CSV; empty without rows."""
        if not self.rows:
            return ""
        names = {name for row in self.rows.values() for name in row}
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, FIRST + sorted(names - {*FIRST}), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows.values())
        return text.getvalue()

    def restore(self, text: str) -> None:
        """Replace all rows by those of a checkpoint."""
        self.rows = {
            int(row["step"]): {name: value for name, value in row.items() if value} for row in read_metrics(text)
        }

    @rank_zero_only
    def write(self) -> None:
        """Write the file."""
        if self.rows:
            write_text(self.text(), self.path)

    def after_save_checkpoint(self, checkpoint_callback: ModelCheckpoint) -> None:
        self.write()

    def finalize(self, status: str) -> None:
        self.write()

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; config.yaml has them."""


def read_metrics(text: str) -> list[dict[str, str]]:
    """The rows of a `metrics.csv`; a field without a value is empty."""
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        for row in rows:
            if list(row)[:2] != FIRST or None in row:
                raise ValueError
            int(row["step"]), int(row["epoch"] or 0), [float(value or 0) for value in row.values()]
    except (TypeError, ValueError, csv.Error):
        raise InputError("not a table of numbers with the columns epoch and step") from None
    return rows


class BestCheckpoint(ModelCheckpoint):
    """`best.ckpt`, of a run whose folder may have been moved before it is resumed.

    Lightning forgets the best value so far if the checkpoint is in another folder than when it was saved.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        file = str(Path(self.dirpath, BEST))
        names = ("best_model_path", "kth_best_model_path", "last_model_path")
        paths = {name: file if state_dict[name] else "" for name in names}
        best = dict.fromkeys(state_dict["best_k_models"] and [file], state_dict["best_model_score"])
        super().load_state_dict(state_dict | paths | {"best_k_models": best, "dirpath": self.dirpath})


class LastCheckpoint(Checkpoint):
    """`last.ckpt`: saved after each epoch, and within epochs after a number of minutes or optimizer steps.

    Args:
        every_minutes: Minutes after which it is saved again; 0 saves after epochs only.
        every_steps: Optimizer steps after which it is saved again; 0 sets no number. A step that is followed by
            validation is left out, since Lightning would resume after the validation: the next one is saved instead.

    Attributes:
        dirpath: The folder; `None` until the run is opened.
        saved: The file, once there is one.
    """

    def __init__(self, *, every_minutes: float = 0, every_steps: int = 0) -> None:
        check_number("every_minutes", every_minutes, 0, 1e6)
        check_number("every_steps", every_steps, 0, 10**9)
        self.every_minutes, self.every_steps = every_minutes, every_steps
        self.saved_at, self.saved_step = 0.0, 0
        self.dirpath: str | None = None
        self.saved = ""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.saved = str(trainer.ckpt_path or "")
        self.restart_intervals(trainer)

    def restart_intervals(self, trainer: Trainer) -> None:
        """Count minutes and steps from here on."""
        self.saved_at, self.saved_step = time.monotonic(), trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if it is time to, but not before validation, nor at the end of an epoch, which is saved after it."""
        accumulates = (batch_idx + 1) % trainer.accumulate_grad_batches
        is_last_batch = trainer.fit_loop.epoch_loop.batch_progress.is_last_batch
        if accumulates or is_last_batch or validation_follows(trainer, batch_idx) or not self.is_due(trainer):
            return
        pl_module.check_losses("training")
        logs = [logger for logger in trainer.loggers if isinstance(logger, MetricsLog)]
        if trainer.global_step % trainer.log_every_n_steps == 0:
            for log in logs:
                log.log_early(trainer, "_step")
        self.save(trainer)

    def is_due(self, trainer: Trainer) -> bool:
        """Whether to save after this step; every process gets the same answer."""
        if self.every_steps and trainer.global_step - self.saved_step >= self.every_steps:
            return True
        if not self.every_minutes or (trainer.world_size > 1 and trainer.global_step % ASK_EVERY):
            return False
        return trainer.strategy.broadcast(time.monotonic() - self.saved_at >= 60 * self.every_minutes)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Save the checkpoint, and the log up to it."""
        path = Path(self.dirpath, LAST)
        trainer.save_checkpoint(path)
        self.saved = str(path)
        for logger in trainer.loggers:
            if isinstance(logger, MetricsLog):
                logger.write()
        self.restart_intervals(trainer)


def validation_follows(trainer: Trainer, batch_idx: int) -> bool:
    """Whether Lightning validates after a batch that is not the last one of its epoch."""
    within_epoch = trainer.check_val_every_n_epoch is not None
    number = batch_idx if within_epoch else trainer.fit_loop.epoch_loop.total_batch_idx
    every = trainer.val_check_batch  # batches; `None` if it validates by the clock
    return trainer.should_stop or (every is not None and (number + 1) % every == 0)


def checkpoints(monitor: str, mode: str, *, every_minutes: float = 0, every_steps: int = 0) -> list[Checkpoint]:
    """The callbacks that save `best.ckpt` and `last.ckpt`, in this order: `last.ckpt` holds the best value so far.

    Args:
        monitor: The validation metric by which the best epoch is chosen.
        mode: `max` or `min`: whether higher or lower values of it are better.
        every_minutes: Minutes after which `last.ckpt` is saved within an epoch; see `LastCheckpoint`.
        every_steps: Optimizer steps after which `last.ckpt` is saved within an epoch.
    """
    saving = {"enable_version_counter": False, "save_on_train_epoch_end": True}
    best = BestCheckpoint(filename="best", monitor=monitor, mode=mode, **saving)
    return [best, LastCheckpoint(every_minutes=every_minutes, every_steps=every_steps)]


def batches_of(data: DataModule) -> dict[str, Any]:
    """What determines the batches of an epoch, besides the items themselves."""
    named = {"seed": data.seed, "storage": data.storage, "items": len(data.train), "batch": data.batch}
    named |= {"accumulate": data.accumulate, "batch_s": getattr(data, "batch_s", None)}
    return named | {"processes": process()[1], "workers": data.workers}


def progress(trainer: Trainer) -> dict[str, Any]:
    """How far a run is: its finished epochs, and the batches of the next one that each process has trained on."""
    epochs, batches = trainer.fit_loop.epoch_progress.current, trainer.fit_loop.epoch_loop.batch_progress.current
    within_epoch = epochs.processed < epochs.started
    return {"epochs": epochs.processed, "batches": batches.processed if within_epoch else 0}


def check_same_run(checkpoint: Mapping[str, Any], task: Task, data: DataModule) -> None:
    """Refuse to go on with another seed, another rest of a begun epoch or another optimizer's settings.

    The card of a run names its seed. The optimizer takes its settings from the checkpoint, so others would be recorded
    without being used. What else differs, such as the network, shows when the checkpoint is loaded.
    """
    batches = batches_of(data)
    try:
        if STREAM not in (data.storage, checkpoint["progress"].get("storage")):
            batches = {name: value for name, value in batches.items() if name not in OF_STREAMS}
        read_metrics(checkpoint["metrics"])
        saved = {name: checkpoint["progress"][name] for name in ("batches", *batches)}
        optimizers = checkpoint["optimizer_states"]
    except KeyError:
        raise InputError("is not a checkpoint of this version of vitspeech") from None
    for name, value in batches.items():
        if name == "seed" and saved[name] != value:
            raise InputError(f"was saved with seed_everything={saved[name]}, not {value}")
        is_one_part = name == "workers" and max(value, saved[name]) <= 1  # a stream without workers is one part, too
        if saved["batches"] and saved[name] != value and not is_one_part:
            where = f"within an epoch with {name}={saved[name]}, not {value}"
            raise InputError(f"was saved {where}: the rest of the epoch would be different items")
    if type(task).configure_optimizers is not Task.configure_optimizers:
        return
    groups = task.make_optimizer(parameter_groups(task.network)).param_groups
    saved_groups = optimizers[0]["param_groups"]
    pairs = zip(groups, saved_groups, strict=False)
    if len(groups) != len(saved_groups) or any(group.keys() - before.keys() for group, before in pairs):
        raise InputError("is of another optimizer")
    for group, before in zip(groups, saved_groups, strict=True):
        kept = before | {"lr": before["initial_lr"]}  # the schedule changes `lr`
        for name in group.keys() - {"params"}:
            if kept[name] != group[name]:
                change = f"{name}={kept[name]} of the optimizer, not {group[name]}"
                raise InputError(f"was saved with {change}: a run keeps its optimizer's settings")


class CheckpointFiles(TorchCheckpointIO):
    """Writes checkpoints so that there is a whole one at any time, and reads the last one that is whole.

    Args:
        check: Raises an `InputError` if the contents of a checkpoint are not those of this run.
    """

    def __init__(self, check: Callable[[dict[str, Any]], None]) -> None:
        self.check = check
        self.whole: set[Path] = set()  # files, links resolved, that this process has read or written

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write a checkpoint; `last.ckpt` becomes `previous.ckpt` before it is replaced."""
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
        """Read a checkpoint into memory; instead of a broken `last.ckpt`, read `previous.ckpt`, with a warning."""
        path = Path(path)
        files = [path, Path(os.path.realpath(path)).with_name(PREVIOUS)] if path.name == LAST else [path]
        reasons = []
        for file in files:
            try:
                checkpoint = read_checkpoint(file, self.check)
            except InputError as error:
                reasons.append(f"{file.name} {error}")
                continue
            if reasons:
                rank_zero_warn(f"{path.parent}: {'; '.join(reasons)}; resuming from {file.name}")
            self.whole.add(Path(os.path.realpath(file)))
            return checkpoint
        raise InputError(
            f"{path.parent}: cannot be resumed, since {'; '.join(reasons)}; start again with --config "
            f"{path.parent / 'config.yaml'} and another --run"
        )


def read_checkpoint(path: Path, check: Callable[[dict[str, Any]], None] = lambda checkpoint: None) -> dict[str, Any]:
    """The contents of a checkpoint, in memory. No code from it is run.

    Args:
        path: The file.
        check: Raises an `InputError` if the contents are of another run.
    """
    if not path.is_file():
        raise InputError("is not a file" if path.exists() else "does not exist")
    try:
        check_archive(path)
        with warnings.catch_warnings(action="ignore"):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
            check(checkpoint)
    except InputError:
        raise
    except Exception as error:  # zipfile and torch document no exceptions; a broken file raises many
        reason = str(error).strip().partition("\n")[0][:100]
        raise InputError(f"is broken ({type(error).__name__}: {reason})") from None
    return checkpoint


def check_archive(path: Path) -> None:
    """Compare the contents of a file that torch.save wrote with its checksums, which torch.load does not read."""
    if not zipfile.is_zipfile(path):
        raise InputError("is broken (incomplete, or not written by torch)")
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):  # it may unpack to any size
            raise InputError("is not a file that torch wrote (it is compressed)")
        if sum(part.file_size for part in parts) > path.stat().st_size or archive.testzip():
            raise InputError("is broken (a checksum differs)")


def sync_folder(folder: Path) -> None:
    """Have the system write the names in a folder to disk, if it can do so for folders."""
    file = os.open(folder, os.O_RDONLY)
    with suppress(OSError):
        os.fsync(file)
    os.close(file)
