"""RUN/metrics.csv: losses, metrics and learning rates of a run, one row for each step at which something was logged.

The log belongs to the checkpoint: each checkpoint holds the rows up to its step, and a resumed run continues from them.
So the log of an interrupted run equals that of an uninterrupted one.

Whether a checkpoint is whole, and of the run that is to be resumed.

The checkpoints of a run: `best.ckpt`, `last.ckpt`, and `previous.ckpt`, which was `last.ckpt` before.

Each is written to a hidden draft beside it, which then replaces it. So a kill, a loss of power or a full disk leaves
the checkpoints as they were. If `last.ckpt` is broken nevertheless, a run is resumed from `previous.ckpt`.
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
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from vitspeech.errors import InputError, check_number
from vitspeech.files import replacing, write_text
from vitspeech.tasks import Task
from vitspeech.tasks.optimizer import learning_rate, parameter_groups

METRICS = "metrics.csv"
FIRST = ["epoch", "step"]  # the first columns; the others follow in alphabetical order


class MetricsLog(Logger):
    """Collects the rows in the first process. The file is written after each checkpoint and at the end of training.

    Args:
        path: The file.
    """

    name, version = "metrics", None

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.rows: dict[int, dict[str, str]] = {}  # by step

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Tensor | float], step: int | None = None) -> None:
        """Add values to the row of a step."""
        values = {name: str(value.item() if isinstance(value, Tensor) else value) for name, value in metrics.items()}
        self.rows.setdefault(step, {}).update(values | {"step": str(step)})

    def log_epoch(self, trainer: Trainer) -> None:
        """Log the means of a training epoch before its checkpoint is written.

        Lightning logs them only after it; the row then stays as it is.
        """
        values = trainer._logger_connector.metrics["log"]  # reduced over all devices, so every process takes part
        if values:
            step = trainer.fit_loop.epoch_loop._batches_that_stepped - 1
            self.log_metrics({"epoch": trainer.current_epoch, **values}, step)

    def log_step(self, trainer: Trainer) -> None:
        """Log a training step before the checkpoint that follows it is written; Lightning logs it only after it."""
        connector = trainer._logger_connector
        if connector.should_update_logs and connector.metrics["log"]:
            step = trainer.fit_loop.epoch_loop._batches_that_stepped
            self.log_metrics({"epoch": trainer.current_epoch, **connector.metrics["log"]}, step)

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
        """Replace all rows by those of a checkpoint.

        Raises:
            InputError: If the text is not such a table.
        """
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
        """Write the file when training ends, also because of an error."""
        self.write()

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; config.yaml has them."""


def read_metrics(text: str) -> list[dict[str, str]]:
    """The rows of a `metrics.csv`; a field without a value is empty.

    Raises:
        InputError: If the text is not such a table of numbers.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise InputError(f"not a table: {error}") from None
    for row in rows:
        try:
            if list(row)[:2] != FIRST or None in row:
                raise ValueError
            int(row["step"]), int(row["epoch"] or 0), [float(value or 0) for value in row.values()]
        except (TypeError, ValueError):
            raise InputError("not a table of numbers with the columns epoch and step") from None
    return rows


LISTS = ("optimizer_states", "lr_schedulers")
MAPPINGS = ("state_dict", "loops", "callbacks")
KEYS = ("epoch", "global_step", "pytorch-lightning_version", "metrics", *MAPPINGS, *LISTS)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The contents of a checkpoint, in memory. No code from it is run.

    Raises:
        InputError: If there is no such file, or it is broken. The message continues the file's name.
    """
    if not path.exists():
        raise InputError("does not exist")
    if not path.is_file():
        raise InputError("is not a file")
    try:
        check_archive(path)
        with warnings.catch_warnings(action="ignore"):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # zipfile and torch.load document no exceptions; a broken file raises many
        reason = str(error).strip().partition("\n")[0][:100]
        raise InputError(f"is broken ({type(error).__name__}: {reason})") from None
    if not isinstance(checkpoint, dict):
        raise InputError(f"is not a checkpoint of a run, but a {type(checkpoint).__name__}")
    if missing := [key for key in KEYS if key not in checkpoint]:
        raise InputError(f"is not a checkpoint of this version of vitspeech; it has no {', '.join(missing)}")
    return checkpoint


def check_archive(path: Path) -> None:
    """Compare the contents of a file that torch.save wrote with its checksums, which torch.load does not read.

    Raises:
        InputError: If one differs, or a part is compressed, as torch.save never does.
    """
    if not zipfile.is_zipfile(path):
        raise InputError("is broken (incomplete, or not written by torch)" if path.stat().st_size else "is empty")
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise InputError("is not a file that torch wrote (it is compressed)")
        if sum(part.file_size for part in parts) > path.stat().st_size or archive.testzip():
            raise InputError("is broken (a checksum differs)")


