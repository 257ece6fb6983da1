"""The best alignment of a given labeling to the outputs of a network with CTC.

Shapes: T tokens, C classes (the first C - 1 are units, the last class is the blank).
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy
import torch
from torch import Tensor

from vitspeech.decoding.lattice import best_states
from vitspeech.decoding.paths import Hypothesis

ROUNDING = 1e-3  # log-probabilities of low precision may exceed 0 by this much


class NoPathError(ValueError):
    """No path of the labeling is possible: there are too few tokens, or each path has probability 0."""


def align(log_probs: Tensor, units: Sequence[int]) -> Hypothesis:
    """Align units to tokens: the most probable path of a given labeling. `log_probability` is that of the path.

    Where paths have the same probability, each unit, from the last one back, begins as early as possible.

    Args:
        log_probs: Log-probabilities of the tokens.
        units: The labeling.

    Shape:
        log_probs (T, C)

    Raises:
        NoPathError: If there are too few tokens, or no path has a positive probability.
        ValueError: If there are no units, a unit is out of range, or `log_probs` are not log-probabilities.
    """
    rows, units = validated(log_probs), [int(unit) for unit in units]
    tokens, classes = rows.shape
    if not units:
        raise ValueError("no units to align: the transcript is empty")
    invalid = [unit for unit in units if not 0 <= unit < classes - 1]
    if invalid:
        raise ValueError(f"unit {invalid[0]} is not among the {classes - 1} units of C={classes} classes")
    if tokens < tokens_needed(units):
        raise NoPathError(f"{len(units)} units need {tokens_needed(units)} tokens with CTC, got T={tokens}")
    states, score = best_states(rows, units)
    if score == -math.inf:
        raise NoPathError(f"the {len(units)} units have probability 0 in the T={tokens} tokens")
    numbers = numpy.arange(1, 2 * len(units), 2)
    firsts, ends = (numpy.searchsorted(states, numbers, side).tolist() for side in ("left", "right"))
    return Hypothesis(tuple(units), score, tuple(zip(firsts, ends, strict=True)))


def tokens_needed(units: Sequence[int]) -> int:
    """The minimum number of tokens for these units: one each, and a blank between repeated units."""
    return len(units) + sum(int(unit) == int(following) for unit, following in pairwise(units))


def validated(log_probs: Tensor, classes: int | None = None) -> numpy.ndarray:
    """Validate log-probabilities (T, C) and convert them to double precision, for sums over long utterances.

    Raises:
        ValueError: If the shape is another, C is not `classes`, or values are NaN or above 0.
    """
    if log_probs.ndim != 2 or not log_probs.shape[1]:
        raise ValueError(f"log_probs of shape {tuple(log_probs.shape)} are not (T tokens, C classes)")
    if classes is not None and log_probs.shape[1] != classes:
        raise ValueError(f"log_probs have C={log_probs.shape[1]} classes, earlier ones C={classes}")
    rows = log_probs.detach().to("cpu", torch.float64)
    if rows.isnan().any():
        raise ValueError(f"log_probs of token {rows.isnan().any(-1).int().argmax().item()} of T={len(rows)} hold NaN")
    if len(rows) and rows.max() > ROUNDING:
        raise ValueError(f"log_probs reach {rows.max().item():.3g}, above 0: pass the log_softmax of logits")
    return rows.numpy()
