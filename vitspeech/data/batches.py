"""A set held in memory, given out in batches and augmented on the training device.

No worker processes: a batch is one index into a tensor of integers, and its augmentation one pass on the device.
Images are uint8 (`images.py`), waveforms int16 (`waveforms.py`).

Shapes: B batch.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning
import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler


class Batches(Sampler):
    """Draws (indices, seed) a batch: a pure function of the run's seed, the epoch and the batch's number.

    Nothing random survives from one batch to the next, so a run that is killed and resumed draws what the run left
    alone would have drawn. With several processes each takes its own share of every epoch.

    Args:
        count: Number of items.
        batch: Items a batch.
        seed: The run's seed.
        shuffle: A new order every epoch, and only whole batches; else in order, with the rest at the end.

    Raises:
        ValueError: If there is not one whole batch to shuffle.
    """

    def __init__(self, count: int, batch: int, *, seed: int = 0, shuffle: bool) -> None:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank = torch.distributed.get_rank() if distributed else 0
        self.ranks = torch.distributed.get_world_size() if distributed else 1
        self.count, self.batch, self.seed, self.shuffle = count, batch, seed, shuffle
        self.epoch = 0
        if shuffle and count < batch * self.ranks:
            raise ValueError(f"batch={batch} is more than the {count // self.ranks} training items")

    def set_epoch(self, epoch: int) -> None:
        """Lightning calls this before every epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        share = self.count // self.ranks
        return share // self.batch if self.shuffle else -(-self.count // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        if not self.shuffle:
            for indices in torch.arange(self.count).split(self.batch):
                yield indices, 0
            return

        # NumPy's seed sequence spreads small neighboring numbers over the whole space of seeds.
        def drawn(*place: int) -> int:
            return int(numpy.random.SeedSequence((self.seed, self.epoch, *place)).generate_state(1)[0])

        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(drawn()))
        share = order[self.rank :: self.ranks]
        for number in range(len(self)):
            yield share[number * self.batch : (number + 1) * self.batch], drawn(self.rank, number)


class Items(Dataset):
    """Integer inputs (B, …) and labels (B,), indexed by whole batches."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Tensor, Tensor, int]:
        indices, seed = batch
        return self.inputs[indices], self.labels[indices], seed


class InMemoryData(lightning.LightningDataModule):
    """Three sets of inputs and labels: training, validation and test. A data set names its `labels` and reads itself.

    `ImageData` and `WaveformData` say what `normalized` and `augmented` do; a data set is a subclass of one of them
    that sets `labels` and implements `read`.

    Args:
        batch: Items a training batch, on each device.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If `batch` is below 1.
    """

    labels: Sequence[str]
    items = "items"  # what one input is called in messages and in a card
    workers = 0
    evaluation_batch = 500

    def __init__(self, *, batch: int, seed: int) -> None:
        super().__init__()
        if batch < 1:
            raise ValueError(f"batch={batch} is below 1")
        self.batch, self.seed = batch, seed

    @property
    def preprocessing(self) -> dict[str, Any]:
        """What a released model must do with a raw file, as numbers and lists."""
        raise NotImplementedError

    def read(self, split: str) -> Dataset:
        """The split `train`, `validation` or `test` as a data set indexed by (indices, seed)."""
        raise NotImplementedError

    def normalized(self, inputs: Tensor) -> Tensor:
        """Integers as they are held -> floats as the network takes them."""
        raise NotImplementedError

    def augmented(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Training inputs as the network sees them, labels (B,) or (B, classes); drawn from torch's generator."""
        raise NotImplementedError

    def setup(self, stage: str | None = None) -> None:
        """Read the training and validation sets; the test set is read only when it is asked for."""
        if stage in (None, "fit") and not hasattr(self, "train"):
            self.train, self.validation = self.read("train"), self.read("validation")

    def train_dataloader(self) -> DataLoader:
        return self.loader(self.train, Batches(len(self.train), self.batch, seed=self.seed, shuffle=True))

    def val_dataloader(self) -> DataLoader:
        return self.evaluation_loader(self.validation)

    def test_dataloader(self) -> DataLoader:
        return self.evaluation_loader(self.read("test"))

    def evaluation_loader(self, items: Dataset) -> DataLoader:
        """All items in their order, in batches of `evaluation_batch`."""
        return self.loader(items, Batches(len(items), self.evaluation_batch, shuffle=False))

    def loader(self, items: Dataset, batches: Batches) -> DataLoader:
        return DataLoader(
            items,
            sampler=batches,
            batch_size=None,
            num_workers=self.workers,
            pin_memory=torch.cuda.is_available(),
        )

    def on_after_batch_transfer(self, batch: tuple[Tensor, Tensor, int], dataloader_idx: int) -> tuple[Tensor, Tensor]:
        """Integers, labels (B,), seed -> floats, labels (B,) or (B, classes) after mixing."""
        inputs, labels, seed = batch
        return self.training_batch(inputs, labels, seed) if self.trainer.training else (self.normalized(inputs), labels)

    def training_batch(self, inputs: Tensor, labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """An augmented batch. Everything random in the step follows from the batch's own seed: the augmentation, and
        what the network draws after it (dropout)."""
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        return self.augmented(inputs, labels)


def default_root(root: str | None) -> str:
    """Where data sets are looked for: the argument, else the environment's VITSPEECH_DATA, else `data`."""
    return root or os.environ.get("VITSPEECH_DATA") or "data"


def tenth_held_out(files: list[Path], labels: Tensor) -> tuple[tuple[list[Path], Tensor], tuple[list[Path], Tensor]]:
    """Files and labels in two parts, nine tenths and one: what is kept, and what a split without files of its own gets.

    Raises:
        ValueError: If there are fewer than two files.
    """
    if len(files) < 2:
        raise ValueError(f"{', '.join(map(str, files)) or 'no files'}: too few to hold out a tenth for another split")
    kept, drawn = held_out(len(files), max(len(files) // 10, 1))
    return tuple(([files[i] for i in part], labels[part]) for part in (kept, drawn))


def held_out(count: int, validation: int) -> tuple[Tensor, Tensor]:
    """Indices for training and validation: the same items whatever the run's seed.

    Raises:
        ValueError: If nothing would be left to train on.
    """
    if not 0 < validation < count:
        raise ValueError(f"validation={validation} is not within 1..{count - 1}, the items that are not test items")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(20_261_121))
    return order[validation:].sort().values, order[:validation].sort().values
