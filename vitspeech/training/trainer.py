"""The precision of training: `auto` is bfloat16 where the hardware is fast in it, else single precision.

The trainer that configs describe.

What the processes of a distributed run do together besides training: one division, one network, one message.
"""

import inspect
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import lightning
import torch
from jsonargparse import Namespace
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch import nn

from vitspeech.data.batches import process
from vitspeech.data.module import DataModule
from vitspeech.errors import InputError
from vitspeech.training.config import take_option
from vitspeech.training.run_folder import CONFIG

PRECISIONS = inspect.signature(lightning.Trainer.__init__).parameters["precision"].annotation | Literal["auto"]
HALF = ("bf16-true", "16-true")  # of all weights
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

    Raises:
        InputError: If all weights would be in half precision: inputs are in single precision.
    """
    given, device = trainer.precision, device_type(trainer.accelerator)
    if given in HALF:
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
    """The type of the device that trains, such as `cpu` or `cuda`.

    Args:
        accelerator: The trainer's; `auto` is the accelerator of this machine, or its CPU.
    """
    found = None if accelerator == "cpu" else torch.accelerator.current_accelerator(check_available=True)
    return found.type if found else "cpu"


def in_words(ratio: float) -> str:
    """A ratio of times as a sentence."""
    return f"matrix products in bf16 take {ratio:.1f} times as long as in fp32 on this CPU"


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
    """

    def __init__(self, *args: Any, precision: PRECISIONS = None, **kwargs: Any) -> None:
        super().__init__(*args, precision=precision, **kwargs)
        environment = self._accelerator_connector.cluster_environment
        if isinstance(environment, SLURMEnvironment):
            environment.auto_requeue = False


def after_restart(arguments: Sequence[str]) -> Sequence[str]:
    """The command line of what `torchrun --max-restarts` or SLURM has started again: it resumes the run of `--run`.

    SLURM starts a job again that was preempted or lost its machine.

    Raises:
        InputError: If neither `--run` nor `--resume` says which run that is.
    """
    starters = {"torchrun": "TORCHELASTIC_RESTART_COUNT", "SLURM": "SLURM_RESTART_COUNT"}
    starter = next((name for name, count in starters.items() if int(os.environ.get(count) or 0)), None)
    if starter is None or take_option(arguments, "--resume")[0]:
        return arguments
    runs = take_option(arguments, "--run")[0]
    if not runs:
        raise InputError(f"{starter} has started this run again, and without --run it cannot be found: name its folder")
    if not (Path(runs[-1]) / CONFIG).is_file():
        return arguments
    trusted = take_option(arguments, "--trust", many=True)[0]
    return ["--resume", runs[-1], *(f"--trust={name}" for name in trusted)]


def share_network(network: nn.Module) -> None:
    """Give every process the weights and buffers of the first one; batch norm's statistics differ between them."""
    if process()[1] > 1:
        for tensor in network.state_dict().values():
            torch.distributed.broadcast(tensor, 0)


def divide_steps(trainer: lightning.Trainer, data: DataModule) -> None:
    """Tell the data how many batches are accumulated, before a run is created.

    Raises:
        InputError: If the processes cannot divide the items of an optimizer step evenly.
    """
    data.accumulate = trainer.accumulate_grad_batches
    data.training_batches(trainer.world_size)


def leave() -> None:
    """End the group of processes; its threads would abort a process that exits while they run."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@contextmanager
def one_message(trainer: lightning.Trainer) -> Iterator[None]:
    """Let only the first process report a loss that is not finite, which ends all of them."""
    try:
        yield
    except FloatingPointError:
        leave()
        if trainer.is_global_zero:
            raise
        sys.exit(1)
