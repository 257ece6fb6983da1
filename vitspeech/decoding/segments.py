"""From the probabilities of frame labels to segments: the most probable labels if each change of the label has a cost.

Shapes: F frames, C classes.
"""

import math

import numpy
import torch
from torch import Tensor

from vitspeech.decoding.alignment import validated
from vitspeech.errors import check_number


def segment(log_probs: Tensor, change_nats: float) -> Tensor:
    """The labels with the largest sum of log-probabilities minus `change_nats` for each change (Viterbi 1967).

    The label of a frame alone may flicker where two labels are about as probable; a change that costs more than it
    gains is left out. With a cost of 0 each frame has its most probable label. Time is O(F · C).

    Args:
        log_probs: Log-probabilities of the labels of each frame.
        change_nats: Cost of a change between two frames, at least 0.

    Shape:
        (F, C) -> (F,)

    Raises:
        InputError: If `change_nats` is negative.
        ValueError: If `log_probs` are not log-probabilities.
    """
    check_number("change_nats", change_nats, 0, math.inf)
    rows = validated(log_probs)
    if not len(rows):
        return torch.zeros(0, dtype=torch.long)
    scores, origins = rows[0], numpy.empty(rows.shape, numpy.int64)
    same = numpy.arange(rows.shape[1])
    for frame in range(1, len(rows)):
        best = scores.argmax()
        changes = scores < scores[best] - change_nats
        origins[frame] = numpy.where(changes, best, same)
        scores = numpy.where(changes, scores[best] - change_nats, scores) + rows[frame]
    labels = numpy.empty(len(rows), numpy.int64)
    labels[-1] = scores.argmax()
    for frame in range(len(rows) - 1, 0, -1):
        labels[frame - 1] = origins[frame, labels[frame]]
    return torch.from_numpy(labels)
