"""The base class of every data set, and the search path of data sets.

Shapes: B batch.
"""

import os
from collections.abc import Sequence, Sized
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning
import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from vitspeech.data.batches import Batches, TensorItems
from vitspeech.data.labeled_files import warn_of_alike
from vitspeech.data.rows import BrokenFilesError
from vitspeech.data.splits import relative_name
from vitspeech.errors import InputError, check_fraction, check_number

MEMORY, FILES, STREAM = "memory", "files", "stream"
TEST = "test"
MOST_WORKERS = 1024


class DataModule(lightning.LightningDataModule):
    """Training, validation and test items as a Lightning data module, augmented on the training device.

    A data set subclasses `ImageData`, `WaveformData` or `UtteranceData`, which define `normalize` and `augment_batch`
    for one kind of input; it sets `labels` and implements `read`.

    Args:
        batch: Items of an optimizer step, on all devices together.
        seed: The run's seed; the command line sets it to `seed_everything`.
        storage: Where the items are: `memory`, or `files` (each is read from its file when it is needed).
        workers: Number of processes that read items that are not in memory.
        broken: The largest share of the files of a split that may be broken. They are left out, with a warning; if
            there are more, training does not begin.

    Attributes:
        labels: The name of each class or unit, known without reading the data.
        items: What the inputs are called in messages and model cards.
        workers: Number of processes that read batches; 0 for data in memory.
        evaluation_batch: Items per batch in validation and test.
        item_root: The folder that the names of items are relative to; `None` if the items are not files.
        accumulate: Batches whose gradients are added up in an optimizer step; training sets it.
        checks_files: Whether files are checked before they are read; `vitspeech pack` reads each of them anyway.
        storages: What `storage` may be; `files` if each item has a file of its own.
        begin: Epoch and batch at which training begins; a resumed run sets it.
    """

    labels: Sequence[str]
    items = "items"
    workers = 0
    evaluation_batch = 500
    item_root: Path | None = None
    checks_files = True
    storages: Sequence[str] = (MEMORY,)
    accumulate = 1
    begin = (0, 0)

    def __init__(self, *, batch: int, seed: int, storage: str = MEMORY, workers: int = 2, broken: float = 0.0) -> None:
        super().__init__()
        check_number("batch", batch, 1)
        check_number("workers", workers, 0, MOST_WORKERS)
        check_fraction("broken", broken)
        self.batch, self.seed, self.storage, self.broken = batch, seed, storage, broken
        if storage not in self.storages:
            raise InputError(f"storage={storage}: {type(self).__name__} has {', '.join(self.storages)}")
        self.reading_workers = workers
        if storage != MEMORY:
            self.workers = workers

    @cached_property
    def label_indices(self) -> dict[str, int]:
        """The index of each label."""
        return {label: index for index, label in enumerate(self.labels)}

    @property
    def preprocessing(self) -> dict[str, Any]:
        """How a released model must read a raw file, as numbers, strings and lists."""
        raise NotImplementedError

    def read(self, split: str) -> Dataset:
        """Read the split `train`, `validation` or `test`: a data set indexed by (indices, seed), see `TensorItems`."""
        raise NotImplementedError

    @cached_property
    def splits(self) -> dict[str, list[Any]]:
        """The files of each split with their labels or transcripts, listed before any is read."""
        return self.list_splits()

    def list_splits(self) -> dict[str, list[Any]]:
        """List the files of all splits, which have a `file` in `item_root`; none if the items are not files."""
        return {}

    def item_names(self) -> dict[str, list[str]]:
        """The names of the items of each split, by which a card and `vitspeech evaluate` compare splits.

        Empty if the items have no names: generated items, and those of a set that never changes.
        """
        return {
            split: [relative_name(item.file, self.item_root) for item in some] for split, some in self.splits.items()
        }

    def normalize(self, inputs: Tensor) -> Tensor:
        """Convert integer inputs to the floats that networks take."""
        raise NotImplementedError

    def augment_batch(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Normalize and augment a training batch, with random numbers from torch's global generator.

        Returns:
            Inputs for the network and labels, (B,) or, if images are mixed, (B, classes).
        """
        raise NotImplementedError

    def setup(self, stage: str | None = None) -> None:
        """Read the training and validation splits, and check the test split, which is read when it is used."""
        if stage not in (None, "fit") or hasattr(self, "train"):
            return
        warn_of_alike(self.labels)
        read, broken = {}, []
        for name in ("train", "validation", "test"):  # the broken files of all of them are named at once
            try:
                read[name] = self.prepare_test() if name == "test" else self.read_checked(name)
            except BrokenFilesError as error:
                broken.append(str(error))
        if broken:
            way = "repair or remove them, or leave them out, up to a share of each split: --data.broken 0.05"
            raise BrokenFilesError("; ".join([*broken, way]))
        self.train, self.validation = read["train"], read["validation"]

    def prepare_test(self) -> None:
        """Check before training that the test after it will find what it needs; by default by reading the split."""
        self.read_checked("test")

    def read_checked(self, split: str) -> Dataset:
        """Read a split, and refuse what `read` of a data set of your own may get wrong.

        It returns nothing, a data set of single items, such as torch's `TensorDataset`, or labels that are not indices
        of `labels`.
        """
        dataset, read = self.read(split), f"{type(self).__name__}.read({split!r})"
        if not isinstance(dataset, Sized) or not len(dataset):
            raise InputError(f"{read} returns no items; it must return a data set, such as vitspeech.TensorItems")
        try:
            dataset[torch.arange(1), 0]
        except (IndexError, KeyError, TypeError) as error:
            raise InputError(
                f"{read} returns a {type(dataset).__name__}, which gives no batch for [indices, seed] "
                f"({type(error).__name__}: {error}); for data in memory return vitspeech.TensorItems(inputs, labels)"
            ) from error
        if isinstance(dataset, TensorItems):
            labels, count = dataset.labels, len(self.labels)
            if labels.ndim != 1 or labels.is_floating_point() or labels.min() < 0 or labels.max() >= count:
                kind = f"{labels.dtype} labels of shape {tuple(labels.shape)}"
                raise InputError(f"{read}: {kind} are not indices (B,) within 0 .. {count - 1}")
        return dataset

    def train_dataloader(self) -> DataLoader:
        batches = self.training_batches()
        batches.begin_at(*self.begin)
        return self.loader(self.train, batches)

    def training_batches(self, ranks: int | None = None) -> Batches:
        """The batches of training; `ranks` processes divide them, those of this run if it is `None`."""
        options = {"seed": self.seed, "accumulate": self.accumulate, "ranks": ranks}
        return Batches(len(self.train), self.batch, shuffle=True, **options)

    def describe_batches(self) -> str:
        """What is to be said of the training batches when a run starts; nothing if each has `batch` items."""
        return ""

    def val_dataloader(self) -> DataLoader:
        return self.evaluation_loader(self.validation)

    def test_dataloader(self) -> DataLoader:
        return self.evaluation_loader(self.read_checked("test"))

    def evaluation_loader(self, items: Dataset) -> DataLoader:
        """Load all items in order, in batches of `evaluation_batch`; the processes of a distributed run divide them."""
        return self.loader(items, Batches(len(items), self.evaluation_batch, shuffle=False))

    def loader(self, items: Dataset, batches: Batches) -> DataLoader:
        return DataLoader(
            items,
            sampler=batches,
            batch_size=None,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=torch.cuda.is_available(),
        )

    def on_after_batch_transfer(self, batch: tuple[Tensor, Tensor, int], dataloader_idx: int) -> tuple[Tensor, Tensor]:
        """Augment a training batch, or normalize an evaluation batch, on the training device."""
        inputs, labels, seed = batch
        return self.training_batch(inputs, labels, seed) if self.trainer.training else (self.normalize(inputs), labels)

    def training_batch(self, inputs: Tensor, labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """Seed torch and NumPy with the batch's own seed and augment the batch.

        Everything random in the training step follows from this seed, including dropout in the network.
        """
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        return self.augment_batch(inputs, labels)


def check_augment(augment: object, kind: type) -> None:
    """Refuse an augmentation of another class, such as a mapping that the command line could not build one from."""
    if not isinstance(augment, kind):
        raise InputError(
            f"augment is a {type(augment).__name__}, not a vitspeech.data.{kind.__name__}; annotate the argument of "
            f"the data set's constructor as `augment: {kind.__name__} | None`, so that a config can set it"
        )


def default_root(root: str | None) -> str:
    """The folder of data sets: `root`, else the environment variable VITSPEECH_DATA, else `data`."""
    return root or os.environ.get("VITSPEECH_DATA") or "data"


def read_labels(data: DataModule) -> list[str]:
    """The labels of a data set, downloaded first if their files are missing and the config allows it."""
    try:
        return list(data.labels)
    except FileNotFoundError:
        data.prepare_data()
        return list(data.labels)
