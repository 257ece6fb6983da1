"""The precision of training: `auto` is bfloat16 where the hardware is fast in it, else single precision."""

import inspect
import time
from typing import Any, Literal

import lightning
import torch
from jsonargparse import Namespace

from vitspeech.errors import InputError

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
