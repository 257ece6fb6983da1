"""The most probable path of a given labeling: the Viterbi algorithm on the CTC lattice.

The lattice of U units has S = 2U + 1 states: a blank before, between and after the units (Graves et al. 2006, fig. 3).
A token keeps the state, enters the next one, or skips the blank between two different units.

Implemented here because `forced_align` of torchaudio 2.11 misses the best path where two paths are equally probable.

Shapes: T tokens, C classes (the first C - 1 are units, the last class is the blank).
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy
import torch
from torch import Tensor

from vitspeech.decoding.paths import Hypothesis


def best_states(rows: numpy.ndarray, units: Sequence[int]) -> tuple[numpy.ndarray, float]:
    """The state of each token in the most probable path of `units`, and the path's log-probability.

    Where paths have the same probability, each state, from the last one back, begins as early as possible. Time and
    memory are O(T · U). Without a possible path the log-probability is -inf and the states mean nothing. There is at
    least one unit; the rows are log-probabilities in double precision, and the last class is the blank.

    Shape:
        rows (T, C), at least one token -> states (T,): 2i + 1 is unit i, even states are blanks
    """
    classes = numpy.full(2 * len(units) + 1, rows.shape[1] - 1)
    classes[1::2] = units
    skip_penalty = numpy.full(len(classes), -numpy.inf)
    skip_penalty[1::2] = 0
    skip_penalty[3::2][classes[3::2] == classes[1:-2:2]] = -numpy.inf

    # Two cells precede the scores of the states: all paths begin in the second, so that they enter state 0 or 1.
    scores = numpy.full(2 + len(classes), -numpy.inf)
    scores[1] = 0
    stay, enter, skip = scores[2:], scores[1:-1], scores[:-2]
    enters, skips = numpy.empty((2, len(rows), len(classes)), bool)
    best, skipping, emitted = numpy.empty((3, len(classes)))
    for row, enters_state, skips_state in zip(rows, enters, skips, strict=True):
        numpy.greater(enter, stay, out=enters_state)
        numpy.maximum(enter, stay, out=best)
        numpy.add(skip, skip_penalty, out=skipping)
        numpy.greater(skipping, best, out=skips_state)
        numpy.maximum(skipping, best, out=best)
        numpy.take(row, classes, out=emitted, mode="clip")
        numpy.add(best, emitted, out=stay)
        scores[1] = -numpy.inf

    state = len(classes) - (1 if stay[-1] >= stay[-2] else 2)
    score, states = float(stay[state]), numpy.empty(len(rows), int)
    for token in range(len(rows) - 1, -1, -1):
        states[token] = state
        state -= 2 if skips[token, state] else int(enters[token, state])
    return states, score


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
    """
    rows, units = in_double(log_probs), [int(unit) for unit in units]
    tokens = len(rows)
    if not units:
        raise NoPathError("no units to align: the transcript is empty")
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


def in_double(log_probs: Tensor) -> numpy.ndarray:
    """Log-probabilities (T, C) in double precision, for sums over long utterances; a ValueError for other numbers."""
    rows = log_probs.detach().to("cpu", torch.float64)
    if len(rows) and not rows.max() <= ROUNDING:  # NaN, too
        raise ValueError(f"log_probs reach {rows.max().item():.3g}, above 0: pass the log_softmax of logits")
    return rows.numpy()
