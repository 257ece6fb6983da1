"""A batch of sequences, and how sequences of different lengths are padded to one.

Shapes: B sequences, N input symbols, U output symbols.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


class SymbolBatch(NamedTuple):
    """A batch of sequences. In training the inputs are on the device and the rest stays on the host.

    Attributes:
        symbols: Indices of the input symbols, padded with -1 (B, N).
        lengths: Number of input symbols of each sequence (B,).
        units: Label indices of each output, padded with -1 (B, U).
        spans: Always (B, 0, 2): as in `SpeechBatch` if times are not known.
    """

    symbols: Tensor
    lengths: Tensor
    units: Tensor
    spans: Tensor


def collate(inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> SymbolBatch:
    """Pad sequences to a batch, from the indices of their input symbols and of their output labels."""
    symbols, units = (
        pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=-1)
        for rows in (inputs, outputs)
    )
    return SymbolBatch(symbols, (symbols >= 0).sum(1), units, torch.zeros(len(symbols), 0, 2, dtype=torch.long))
