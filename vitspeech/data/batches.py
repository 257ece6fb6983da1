"""Seeded batches: which items a batch holds, and the tensors they are taken from.

There are no worker processes for data in memory: a batch is one index into an integer tensor, uint8 for images and
int16 for waveforms. Data in files is read by worker processes, batch by batch.

Shapes: B batch, N samples, U units of a transcript, W words.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, Sampler

from vitspeech.data.rows import FileRows
from vitspeech.errors import InputError


class Batches(Sampler):
    """Yields (indices, seed) for each batch, a pure function of the run's seed, the epoch and the batch number.

    No random state is carried from one batch to the next, so a run that is interrupted and resumed gets the same
    batches as one that was not. The items of an optimizer step depend neither on the number of processes nor on
    `accumulate`: the processes divide them, and each takes its part in `accumulate` batches. Processes divide the items
    of an evaluation as well: of R processes, process r takes the items r, r + R, r + 2R, ...

    Args:
        count: Number of items.
        batch: Items per optimizer step, in all processes together; without `shuffle`, per batch of one process.
        seed: The run's seed.
        shuffle: Use a new order every epoch and drop the incomplete last step. Otherwise the items keep their order
            and the last batch may be smaller.
        accumulate: Batches of a process whose gradients are added up in an optimizer step.
        ranks: Number of processes; `None` is those of this run.
    """

    def __init__(
        self,
        count: int,
        batch: int,
        *,
        seed: int = 0,
        shuffle: bool,
        accumulate: int = 1,
        ranks: int | None = None,
    ) -> None:
        self.rank, self.ranks = process() if ranks is None else (0, ranks)
        self.count, self.batch, self.seed, self.shuffle, self.accumulate = count, batch, seed, shuffle, accumulate
        self.epoch, self.begin = 0, (0, 0)
        if shuffle and count < batch:
            raise InputError(f"batch={batch} is more than the {count} training items")
        if shuffle and batch % (self.ranks * accumulate):  # the mean of their losses would not be that of the step
            raise InputError(
                f"batch={batch}, the items of an optimizer step, cannot be divided evenly among {self.ranks} processes "
                f"with {accumulate} accumulated batches: take a multiple of {self.ranks * accumulate}"
            )
        if not shuffle and count < self.ranks:
            raise InputError(f"{count} items cannot be divided among {self.ranks} processes")

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; Lightning calls this before every epoch."""
        self.epoch = epoch

    def begin_at(self, epoch: int, number: int) -> None:
        """Begin in the middle of an epoch: its first batch is `number`, counted from 0 in each process."""
        self.epoch, self.begin = epoch, (epoch, number)

    def __len__(self) -> int:
        """The number of batches of a whole epoch in this process."""
        if self.shuffle:
            return self.count // self.batch * self.accumulate
        return min(-(-self.count // (self.batch * self.ranks)), self.count // self.ranks)

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        if self.shuffle:
            yield from self.training_batches()
            return
        indices = torch.arange(self.count)[self.rank :: self.ranks]
        # Each process has as many batches as the others, which wait for it.
        batches = indices.split(self.batch) if self.ranks == 1 else indices.tensor_split(len(self))
        for part in batches:
            yield part, 0

    def training_batches(self) -> Iterator[tuple[Tensor, int]]:
        """The batches of this process in the epoch, from the one where it begins."""
        epoch, (begin_epoch, begin) = self.epoch, self.begin
        steps, parts = self.steps(epoch), self.ranks * self.accumulate
        for number in range(begin if epoch == begin_epoch else 0, len(self)):
            step, micro_batch = divmod(number, self.accumulate)
            part = micro_batch * self.ranks + self.rank
            yield self.part(steps[step], part, parts), derived_seed(self.seed, epoch, part, step)

    def steps(self, epoch: int) -> Sequence[Tensor]:
        """The items of each optimizer step of an epoch; the last step may be incomplete."""
        generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch))
        return torch.randperm(self.count, generator=generator).split(self.batch)

    def part(self, items: Tensor, part: int, parts: int) -> Tensor:
        """One of the equal parts of an optimizer step."""
        return items.tensor_split(parts)[part]


MOST_BUCKETS, BATCHES_PER_BUCKET = 50, 4  # with fewer batches in a bucket, the same utterances would often meet


