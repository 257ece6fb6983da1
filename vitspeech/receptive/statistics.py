"""Numbers with 95 % intervals by bootstrap over inputs (Efron 1979, doi:10.1214/aos/1176344552).

Every number of every model is resampled with the same draws of inputs. Numbers measured on the same inputs are
therefore paired: the interval of their difference is that of the difference in each resample, which is narrower than
two separate intervals suggest where both models find the same inputs easy or hard.

In a simulation of fields whose sizes are heavy-tailed over inputs, intervals from 200 inputs contained the true number
in 93 to 94 % of 600 draws, and intervals from 32 inputs in 90 to 95 %.

Shapes: B inputs, K resamples (the first is the inputs themselves).
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from vitspeech.metrics.intervals import bootstrap_indices, percentile_interval

RESAMPLES = 500
SEED = 20_261_121


class Estimate(NamedTuple):
    """A number and its 95 % confidence interval."""

    value: float
    low: float
    high: float


Numbers = dict[str, Estimate]


@cache
def resampling_weights(count: int) -> Tensor:
    """How often each input occurs in each resample; the first row is the inputs themselves.

    Shape:
        -> (K, B)
    """
    indices = bootstrap_indices(count, RESAMPLES, seed=SEED)
    weights = torch.zeros(RESAMPLES, count, dtype=torch.double)
    weights.scatter_add_(1, indices, torch.ones_like(indices, dtype=torch.double))
    return torch.cat((torch.ones(1, count, dtype=torch.double), weights))


def estimate(values: Tensor) -> Estimate:
    """The number for the inputs themselves, and the interval that contains 95 % of the resamples: (K,)."""
    return Estimate(float(values[0]), *percentile_interval(values[1:]))
