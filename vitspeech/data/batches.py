"""Seeded batches: which items a batch holds, and the tensors they are taken from.

There are no worker processes for data in memory: a batch is one index into an integer tensor, uint8 for images and
int16 for waveforms. Data that is not in memory is read row by row, see `vitspeech/data/storage`.

Shapes: B batch.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from vitspeech.data.storage.rows import Rows
from vitspeech.errors import InputError


class Batches(Sampler):
    """Yields (indices, seed) for each batch, a pure function of the run's seed, the epoch and the batch number.

    No random state is carried from one batch to the next, so a run that is interrupted and resumed gets the same
    batches as one that was not. In distributed training each process takes a disjoint part of every epoch.

    Args:
        count: Number of items.
        batch: Items per batch.
        seed: The run's seed.
        shuffle: Use a new order every epoch and drop the incomplete last batch. Otherwise the items keep their order
            and the last batch may be smaller.

    Raises:
        InputError: If `shuffle` is set and there are too few items for one batch.
    """

    def __init__(self, count: int, batch: int, *, seed: int = 0, shuffle: bool) -> None:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank = torch.distributed.get_rank() if distributed else 0
        self.ranks = torch.distributed.get_world_size() if distributed else 1
        self.count, self.batch, self.seed, self.shuffle = count, batch, seed, shuffle
        self.epoch = 0
        if shuffle and count < batch * self.ranks:
            raise InputError(f"batch={batch} is more than the {count // self.ranks} training items")

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; Lightning calls this before every epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        items_per_rank = self.count // self.ranks
        return items_per_rank // self.batch if self.shuffle else -(-self.count // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        if not self.shuffle:
            for indices in torch.arange(self.count).split(self.batch):
                yield indices, 0
            return

        # NumPy's SeedSequence maps small, similar numbers to unrelated seeds.
        def derived_seed(*key: int) -> int:
            return int(numpy.random.SeedSequence((self.seed, self.epoch, *key)).generate_state(1)[0])

        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(derived_seed()))
        indices = order[self.rank :: self.ranks]
        for number in range(len(self)):
            yield indices[number * self.batch : (number + 1) * self.batch], derived_seed(self.rank, number)


class Items(Dataset):
    """Inputs and labels, indexed by whole batches: `items[indices, seed]` is (inputs, labels, seed).

    Args:
        inputs: Integer tensor with one row per item, or `Rows`, which are read when a batch needs them: an object with
            `__len__` and `__getitem__(indices)`, which returns a tensor.
        labels: Index of each item's label, int64, one per item.
        speakers: Who speaks each item, so that intervals of accuracies resample speakers; `None` if unknown.
        parts: Indices of items whose accuracy is reported besides that of all, by the name of the part.

    Raises:
        InputError: If there are not as many labels (or speakers) as inputs.
    """

    def __init__(
        self,
        inputs: Tensor | Rows,
        labels: Tensor,
        speakers: Sequence[str] | None = None,
        *,
        parts: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        counts = {len(inputs), len(labels), len(inputs if speakers is None else speakers)}
        if len(counts) > 1:
            speakers_too = "" if speakers is None else f", {len(speakers)} speakers"
            raise InputError(f"{len(inputs)} inputs, {len(labels)} labels{speakers_too}: each input needs one")
        self.inputs, self.labels, self.speakers, self.parts = inputs, labels, speakers, dict(parts or {})

    @property
    def in_memory(self) -> bool:
        """Whether the inputs are a tensor."""
        return isinstance(self.inputs, Tensor)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Tensor, Tensor, int]:
        indices, seed = batch
        if isinstance(self.inputs, Rows):
            rows, indices = self.inputs.read(indices)  # others than those asked for where a file broke
            return torch.stack(rows), self.labels[indices], seed
        return self.inputs[indices], self.labels[indices], seed
