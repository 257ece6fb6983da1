"""How a command ended, and what it printed."""

from dataclasses import dataclass


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
