"""Timing of interleaved variants after a warm-up, with all samples recorded, and formatting of reports."""

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from tqdm import tqdm

from vitspeech.provenance import provenance

BEYOND_PATIENCE = 3
PEERS = ("local-attention", "vit-pytorch", "timm", "torchvision", "pyopen-wakeword", "pymicro-wakeword", "local-wake")
# Environment variables that affect times.
ENVIRONMENT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "LD_PRELOAD", "THP_MEM_ALLOC_ENABLE")

Call = Callable[[], Any]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class NotRunError(Exception):
    """The reason why a variant cannot run, as a short text for the table."""


def not_installed(command: str = "pip install -e '.[bench]'") -> NotRunError:
    """The error for a package that is not installed; `command` installs it."""
    return NotRunError(f"not installed ({command})")


def reason(error: Exception) -> str:
    """The first line of an error message, for the table."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return first if isinstance(error, NotRunError) else f"failed: {first[:120]}"


def seconds_of(call: Call, device: str) -> float:
    """Seconds of one run of `call`, including all work on the device; its result is freed after the measurement."""
    synchronize(device)
    start = time.perf_counter()
    result = call()
    synchronize(device)
    duration = time.perf_counter() - start
    del result
    return duration


def synchronize(device: str) -> None:
    """Wait for a CUDA device; on CPU there is nothing to wait for."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def interleaved(
    calls: dict[str, Call],
    repeats: int,
    *,
    device: str = "cpu",
    patience: float = 60.0,
    owner: str = "ours",
    note: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Time the calls in turn, round after round, so that a slower phase of the machine affects all of them.

    Every other round runs in reverse order.

    Args:
        calls: The calls to time, by name.
        repeats: Number of rounds after the warm-up.
        device: `cpu` or `cuda`.
        patience: Seconds; a call whose warm-up takes longer runs in the first three rounds only.
        owner: The call whose failure is raised; failures of others are recorded.
        note: Called with the name and round of the running call.

    Returns:
        By name `median_ms`, `samples_ms`, `repeats`, `warm_up_ms` and `ratio` (of the median to that of `owner`), and
        by name the reason of each call that failed.
    """
    warm_ups, not_run = {}, {}
    for name, call in calls.items():
        note(f"{name}, warm-up")
        try:
            warm_ups[name] = seconds_of(call, device)
        except (NotRunError, RuntimeError, NotImplementedError) as error:
            if name == owner:
                raise
            not_run[name] = reason(error)
    samples = {name: [] for name in warm_ups}
    for number in range(repeats):
        # The state of caches and freed memory depends on the previous call, so every other round is reversed.
        for name in list(samples)[:: -1 if number % 2 else 1]:
            if number < BEYOND_PATIENCE or warm_ups[name] <= patience:
                note(f"{name}, {number + 1} of {repeats}")
                samples[name].append(seconds_of(calls[name], device))
    times = {name: summary(durations, warm_ups[name]) for name, durations in samples.items()}
    if owner in times:
        for row in times.values():
            row["ratio"] = row["median_ms"] / times[owner]["median_ms"]
    gc.collect()
    return times, not_run


def summary(samples: list[float], warm_up: float) -> dict[str, Any]:
    """The report of the runs of one variant, which are given in seconds."""
    return {
        "median_ms": 1000 * statistics.median(samples),
        "repeats": len(samples),
        "warm_up_ms": 1000 * warm_up,
        "samples_ms": [1000 * sample for sample in samples],
    }


def describe(bar: tqdm, text: str) -> None:
    """Show what is running: at once on a terminal, with the next cell in a log file."""
    bar.set_description(text, refresh=sys.stderr.isatty())


def origin(device: str) -> dict[str, Any]:
    """`provenance`, with the versions of the compared packages and the environment variables that affect times."""
    record = provenance(device)
    for name in PEERS:
        try:
            record["versions"][name] = version(name)
        except PackageNotFoundError:
            record["versions"][name] = None
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {**record, "platform": sys.platform, "threads": torch.get_num_threads(), "environment": environment}


def aligned(rows: Iterable[Iterable[str]]) -> str:
    """A text table: the first column left-aligned, the others right-aligned."""
    rows = [list(row) for row in rows]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(sizes[0]), *map(str.rjust, row[1:], sizes[1:])]).rstrip() for row in rows)
