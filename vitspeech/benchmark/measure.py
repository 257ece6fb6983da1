"""How time is taken: variants interleaved after a warm-up, every sample kept; and how it is written down."""

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
PEERS = ("local-attention", "vit-pytorch", "timm", "torchvision")
# What changes a time without being seen in the code.
ENVIRONMENT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "LD_PRELOAD", "THP_MEM_ALLOC_ENABLE")

Call = Callable[[], Any]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class NotRunError(Exception):
    """Why a variant cannot be run here, in a few words for the table."""


def not_installed() -> NotRunError:
    """The reason of a peer that is missing, with the way to get it."""
    return NotRunError("not installed (pip install -e '.[bench]')")


def reason(error: Exception) -> str:
    """What a table says of a peer that failed: the first line of its message."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return first if isinstance(error, NotRunError) else f"failed: {first[:120]}"


def check_counts(**counts: int) -> None:
    """Refuse a number of things that is below 1, naming it.

    Raises:
        ValueError: If one is.
    """
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}={count} is below 1")


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a name that is not among the known, listing these.

    Raises:
        ValueError: If there is one.
    """
    for name in set(given) - set(known):
        raise ValueError(f"{name!r} is unknown; known: {', '.join(known)}")


def check_device(device: str) -> None:
    """Refuse a device that is not there.

    Raises:
        ValueError: If `device` is no CPU and torch sees no CUDA device.
    """
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device}: torch sees no CUDA device here; give cpu")


def seconds_of(call: Call, device: str) -> float:
    """One run of `call`, until the device has done its work; what it returns is freed after the clock is read."""
    synchronise(device)
    start = time.perf_counter()
    result = call()
    synchronise(device)
    taken = time.perf_counter() - start
    del result
    return taken


def synchronise(device: str) -> None:
    """Wait for a CUDA device; a CPU is always done."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def interleaved(
    calls: dict[str, Call],
    repeats: int,
    *,
    device: str = "cpu",
    patience: float = 60.0,
    owner: str = "ours",
    note: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Time the calls in turn, round after round, so that what slows the machine down slows them all.

    Every other round goes backwards.

    Args:
        calls: What to time, by name.
        repeats: Rounds after the warm-up.
        device: `cpu` or `cuda`.
        patience: Seconds; a call whose warm-up takes longer is run in the first three rounds only.
        owner: The name whose failure is an error; that of a peer is a reason not to have run.
        note: Told which call runs, and in which round.

    Returns:
        By name `median_ms`, `samples_ms`, `repeats`, `warm_up_ms` and `ratio`, the median in those of `owner`;
        and the reason of each that failed.
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
        # Every other round backwards: what a call finds in caches and in freed memory depends on who ran before it.
        for name in list(samples)[:: -1 if number % 2 else 1]:
            if number < BEYOND_PATIENCE or warm_ups[name] <= patience:
                note(f"{name}, {number + 1} of {repeats}")
                samples[name].append(seconds_of(calls[name], device))
    times = {name: summary(taken, warm_ups[name]) for name, taken in samples.items()}
    if owner in times:
        for row in times.values():
            row["ratio"] = row["median_ms"] / times[owner]["median_ms"]
    gc.collect()
    return times, not_run


def summary(samples: list[float], warm_up: float) -> dict[str, Any]:
    """What the JSON keeps of one variant's runs, given in seconds."""
    return {
        "median_ms": 1000 * statistics.median(samples),
        "repeats": len(samples),
        "warm_up_ms": 1000 * warm_up,
        "samples_ms": [1000 * sample for sample in samples],
    }


def describe(bar: tqdm, text: str) -> None:
    """Say what runs: at once on a terminal, with the next cell in a log file."""
    bar.set_description(text, refresh=sys.stderr.isatty())


def origin() -> dict[str, Any]:
    """`provenance`, with the peers' versions and what in the environment changes times."""
    found = provenance()
    for name in PEERS:
        try:
            found["versions"][name] = version(name)
        except PackageNotFoundError:
            found["versions"][name] = None
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {**found, "platform": sys.platform, "threads": torch.get_num_threads(), "environment": environment}


def aligned(rows: Iterable[Iterable[str]]) -> str:
    """A table of text: the first column to the left, the others to the right."""
    rows = [list(row) for row in rows]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(sizes[0]), *map(str.rjust, row[1:], sizes[1:])]).rstrip() for row in rows)
