"""Training items that are read while they are downloaded: `IterableDataset` of the library `datasets`."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.batches import Batches, process
from vitspeech.data.rows import MOST_SKIPPED, readable
from vitspeech.errors import InputError

if TYPE_CHECKING:
    import datasets

BUFFER, AT_ONCE = 1000, 100  # items that are shuffled, or read at once


class StreamBatches(Batches):
    """Batches of a stream: each has the places of its items in the order in which this process reads them.

    The items of epoch e begin at e times `count`.
    """

    def steps(self, epoch: int) -> list[int]:
        return [epoch * self.count + step * (self.batch // self.ranks) for step in range(self.count // self.batch)]

    def part(self, items: int, part: int, parts: int) -> Tensor:
        begin = items + part // self.ranks * (self.batch // parts)
        return torch.arange(begin, begin + self.batch // parts)


class StreamedItems(Dataset):
    """Training items in the order of a stream, indexed by (indices, seed): places in this order, see `StreamBatches`.

    The shards are divided among the parts of the stream, of which each process has as many as it has workers, and
    shuffled in each epoch, as are the items in a buffer. Batch n is read from part n modulo workers. So it is a
    function of seed, epoch, number, processes and workers, and a resumed run gets the same batches: the items before
    them are read again, but not decoded. A part that ends before the epoch begins again.

    Args:
        stream: The rows, with the files in their columns not decoded.
        count: Items of an epoch in all processes.
        workers: Parts of the stream of a process.
        seed: The run's seed.
        name: What messages call it.
        select: The columns of a row that an item needs, as it is; `None` leaves it out.
        decode: Makes an item of them.
        batch_of: Makes a batch of the items and a seed.
    """

    def __init__(
        self,
        stream: "datasets.IterableDataset",
        count: int,
        workers: int,
        seed: int,
        *,
        name: str,
        select: Callable[[dict[str, Any]], Any],
        decode: Callable[[Any], Any],
        batch_of: Callable[[list[Any], int], Any],
    ) -> None:
        self.count, self.workers, self.name = count, workers, name
        self.select, self.decode, self.batch_of = select, decode, batch_of
        self.shuffled = stream.shuffle(seed=seed, buffer_size=BUFFER)
        self.next, self.rows = None, iter(())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"next": None, "rows": iter(())}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, batch: tuple[Tensor, int]) -> Any:
        indices, seed = batch
        epoch, first = divmod(int(indices[0]), self.count)
        place, part = divmod(first // len(indices), self.workers)
        stream = epoch, part, process()
        if self.next != (stream, place * len(indices)):
            self.rows = islice(self.rows_of(*stream), place * len(indices), None)
        self.next = stream, (place + 1) * len(indices)
        rows = list(islice(self.rows, len(indices)))

        def read(index: int) -> Any:
            if index == len(rows):  # none of the batch can be read; the next batch has its own place
                rows.append(next(self.rows))
                self.next = None
            return self.decode(rows[index])

        items, _ = readable(range(len(indices)), read, len(indices) + MOST_SKIPPED)
        return self.batch_of(items, seed)

    def rows_of(self, epoch: int, part: int, of_process: tuple[int, int]) -> Iterator[Any]:
        """The rows of a part of the stream in an epoch, again and again."""
        import fsspec
        from datasets.distributed import split_dataset_by_node

        rank, ranks = of_process
        self.shuffled.set_epoch(epoch)
        division = rank * self.workers + part, ranks * self.workers
        stream = split_dataset_by_node(self.shuffled, *division)
        fsspec.asyn.reset_lock()  # of the process that this one was forked from
        found = True
        while found:
            found = False
            for rows in stream.iter(AT_ONCE):  # which is not divided again among workers, as `iter(stream)` is
                for values in zip(*rows.values(), strict=True):
                    if (item := self.select(dict(zip(rows, values, strict=True)))) is not None:
                        found = True
                        yield item
        raise InputError(f"{self.name}: has too few items for {division[1]} parts, of all processes and their workers")