class DurationBatches(Batches):
    """Batches that are padded little: the utterances of one are from the same bucket of durations.

    The utterances are sorted by duration and cut into buckets of equal size. Each epoch shuffles each bucket, divides
    it into batches of at most `seconds` with padding, and shuffles the batches. Every utterance is in one batch of an
    epoch, and the number of batches is the same in each. As in `Batches`, a batch is a function of seed, epoch and
    number, and the utterances of an optimizer step do not depend on the number of processes.

    Args:
        durations_s: Duration of each utterance in seconds (B,).
        seconds: Maximum duration of an optimizer step in seconds, with padding, in all processes together.
        seed, accumulate, ranks: As in `Batches`.
    """

    def __init__(
        self, durations_s: Tensor, seconds: float, *, seed: int = 0, accumulate: int = 1, ranks: int | None = None
    ) -> None:
        super().__init__(len(durations_s), 1, seed=seed, shuffle=False, ranks=ranks)
        self.durations_s, self.seconds, self.accumulate = durations_s.double(), seconds, accumulate
        self.shuffle, parts, longest = True, self.ranks * accumulate, float(durations_s.max())
        if fitting(seconds, longest) < parts:
            share = f" for each of {parts} parts of an optimizer step" if parts > 1 else ""
            raise InputError(
                f"batch_s={seconds:g} does not hold the longest utterance, {longest:.1f} s,{share or ' at all'}: take "
                f"at least {math.ceil(parts * longest)}"
            )
        order = self.durations_s.argsort(stable=True)
        mean_batch = max(seconds / float(self.durations_s.mean()), 1.0)
        buckets = min(MOST_BUCKETS, max(1, int(len(order) / mean_batch / BATCHES_PER_BUCKET)))
        self.buckets = order.tensor_split(buckets)
        self.sizes = [fitting(seconds, float(self.durations_s[bucket[-1]])) for bucket in self.buckets]
        self.counts = [-(-len(bucket) // size) for bucket, size in zip(self.buckets, self.sizes, strict=True)]
        smallest = min(len(bucket) // count for bucket, count in zip(self.buckets, self.counts, strict=True))
        if smallest < parts:
            raise InputError(f"batch_s={seconds:g}: some batches have {smallest} utterances, fewer than {parts} parts")

    def __len__(self) -> int:
        return sum(self.counts) * self.accumulate

    def steps(self, epoch: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch))
        steps = []
        for bucket, count in zip(self.buckets, self.counts, strict=True):
            steps += bucket[torch.randperm(len(bucket), generator=generator)].tensor_split(count)
        return [steps[place] for place in torch.randperm(len(steps), generator=generator).tolist()]

    def part(self, items: Tensor, part: int, parts: int) -> Tensor:
        # Of utterances sorted by duration each part takes every so-manieth: their durations are alike.
        return items[self.durations_s[items].argsort(stable=True)][part::parts]

    def padding(self) -> float:
        """The share of padding in the batches of the first epoch, before a process divides them."""
        spent = sum(float(self.durations_s[step].max()) * len(step) for step in self.steps(0))
        return 1 - float(self.durations_s.sum()) / spent


def fitting(seconds: float, duration_s: float) -> int:
    """How many utterances of a duration fit into so many seconds: three of 1.1 s into 3.3 s, whatever rounding says."""
    return int(seconds / duration_s + 1e-9)


def process() -> tuple[int, int]:
    """The number of this process, from 0, and the number of processes of a distributed run; (0, 1) in any other."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def derived_seed(*key: int) -> int:
    """A seed from several numbers: NumPy's SeedSequence maps small, similar numbers to unrelated seeds."""
    return int(numpy.random.SeedSequence(key).generate_state(1)[0])


class DrawnItems(Dataset):
    """Training items that are drawn anew for each batch: `items[indices, seed]` is (`draw(number, seed)`, seed).

    The indices only determine the size of the batch.
    """

    def __init__(self, count: int, draw: Callable[[int, int], Any]) -> None:
        self.count, self.draw = count, draw

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Any, int]:
        indices, seed = batch
        return self.draw(len(indices), seed), seed


class TensorItems(Dataset):
    """Inputs and labels, indexed by whole batches: `items[indices, seed]` is (inputs, labels, seed).

    Args:
        inputs: Integer tensor with one row per item, or rows that are read when they are needed, such as `FileRows`.
        labels: Index of each item's label, int64, one per item.
        speakers: Who speaks each item, so that intervals of accuracies resample speakers; `None` if unknown.
        parts: Indices of items whose accuracy is reported besides that of all, by the name of the part.
    """

    def __init__(
        self,
        inputs: Tensor | FileRows,
        labels: Tensor,
        speakers: Sequence[str] | None = None,
        *,
        parts: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        if len({len(inputs), len(labels), len(inputs if speakers is None else speakers)}) > 1:
            raise InputError(f"{len(inputs)} inputs, {len(labels)} labels, speakers: each input needs one")
        self.inputs, self.labels, self.speakers, self.parts = inputs, labels, speakers, dict(parts or {})

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Tensor, Tensor, int]:
        indices, seed = batch
        if isinstance(self.inputs, Tensor):
            return self.inputs[indices], self.labels[indices], seed
        inputs, read = self.inputs.take(indices)
        return inputs, self.labels[read], seed


class SpeechBatch(NamedTuple):
    """A batch of utterances. In training the waveforms are on the device and the rest stays on the host.

    Attributes:
        waveforms: Samples, padded with zeros at the end (B, N).
        lengths: Number of samples of each utterance (B,).
        units: Label indices of each transcript, padded with -1 (B, U).
        spans: First sample of each word and the one after its last, padded with zeros (B, W, 2); W is 0 if the times
            are not known.
    """

    waveforms: Tensor
    lengths: Tensor
    units: Tensor
    spans: Tensor


def collate(
    sounds: Sequence[Tensor], units: Sequence[Sequence[int]], spans: Sequence[Sequence[tuple[int, int]]] | None = None
) -> SpeechBatch:
    """Pad utterances to a batch.

    Args:
        sounds: Samples of each utterance, (N,).
        units: Label indices of each transcript.
        spans: First sample of each word and the one after its last, for each utterance; `None` if not known.
    """
    if spans is None:
        padded_spans = torch.zeros(len(sounds), 0, 2, dtype=torch.long)
    else:
        padded_spans = pad_sequence(
            [torch.tensor(row, dtype=torch.long).view(-1, 2) for row in spans], batch_first=True
        )
    return SpeechBatch(
        pad_sequence(list(sounds), batch_first=True),
        torch.tensor([len(sound) for sound in sounds]),
        pad_sequence([torch.tensor(row, dtype=torch.long) for row in units], batch_first=True, padding_value=-1),
        padded_spans,
    )
