"""Whether a checkpoint is whole, and of the run that is to be resumed."""

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from torch import Tensor

from vitspeech.errors import InputError
from vitspeech.tasks import Task
from vitspeech.tasks.optimizer import learning_rate, parameter_groups
from vitspeech.training.metrics_log import read_metrics

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
