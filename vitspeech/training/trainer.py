"""The trainer that configs describe: its precision, and what the processes of a distributed run do together."""

import inspect
import os
import time
from typing import Any, Literal

import lightning
import torch
from jsonargparse import Namespace
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import WeightAveraging
from lightning.pytorch.plugins.environments import ClusterEnvironment, SLURMEnvironment, TorchElasticEnvironment
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import nn

from vitspeech.data.batches import process
from vitspeech.errors import InputError, check_number

ARGUMENTS = inspect.signature(lightning.Trainer.__init__).parameters
PRECISIONS, PLUGINS = ARGUMENTS["precision"].annotation | Literal["auto"], ARGUMENTS["plugins"].annotation
HALF = ("bf16-true", "16-true")
LEAST = {"accumulate_grad_batches": 1, "check_val_every_n_epoch": 1, "val_check_interval": 1e-9}  # of numbers that
LEAST |= {"log_every_n_steps": 0, "num_sanity_val_steps": -1, "gradient_clip_val": 0}  # Lightning does not check
SLOWER = 1.2  # ratio of the times from which bfloat16 counts as slower
ROWS, WIDTH = 1024, 256  # of the products that are timed
REPEATS, SECONDS = 5, 0.1


def fill_precision(trainer: Namespace) -> str:
    """Replace the precision `auto` in a config.

    On a GPU with bfloat16 it becomes `bf16-mixed`. On a CPU, matrix products are timed, which takes 20 to 500 ms: it
    becomes `32-true` where they are slower in bfloat16 than in single precision, else `bf16-mixed`. Several processes
    on a CPU train in `32-true`, because their measurements could differ.

    Args:
        trainer: The part of the config about the trainer.

    Returns:
        A line for the user: what `auto` became, or that the given precision is slow on this CPU; else an empty text.
    """
    given, device = trainer.precision, device_type(trainer.accelerator)
    if given in HALF:  # of all weights, while inputs are in single precision
        raise InputError(f"trainer.precision={given}: inputs are in fp32; known: auto, 32-true, bf16-mixed, 16-mixed")
    if given != "auto":
        ratio = bf16_ratio() if device == "cpu" and str(given).startswith("bf16") else 0.0
        return f"hint: {in_words(ratio)}; --trainer.precision 32-true may train faster" if ratio >= SLOWER else ""
    reason = ""
    if device == "cpu" and str(trainer.devices) == "1" and trainer.num_nodes == 1:
        fast = (ratio := bf16_ratio()) < SLOWER
        reason = f": {in_words(ratio)}"
    else:
        fast = device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    trainer.precision = "bf16-mixed" if fast else "32-true"
    return f"precision auto is {trainer.precision}{reason}"


def device_type(accelerator: Any) -> str:
    """The type of the device that trains, such as `cpu` or `cuda`, from the trainer's `accelerator`."""
    found = None if accelerator == "cpu" else torch.accelerator.current_accelerator(check_available=True)
    return found.type if found else "cpu"


def in_words(ratio: float) -> str:
    """A ratio of times as a sentence."""
    relation = f"are {1 / ratio:.1f} times as fast as" if ratio < 1 else f"take {ratio:.1f} times as long as"
    return f"matrix products in bf16 {relation} in fp32 on this CPU"


def bf16_ratio() -> float:
    """How many times as long a matrix product takes in bfloat16 as in single precision."""
    return product_seconds(torch.bfloat16) / product_seconds(torch.float32)


def product_seconds(dtype: torch.dtype) -> float:
    """The shortest time of a few matrix products."""
    rows, weight = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)
    seconds: list[float] = []
    while len(seconds) <= REPEATS and (len(seconds) < 2 or sum(seconds) < SECONDS):
        start = time.perf_counter()
        rows @ weight
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


class Trainer(lightning.Trainer):
    """Lightning's trainer, whose `precision` may be `auto` in a config; `fill_precision` replaces it.

    It does not requeue a job of SLURM by itself: Lightning saves checkpoints for that in the current folder, from
    which any later run there would start. A job that SLURM has requeued resumes its run, see `after_restart`.

    Args:
        precision: One of Lightning's, `32-true` by default; `auto` is `bf16-mixed` where the hardware is fast in
            it, else `32-true`.
        plugins: Lightning's.
    """

    def __init__(self, *args: Any, precision: PRECISIONS = None, plugins: PLUGINS = None, **kwargs: Any) -> None:
        given = plugins if isinstance(plugins, list) else [plugins] if plugins else []
        is_slurm = SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
        if is_slurm and not any(isinstance(plugin, ClusterEnvironment) for plugin in given):
            plugins = [*given, SLURMEnvironment(auto_requeue=False)]
        super().__init__(*args, precision=precision, plugins=plugins, **kwargs)


def check_trainer(trainer: lightning.Trainer, given: Namespace) -> None:
    """Refuse a trainer that would not train on the batches of the data, or would lose the trained weights.

    Args:
        trainer: The trainer.
        given: The part of the config about it.
    """
    for name, least in LEAST.items():
        if isinstance(given[name], int | float):
            check_number(f"trainer.{name}", given[name], least)
    nothing = [name for name in ("max_epochs", "max_steps", "limit_train_batches") if getattr(trainer, name) == 0]
    spawns = any(word in str(given.strategy) for word in ("spawn", "fork", "notebook"))
    divides = isinstance(trainer.strategy, ModelParallelStrategy)
    averages = any(isinstance(callback, WeightAveraging) for callback in trainer.callbacks)
    environment = getattr(trainer.strategy, "cluster_environment", None)
    starts_processes = environment is None or not environment.creates_processes_externally  # as torchrun does
    cores, processes = os.cpu_count() or 1, trainer.num_devices
    too_late = (trainer.check_val_every_n_epoch or 0) > (trainer.max_epochs or 0) > 0
    never_validates = trainer.limit_val_batches == 0 or too_late
    crowded = isinstance(trainer.accelerator, CPUAccelerator) and starts_processes and processes > cores
    refused = {
        "max_time would end training before the learning rate has decayed; set max_epochs": given.max_time is not None,
        f"{' and '.join(nothing)}=0: nothing would be trained": nothing,
        "fast_dev_run would leave a run that looks finished; use --config trainer/smoke": trainer.fast_dev_run,
        "limit_val_batches or check_val_every_n_epoch: no epoch would be validated": never_validates,
        "limit_test_batches: the test set is measured as a whole": given.limit_test_batches not in (None, 1.0),
        "limit_predict_batches has no effect: nothing is predicted": given.limit_predict_batches not in (None, 1.0),
        "overfit_batches: its batches are not those of the data; use limit_train_batches": trainer.overfit_batches,
        "strategy: its processes end with the training, before the test; use ddp": spawns,
        "strategy: weights that processes have divided cannot be averaged; use ddp": averages and divides,
        f"devices={processes} is the number of processes on the CPU, and this machine has {cores} cores": crowded,
    }
    for reason, is_wrong in refused.items():
        if is_wrong:
            raise InputError(f"trainer.{reason}")


def share_network(network: nn.Module) -> None:
    """Give every process the weights and buffers of the first one; batch norm's statistics differ between them."""
    if process()[1] > 1:
        for tensor in network.state_dict().values():
            torch.distributed.broadcast(tensor, 0)


def end_processes() -> None:
    """End the group of processes; its threads would abort a process that exits while they run."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
