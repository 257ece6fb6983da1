"""The origin of a number: commit, hardware, versions."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import lightning
import torch

from vitspeech import __version__


def provenance() -> dict[str, Any]:
    """Commit of the package's sources (with `-dirty` if they have uncommitted changes), hardware and versions."""
    versions = {"python": platform.python_version(), "torch": torch.__version__, "lightning": lightning.__version__}
    return {"commit": commit(), "hardware": hardware(), "versions": versions}


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


def hardware() -> str:
    """The GPUs by name, or the processor and the number of cores that torch uses."""
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    names = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((line.partition(":")[2].strip() for line in names if line.startswith("model name")), "")
    threads = torch.get_num_threads()
    return f"{name or platform.processor() or platform.machine()}, {threads} core{'s' if threads > 1 else ''}"
