"""The border between a config and the run: what a config may name, and whose error it is if building fails.

A parsed config holds class paths with arguments, and objects that its strings named. `check_objects` refuses everything
but classes that a run is made of. `config_errors` tells a mistake in a config from a bug of the package.
"""

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import isclass, isroutine
from pathlib import Path
from typing import Any

import lightning
import torch
from jsonargparse import Namespace
from lightning.fabric.plugins import CheckpointIO, ClusterEnvironment
from lightning.fabric.plugins.precision import Precision
from lightning.pytorch import Callback, LightningDataModule
from lightning.pytorch.accelerators import Accelerator, CPUAccelerator
from lightning.pytorch.callbacks import WeightAveraging
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.layer_sync import LayerSync
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.strategies import ModelParallelStrategy, Strategy
from lightning.pytorch.strategies.launchers.multiprocessing import _MultiProcessingLauncher
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.optim import Optimizer

from vitspeech.errors import InputError
from vitspeech.trust import import_trusted

PACKAGE, LIGHTNING = Path(__file__).parents[1], Path(lightning.__file__).parent
PARTS = (nn.Module, Optimizer, LightningDataModule, Callback, Logger, Profiler, Accelerator, Strategy)
PARTS += (Precision, CheckpointIO, ClusterEnvironment, LayerSync)  # plugins of the trainer


def check_objects(config: Any, trust: Sequence[str] = (), key: str = "") -> None:
    """Refuse functions, and classes that no part of a run is made of, wherever a parsed config names them.

    The parser accepts any callable where an argument is annotated as one, and the run would call it.

    Args:
        config: What the parser returns.
        trust: Modules that `--trust` names; all that they define is accepted.
        key: The key of `config`, for the message.

    Raises:
        InputError: If there is one; the message has its key.
    """
    config = vars(config) if isinstance(config, Namespace) else config
    if isinstance(config, dict):
        if isinstance(config.get("class_path"), str):
            check_object(import_trusted(config["class_path"], trust), trust, key)
        for name, value in config.items():
            check_objects(value, trust, f"{key}.{name}" if key else str(name))
    elif isinstance(config, list | tuple):
        for value in config:
            check_objects(value, trust, key)
    elif isroutine(config) or isclass(config):
        check_object(config, trust, key)


def check_object(value: Any, trust: Sequence[str], key: str) -> None:
    """Refuse a class or function, unless it is a part of a run, a class of vitspeech, or of a trusted module.

    Raises:
        InputError: If it is none of these.
    """
    module = f"{getattr(value, '__module__', '')}."
    trusted = any(module.startswith(f"{name}.") for name in trust)
    if not trusted and not (isclass(value) and (issubclass(value, PARTS) or module.startswith("vitspeech."))):
        name = f"{module}{getattr(value, '__qualname__', value)}"
        raise InputError(f"{key}: {name} is not a part of a run, such as a network, an optimizer or a callback")


def check_trainer(trainer: lightning.Trainer, max_time: Any = None) -> None:
    """Refuse a trainer that would not train on the batches of the data, and what a run cannot have.

    Args:
        trainer: The trainer.
        max_time: Its argument of this name, which it does not keep.

    Raises:
        InputError: If it is one of these.
    """
    if max_time is not None:
        raise InputError(
            "trainer.max_time: it would end training before the learning rate has decayed; set max_epochs, or end the "
            "run with SIGTERM and resume it"
        )
    for name in ("max_epochs", "max_steps", "limit_train_batches"):
        if getattr(trainer, name) == 0:
            raise InputError(f"trainer.{name}=0: nothing would be trained")
    if trainer.overfit_batches:
        raise InputError("trainer.overfit_batches: its batches are not those of the data; use limit_train_batches")
    check_strategy(trainer)


def check_strategy(trainer: lightning.Trainer) -> None:
    """Refuse strategies that end without the trained weights, what does not go together, and too many processes.

    On the CPU there may be one for each core. Processes that torchrun or SLURM starts are the user's own choice.

    Raises:
        InputError: If it is one of these.
    """
    if isinstance(trainer.strategy.launcher, _MultiProcessingLauncher):
        raise InputError("trainer.strategy: its processes end with the training, before the test; use ddp")
    on_cpu = isinstance(trainer.accelerator, CPUAccelerator)
    if on_cpu and trainer._accelerator_connector._layer_sync is not None and trainer.world_size > 1:
        raise InputError("trainer.sync_batchnorm: PyTorch synchronizes batch norm on GPUs only; set it to false")
    sharded = isinstance(trainer.strategy, ModelParallelStrategy)
    if sharded and any(isinstance(callback, WeightAveraging) for callback in trainer.callbacks):
        raise InputError("trainer.strategy: weights that processes have divided cannot be averaged; use ddp")
    cores, cluster = os.cpu_count() or 1, getattr(trainer.strategy, "cluster_environment", None)
    started = cluster is not None and cluster.creates_processes_externally
    if on_cpu and trainer.num_devices > cores and not started:
        raise InputError(
            f"trainer.devices={trainer.num_devices}: on the CPU that is the number of processes, and this machine has "
            f"{cores} cores"
        )


@contextmanager
def config_errors(key: str, *, all_errors: bool = False) -> Iterator[None]:
    """Turn an error about values of a config into an `InputError` of one line.

    These are the errors that libraries raise when they are called with the values, and torch's RuntimeError, wherever
    it is raised. Any other error raised by a line of this package is a bug, and stays as it is.

    Args:
        key: The part of the config, for the message.
        all_errors: Turn the errors of this package's lines, too.

    Raises:
        InputError: Instead of such an error.
    """
    try:
        yield
    except (InputError, OSError, KeyboardInterrupt):
        raise
    except Exception as error:
        origin = first_cause(error)  # the parser nests it in messages of its own
        if isinstance(origin, InputError | OSError):
            raise origin from None
        if (
            not all_errors
            and raised_in(origin, PACKAGE)
            and not isinstance(origin, RuntimeError | MisconfigurationException)
        ):
            raise
        kind = "" if isinstance(origin, ValueError | MisconfigurationException) else f" ({type(origin).__name__})"
        raise InputError(f"{key}: {origin}{kind}") from error


@contextmanager
def trainer_errors() -> Iterator[None]:
    """Turn errors that Lightning raises itself while it trains, and those about memory, into an `InputError`.

    They are about options of the trainer, such as a callback that monitors a metric that is not logged.

    Raises:
        InputError: Instead of such an error.
    """
    try:
        yield
    except (InputError, OSError):
        raise
    except torch.OutOfMemoryError as error:
        raise InputError(f"out of memory: {error}; take a smaller data.batch or network") from error
    except Exception as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
            raise InputError(f"out of memory: {error}; take a smaller data.batch or network") from error
        if not raised_in(error, LIGHTNING) and not isinstance(error, MisconfigurationException):
            raise
        raise InputError(f"trainer: {error}") from error


def first_cause(error: BaseException) -> BaseException:
    """The error that a chain of errors (`raise ... from`) began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def raised_in(error: BaseException, package: Path) -> bool:
    """Whether the line that raised an error is in a package."""
    lines = traceback.extract_tb(error.__traceback__)
    return bool(lines) and package in Path(lines[-1].filename).parents
