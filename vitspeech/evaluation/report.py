"""What an evaluation gives: numbers for the card, a line to read, and a file to look at."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Report:
    """How well a network does on a test set.

    Args:
        metrics: For the card; the first one is what the model is judged by.
        text: The same to be read, in one line.
        write: Writes what is worth looking at into a folder and gives the file.
    """

    metrics: dict[str, Any]
    text: str
    write: Callable[[Path], Path]

    @property
    def headline(self) -> tuple[str, float]:
        """The metric that counts: its name and value."""
        return next(iter(self.metrics.items()))