def check_checkpoint(checkpoint: Mapping[str, Any], task: Task, trainer: Trainer) -> None:
    """Check that a checkpoint has everything that resuming needs, of the same network and optimizer.

    Raises:
        InputError: If not. The message continues the file's name.
    """
    for kind, names in ((dict, MAPPINGS), (list, LISTS), (int, ("epoch", "global_step")), (str, ("metrics",))):
        for name in names:
            if not isinstance(checkpoint[name], kind):
                raise InputError(f"is broken ({name} is of type {type(checkpoint[name]).__name__})")
    for name in ("state_dict", "current_model_state"):  # the second one if weights are averaged
        check_weights(checkpoint.get(name, checkpoint["state_dict"]), task.state_dict())
    check_structure(checkpoint["loops"], {"fit_loop": trainer.fit_loop.state_dict()}, "loops")
    saved = {callback.state_key: callback.state_dict() for callback in trainer.checkpoint_callbacks}
    check_structure(checkpoint["callbacks"], saved, "callbacks")
    try:
        read_metrics(checkpoint["metrics"])
    except InputError as error:
        raise InputError(f"is broken (metrics: {error})") from None
    if type(task).configure_optimizers is Task.configure_optimizers:
        check_optimizer(checkpoint, task)
    check_batches(checkpoint, trainer)


def progress_of(checkpoint: Mapping[str, Any]) -> tuple[int, int]:
    """The epoch at which a run goes on, and how many of its batches each process has trained on."""
    loops = checkpoint["loops"]["fit_loop"]
    epoch = loops["epoch_progress"]["current"]
    batches = loops["epoch_loop.batch_progress"]["current"]
    return epoch["processed"], batches["processed"] if epoch["processed"] < epoch["started"] else 0


def batches_of(trainer: Trainer) -> dict[str, float | None]:
    """The settings that determine the batches of an epoch, besides the data."""
    data = trainer.datamodule
    named = {"seed": data.seed, "items": len(data.train), "batch": data.batch, "accumulate": data.accumulate}
    return named | {"batch_s": getattr(data, "batch_s", None)}


def check_batches(checkpoint: Mapping[str, Any], trainer: Trainer) -> None:
    """Raise an `InputError` unless a run keeps its seed, which its card names, and gets the rest of a begun epoch."""
    within_epoch = progress_of(checkpoint)[1] > 0
    saved, loss = checkpoint.get("batches"), checkpoint.get("epoch_loss")
    if not isinstance(saved, dict) or (within_epoch and getattr(loss, "shape", None) != (2,)):
        raise InputError("is broken (it lacks the settings that determine the epoch's batches)")
    expected = batches_of(trainer)
    if saved.get("seed") != expected["seed"]:
        raise InputError(f"was saved with seed_everything={saved.get('seed')}, not {expected['seed']}")
    for name, value in expected.items():
        if within_epoch and saved.get(name) != value:
            raise InputError(
                f"was saved within an epoch with {name}={saved.get(name)}, not {value}: the rest of the epoch would be "
                "different items"
            )


def check_weights(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise an `InputError` unless names and shapes are the expected ones."""
    if not isinstance(weights, dict):
        raise InputError("is broken (the weights are not a mapping)")
    if different := sorted(weights.keys() ^ expected.keys()):
        where = "the checkpoint" if different[0] in weights else "the config"
        raise InputError(f"is of another network (only that of {where} has {different[0]})")
    for name, tensor in expected.items():
        shape = getattr(weights[name], "shape", None)
        if shape != getattr(tensor, "shape", None):
            shapes = f"{tuple(shape or ())}, not {tuple(tensor.shape)}"
            raise InputError(f"is of another network ({name} has the shape {shapes})")


def check_structure(value: Any, template: Any, name: str) -> None:
    """Raise an `InputError` unless nested mappings have the keys of the template, and numbers where it has them."""
    if isinstance(template, dict):
        for key, part in template.items():
            if not isinstance(value, dict) or key not in value:
                raise InputError(f"is broken ({name} has no {key})")
            check_structure(value[key], part, f"{name}.{key}")
    elif isinstance(template, int | float) and not isinstance(value, int | float):
        raise InputError(f"is broken ({name} is not a number)")


def check_optimizer(checkpoint: Mapping[str, Any], task: Task) -> None:
    """Raise an `InputError` unless the states of optimizer and schedule are those of the task's."""
    optimizer = task.make_optimizer(parameter_groups(task.network))
    schedule = learning_rate(optimizer, steps=1, warmup_steps=0)
    states, schedules = (checkpoint[name] for name in LISTS)
    if len(states) != 1 or len(schedules) != 1:
        raise InputError("is broken (it does not have the state of one optimizer and one schedule)")
    check_structure(schedules[0], schedule.state_dict(), "lr_schedulers")
    check_structure(states[0], {"state": {}, "param_groups": None}, "optimizer_states")
    groups = states[0]["param_groups"]
    if not isinstance(groups, list) or not all(isinstance(group, dict) and "params" in group for group in groups):
        raise InputError("is broken (the optimizer's groups are not a list of groups)")
    expected = optimizer.state_dict()["param_groups"]
    if [group["params"] for group in groups] != [group["params"] for group in expected]:
        raise InputError("has other groups of parameters in its optimizer, as a run of an earlier version of vitspeech")
    if any(group.keys() - saved.keys() for group, saved in zip(expected, groups, strict=True)):
        raise InputError("is of another optimizer")
    for new, saved in zip(expected, groups, strict=True):
        check_settings(saved, new)


def check_settings(saved: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise an `InputError` unless a group's settings, such as the peak learning rate, are those it was saved with.

    The optimizer takes its settings from the checkpoint, so others would be recorded without being used.
    """
    for name in new.keys() - {"params", "lr"}:  # the schedule sets `lr`
        if saved[name] != new[name]:
            raise InputError(
                f"was saved with {'lr' if name == 'initial_lr' else name}={saved[name]} of the optimizer, not "
                f"{new[name]}: a run keeps its optimizer's settings"
            )


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
