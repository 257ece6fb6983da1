"""How a command ended, what it printed, and the weights of a run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import Tensor


@dataclass
class Result:
    """Exit status, standard output and standard error."""

    returncode: int
    stdout: str
    stderr: str


def one_line(result: Result, status: int = 1) -> str:
    """The message of a command that failed with this exit status; it must be one line, and no traceback."""
    message = result.stderr.rpartition("\r")[2].strip()
    assert result.returncode == status, result.stderr
    assert "Traceback" not in message and "\n" not in message
    return message


def run_here(program: Callable[[], object], capsys: pytest.CaptureFixture) -> Result:
    """Run a program in this process: its exit status and what it printed."""
    capsys.readouterr()
    status = 0
    try:
        program()
    except SystemExit as stopped:
        status = stopped.code or 0
        if isinstance(status, str):  # Python prints such a message and exits with 1
            print(status, file=sys.stderr)
            status = 1
    printed = capsys.readouterr()
    return Result(status, printed.out, printed.err)


def weights(run: Path) -> dict[str, Tensor]:
    """The weights of a finished run."""
    return load_file(run / "model" / "model.safetensors")
