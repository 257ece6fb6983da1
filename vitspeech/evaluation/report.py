"""The result of an evaluation, and what is computed for each item of a test set, in batches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from tqdm import tqdm

from vitspeech.data.batches import process
from vitspeech.data.tables import Columns, Row


@dataclass(frozen=True)
class ItemTable:
    """One row for each item of a test set, or of several, in their order."""

    columns: Columns  # names and formats, see `data.tables`
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


Entry = TypeVar("Entry")


def per_item(loader: Iterable[Any], compute: Callable[[Any], Sequence[Entry]], *, progress: bool = True) -> list[Entry]:
    """Compute one entry for each item, in the order of the items; every process gets all of them.

    Each process of a distributed run reads its own items, as `Batches` divides them, and shows no progress bar but the
    first.
    """
    rank, ranks = process()
    bar = tqdm(loader, desc="test", disable=not progress or rank > 0, leave=False)
    own = [entry for batch in bar for entry in compute(batch)]
    if ranks == 1:
        return own
    parts: list[list[Entry]] = [[] for _ in range(ranks)]
    torch.distributed.all_gather_object(parts, own)
    entries = [None] * sum(map(len, parts))
    for first, part in enumerate(parts):
        entries[first::ranks] = part
    return entries
