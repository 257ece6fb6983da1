"""The origin of a number: commit, hardware, versions, precision."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import lightning
import torch

from vitspeech import __version__


def provenance(device: torch.device | str = "cpu", count: int = 1, precision: str | None = None) -> dict[str, Any]:
    """Commit of the package's sources (with `-dirty` if they have uncommitted changes), hardware and versions.

    Args:
        device: The device that the numbers were computed on.
        count: Number of such devices.
        precision: That of training, such as `32-true`; `None` is left out.
    """
    versions = {"python": platform.python_version(), "torch": torch.__version__, "lightning": lightning.__version__}
    origin = {"commit": commit(), "hardware": hardware(device, count), "versions": versions}
    return origin if precision is None else origin | {"precision": precision}


def with_start(record: dict[str, Any] | None, origin: dict[str, Any]) -> dict[str, Any]:
    """The record of a run with one more start.

    Args:
        record: The `provenance` of the first start; `resumed` lists that of later starts, each of which differs from
            the one before. `None` if this is the first start.
        origin: The `provenance` of this start.
    """
    if record is None:
        return origin
    resumed = record.get("resumed", [])
    last = resumed[-1] if resumed else {name: record.get(name) for name in origin}
    return record if last == origin else record | {"resumed": [*resumed, origin]}


def commit() -> str:
    """The commit of the sources; for an installed package its version (`vitspeech 0.2.0`)."""
    folder = Path(__file__).parents[1]
    if not (folder / ".git").exists():  # a wheel's folder may lie within somebody else's repository
        return f"vitspeech {__version__}"
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        git = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return git.stdout.strip() or "unknown"


def hardware(device: torch.device | str = "cpu", count: int = 1) -> str:
    """The devices in use: their number and the GPU's name, or the processor and the number of cores that torch uses."""
    if torch.device(device).type == "cuda":
        return f"{count} × {torch.cuda.get_device_name(device)}"
    names = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((line.partition(":")[2].strip() for line in names if line.startswith("model name")), "")
    threads = torch.get_num_threads()
    return f"{name or platform.processor() or platform.machine()}, {threads} core{'s' if threads > 1 else ''}"
