"""What all tasks on utterances share: the check of the data, the sample, and batches split by length.

A batch is (waveforms (B, N) padded at the end, lengths (B,), units (B, U) padded with -1, spans in samples (B, W, 2)).

Shapes: B batch, N samples, U units of a transcript, W words.
"""

from collections.abc import Iterator
from typing import Any

import lightning
import torch
from torch import Tensor

from vitspeech.tasks.task import Task

GROUPS = 4  # a batch of 1 to 7 words is half padding as a whole, and a fifth padding in four groups of similar length


class UtteranceTask(Task):
    """The base class of tasks on utterances of variable length, each with its transcript."""

    @classmethod
    def check_data(cls, data: lightning.LightningDataModule) -> None:
        if data.items != "utterances":
            raise ValueError(
                f"{cls.__name__} does not fit {type(data).__name__}: it needs utterances with transcripts, and "
                f"{data.items} have one label each; use vitspeech.Classification"
            )

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """Training utterances joined end to end, without their padding: (1, N)."""
        (waveforms, lengths, *_), _ = data.train[torch.arange(min(256, len(data.train))), data.seed]
        rows = [row[:length] for row, length in zip(waveforms, lengths.tolist(), strict=True)]
        return data.normalize(torch.cat(rows))[None]


def length_groups(batch: tuple[Tensor, ...]) -> Iterator[tuple[Any, ...]]:
    """Split a batch into groups of utterances of similar length, each padded only to its own longest utterance."""
    waveforms, lengths, units, spans = batch
    order = lengths.argsort()
    for rows in order.chunk(GROUPS):
        longest, most_units = int(lengths[rows].max()), int((units[rows] >= 0).sum(1).max())
        most_words = int((spans[rows, :, 1] > 0).sum(1).max())
        yield waveforms[rows, :longest], lengths[rows], units[rows, :most_units], spans[rows, :most_words]
