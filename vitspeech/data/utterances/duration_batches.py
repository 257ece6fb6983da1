"""Batches of utterances of similar duration, each with at most a number of seconds.

Shapes: U utterances.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from vitspeech.data.batches import Batches, derived_seed
from vitspeech.errors import InputError

MOST_BUCKETS, BATCHES_PER_BUCKET = 50, 4  # with fewer batches in a bucket, the same utterances would often meet


class DurationBatches(Batches):
    """Batches that are padded little: the utterances of one are from the same bucket of durations.

    The utterances are sorted by duration and cut into buckets of equal size. Each epoch shuffles each bucket, divides
    it into batches of at most `seconds` with padding, and shuffles the batches. Every utterance is in one batch of an
    epoch, and the number of batches is the same in each. As in `Batches`, a batch is a function of seed, epoch and
    number, and the utterances of an optimizer step do not depend on the number of processes.

    Args:
        durations_s: Duration of each utterance in seconds (U,).
        seconds: Maximum duration of an optimizer step in seconds, with padding, in all processes together.
        seed: The run's seed.
        accumulate: Batches of a process whose gradients are added up in an optimizer step.
        ranks: Number of processes; `None` is those of this run.

    Raises:
        InputError: If a step can't hold the longest utterance once per batch and process, or there are too few.
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
        """The number of batches of a whole epoch in this process."""
        return sum(self.counts) * self.accumulate

    def steps(self, epoch: int) -> list[Tensor]:
        """The utterances of each optimizer step of an epoch."""
        generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch))
        steps = []
        for bucket, count in zip(self.buckets, self.counts, strict=True):
            steps += bucket[torch.randperm(len(bucket), generator=generator)].tensor_split(count)
        return [steps[place] for place in torch.randperm(len(steps), generator=generator).tolist()]

    def training_batches(self) -> Iterator[tuple[Tensor, int]]:
        epoch, (begin_epoch, begin) = self.epoch, self.begin
        steps, parts = self.steps(epoch), self.ranks * self.accumulate
        for number in range(begin if epoch == begin_epoch else 0, len(self)):
            step, micro_batch = divmod(number, self.accumulate)
            part = micro_batch * self.ranks + self.rank
            # Of utterances sorted by duration each part takes every so-manieth: their durations are alike.
            utterances = steps[step][self.durations_s[steps[step]].argsort(stable=True)]
            yield utterances[part::parts], derived_seed(self.seed, epoch, part, step)

    def padding(self) -> float:
        """The share of padding in the batches of the first epoch, before a process divides them."""
        spent = sum(float(self.durations_s[step].max()) * len(step) for step in self.steps(0))
        return 1 - float(self.durations_s.sum()) / spent


def fitting(seconds: float, duration_s: float) -> int:
    """How many utterances of a duration fit into so many seconds: three of 1.1 s into 3.3 s, whatever rounding says."""
    return int(seconds / duration_s + 1e-9)


def padding_in_random_order(durations_s: Tensor, batch: int) -> float:
    """The share of padding in batches of so many utterances in random order (U,), for comparison."""
    order = torch.randperm(len(durations_s), generator=torch.Generator().manual_seed(0))
    rows = [durations_s[part].double() for part in order.split(batch)]
    return 1 - sum(float(row.sum()) for row in rows) / sum(float(row.max()) * len(row) for row in rows)
