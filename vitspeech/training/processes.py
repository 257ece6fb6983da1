"""What the processes of a distributed run do together besides training: one division, one network, one message."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from torch import nn

from vitspeech.data.batches import process
from vitspeech.data.module import InMemoryData
from vitspeech.errors import InputError
from vitspeech.training.arguments import take_option
from vitspeech.training.run_folder import CONFIG


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


def divide_steps(trainer: Trainer, data: InMemoryData) -> None:
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
def one_message(trainer: Trainer) -> Iterator[None]:
    """Let only the first process report a loss that is not finite, which ends all of them."""
    try:
        yield
    except FloatingPointError:
        leave()
        if trainer.is_global_zero:
            raise
        sys.exit(1)
