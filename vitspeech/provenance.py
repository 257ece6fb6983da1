"""Where a number comes from: commit, hardware, versions."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import lightning
import torch


def provenance() -> dict[str, Any]:
    """Commit of the package's sources (`-dirty` where they were changed), hardware and versions."""
    versions = {"python": platform.python_version(), "torch": torch.__version__, "lightning": lightning.__version__}
    return {"commit": commit(), "hardware": hardware(), "versions": versions}


def commit() -> str:
    """The commit that the sources were at, `unknown` where they are no git checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        git = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return git.stdout.strip() or "unknown"


def hardware() -> str:
    """The GPUs by name, or the processor and how many cores torch uses."""
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    names = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((line.partition(":")[2].strip() for line in names if line.startswith("model name")), "")
    threads = torch.get_num_threads()
    return f"{name or platform.processor() or platform.machine()}, {threads} core{'s' if threads > 1 else ''}"
