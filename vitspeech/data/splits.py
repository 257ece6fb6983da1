"""Held-out splits: which training items become validation or test items when a data set does not say so itself.

The choice never depends on the run's seed.
"""

from pathlib import Path

import torch
from torch import Tensor

SPLIT_SEED = 20_261_121


def split_indices(count: int, validation: int) -> tuple[Tensor, Tensor]:
    """Split `count` items at random: the sorted indices of the training items and of `validation` held-out items.

    Raises:
        ValueError: If `validation` is below 1 or leaves no training items.
    """
    if not 0 < validation < count:
        raise ValueError(f"validation={validation} is not within 1..{count - 1}, the items that are not test items")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SPLIT_SEED))
    return order[validation:].sort().values, order[:validation].sort().values


def split_off_tenth(files: list[Path], labels: Tensor) -> tuple[tuple[list[Path], Tensor], tuple[list[Path], Tensor]]:
    """Split files and their labels at random into nine tenths to keep and one tenth (at least one file) to hold out.

    Raises:
        ValueError: If there are fewer than two files.
    """
    if len(files) < 2:
        raise ValueError(f"{', '.join(map(str, files)) or 'no files'}: too few to hold out a tenth for another split")
    keep, hold_out = split_indices(len(files), max(len(files) // 10, 1))
    return tuple(([files[index] for index in indices], labels[indices]) for indices in (keep, hold_out))
