"""The result of an evaluation, what is computed for each item of a test set, and intervals over its speakers.

The items of one speaker are not independent, so intervals resample speakers where they are known.

Shapes: N items.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from vitspeech.data.batches import process
from vitspeech.data.tables import Columns, Row
from vitspeech.metrics.intervals import bootstrap_ratio_interval, group_sums, wilson_interval
from vitspeech.metrics.word_errors import RESAMPLES


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


def known_speakers(loader: DataLoader, count: int) -> Sequence | None:
    """The `speakers` of the data set that a loader reads, one entry per item; `None` if they are unknown."""
    speakers = getattr(getattr(loader, "dataset", None), "speakers", None)
    if speakers is not None and len(speakers) != count:
        raise ValueError(f"the test set has {len(speakers)} speakers for {count} items; give one entry per item")
    return speakers


def accuracy_interval(correct: Tensor, totals: Tensor, groups: Sequence[Hashable] | None = None) -> tuple[float, float]:
    """The 95 % interval of Σ correct / Σ totals.

    By bootstrap over groups, such as speakers; groups without trials are left out. Without groups, or with only one, it
    is Wilson's over single trials. If all trials are right or all are wrong, resamples do not differ; then it is
    Wilson's with one trial per group.

    `correct` and `totals` are numbers of trials, for example the right frames and all frames of a word.

    Shape:
        (N,), (N,) -> low, high
    """
    accuracy, trials = float(correct.sum() / totals.sum()), max(int(totals.sum()), 1)
    if groups is None:
        return wilson_interval(accuracy, trials)
    correct, totals = group_sums(correct.double(), groups), group_sums(totals.double(), groups)
    correct, totals = correct[totals > 0], totals[totals > 0]
    if len(totals) < 2:
        return wilson_interval(accuracy, trials)
    if accuracy in (0, 1):
        return wilson_interval(accuracy, len(totals))
    return bootstrap_ratio_interval(correct, totals, resamples=RESAMPLES)


def resampled(items: str, speakers: int | None) -> dict[str, Any]:
    """What a card says about its intervals: whether they are over speakers or over items, and how many speakers.

    `items` are `clips`, `images` or `utterances`. With one speaker the interval is over items.
    """
    count = {} if speakers is None else {"speakers": speakers}
    return {"interval_over": "speakers" if (speakers or 0) > 1 else items} | count


def describe_resampled(values: dict[str, Any]) -> str:
    """The entries of `resampled` as text."""
    over, speakers = values["interval_over"], values.get("speakers")
    if over == "speakers":
        return f"interval over {speakers:,} speakers"
    reason = "" if over == "images" else " (speakers unknown)" if speakers is None else " (one speaker)"
    return f"interval over {over}{reason}"
