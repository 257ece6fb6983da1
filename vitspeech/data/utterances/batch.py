"""A batch of utterances, and how utterances of variable length are padded to one.

Shapes: B utterances, N samples, U units, W words.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


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
