"""The result of an evaluation: metrics for the card, a line of text, and a file with the errors."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitspeech.data.tables import Columns, Row


@dataclass(frozen=True)
class ItemTable:
    """One row for each item of a test set, or of several.

    Args:
        columns: Their names and formats; see `data.tables`.
        rows: In the order of the items.
    """

    columns: Columns
    rows: Iterable[Row]


@dataclass(frozen=True)
class Report:
    """The result of evaluating a network on a test set.

    Args:
        metrics: Metrics for the card; the first one is the main metric.
        text: The metrics in one line of text.
        write: Writes the errors (a confusion matrix and a table of classes, or a listing) into a folder, and returns
            the path of the figure or the listing.
        table: Makes the table of the items, for `vitspeech evaluate --out`; `None` if there is none.
    """

    metrics: dict[str, Any]
    text: str
    write: Callable[[Path], Path]
    table: Callable[[], ItemTable] | None = None

    @property
    def headline(self) -> tuple[str, float]:
        """The name and the value of the main metric."""
        return next(iter(self.metrics.items()))
