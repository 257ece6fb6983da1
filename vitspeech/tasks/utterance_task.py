"""What all tasks on utterances share: the check of the data, the sample, and batches split by length.

A batch is (waveforms (B, N) padded at the end, lengths (B,), units (B, U) padded with -1, spans in samples (B, W, 2)).
Waveforms are on the training device, the rest on the host, so that reading lengths does not wait for the device.

Shapes: B batch, N samples, U units of a transcript, W words.
"""

from collections.abc import Iterator
from typing import Any

import lightning
import torch
from torch import Tensor

from vitspeech.errors import InputError
from vitspeech.tasks.sharding import processes
from vitspeech.tasks.task import Task

SAMPLED = 256  # utterances that a network is initialized from
GROUPS = 4  # a batch of 1 to 7 words is half padding as a whole, and a fifth padding in four groups of similar length
SHORT = 256  # inputs, such as symbols: passing their padding through the network takes less time than another pass
SMALLEST_GROUP = 8  # utterances: batch norm over one or two hides how much noise they have, which evaluation does not


class UtteranceTask(Task):
    """The base class of tasks on utterances of variable length, each with its transcript.

    Attributes:
        accepted: The `items` of the data that the task can be trained on.
    """

    accepted: tuple[str, ...] = ("utterances",)

    @classmethod
    def check_data(cls, data: lightning.LightningDataModule) -> None:
        if data.items not in cls.accepted:
            is_symbols = data.items == "sequences"
            reason = "sequences are symbols" if is_symbols else f"{data.items} have one label each"
            raise InputError(
                f"{cls.__name__} does not fit {type(data).__name__}: it needs utterances with transcripts, and "
                f"{reason}; use vitspeech.{'Transcription' if is_symbols else 'Classification'}"
            )

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """Training utterances as training feeds them, augmented, joined end to end without their padding: (1, N).

        They are spread over the data set, whose recordings may be in the order of their speakers.
        """
        count = min(SAMPLED, len(data.train))
        indices = torch.linspace(0, len(data.train) - 1, count).round().long()
        speech = data.training_batch(*data.train[indices, data.seed])
        rows = zip(speech.waveforms, speech.lengths.tolist(), strict=True)
        return torch.cat([row[:length] for row, length in rows])[None]


def length_groups(batch: tuple[Tensor, ...]) -> Iterator[tuple[Any, ...]]:
    """Split a batch into groups of utterances of similar length, each padded only to its own longest utterance.

    There are at most `GROUPS`, of at least `SMALLEST_GROUP` utterances, or one; inputs up to `SHORT` are one group. So
    are those of several processes: they wait for one another in each forward pass (synchronized batch norm, FSDP), so
    all of them need the same number of passes, though their batches may differ in size.
    """
    waveforms, lengths, units, spans = batch
    is_divided = waveforms.shape[1] > SHORT and processes() == 1
    groups = min(GROUPS, max(len(lengths) // SMALLEST_GROUP, 1)) if is_divided else 1
    for rows in lengths.argsort().tensor_split(groups):
        longest = max(lengths[rows].tolist())
        most_units, most_words = (max(mask.sum(1).tolist()) for mask in (units[rows] >= 0, spans[rows, :, 1] > 0))
        yield waveforms[rows, :longest], lengths[rows], units[rows, :most_units], spans[rows, :most_words]
