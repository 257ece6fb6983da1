"""One entry for each item of a test set, computed in batches that the processes of a distributed run divide."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from tqdm import tqdm

from vitspeech.data.batches import process

Entry = TypeVar("Entry")


def per_item(loader: Iterable[Any], compute: Callable[[Any], Sequence[Entry]], *, progress: bool = True) -> list[Entry]:
    """Compute one entry for each item, in the order of the items; every process gets all of them.

    Args:
        loader: Batches in which each process of a distributed run has its items, as `Batches` divides them.
        compute: The entries of the items of a batch.
        progress: Show a progress bar, in the first process.
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
