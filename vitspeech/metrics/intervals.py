"""95 % confidence intervals: Wilson for proportions, Garwood for Poisson counts, percentile bootstrap otherwise.

Shapes: N items, R bootstrap resamples.
"""

import math

import torch
from torch import Tensor

Z_95 = 1.959964  # the normal quantile of a two-sided 95 % interval


def wilson_interval(proportion: float, count: int) -> tuple[float, float]:
    """The interval of a proportion observed in `count` independent trials (Wilson 1927)."""
    z = Z_95
    center = (proportion + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(proportion * (1 - proportion) / count + z * z / (4 * count * count))
    return center - half, center + half


def bootstrap_indices(count: int, resamples: int, *, seed: int = 0) -> Tensor:
    """Indices of bootstrap resamples: each row draws `count` items with replacement (Efron 1979).

    Shape:
        -> (R, N)
    """
    return torch.randint(0, count, (resamples, count), generator=torch.Generator().manual_seed(seed))


def percentile_interval(values: Tensor) -> tuple[float, float]:
    """The 2.5 % and 97.5 % percentiles of a statistic over bootstrap resamples: (R,) -> low, high."""
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    return low, high


def bootstrap_ratio_interval(numerators: Tensor, denominators: Tensor, *, resamples: int) -> tuple[float, float]:
    """The interval of Σ numerators / Σ denominators over items, for example an error rate over utterances.

    Bisani and Ney 2004 (doi:10.1109/ICASSP.2004.1326009).

    Shape:
        (N,), (N,) -> low, high
    """
    rows = bootstrap_indices(len(numerators), resamples)
    return percentile_interval(numerators[rows].sum(1) / denominators[rows].sum(1))


def poisson_interval(count: int) -> tuple[float, float]:
    """The exact interval of the mean of a Poisson distribution, from one observed count (Garwood 1936)."""
    return gamma_quantile(count, 0.025) if count else 0.0, gamma_quantile(count + 1, 0.975)


def gamma_quantile(shape: int, probability: float) -> float:
    """The quantile of the gamma distribution with scale 1, by bisection."""
    low, high = 0.0, shape + 10 * math.sqrt(shape) + 10
    for _ in range(60):
        middle = (low + high) / 2
        below = torch.special.gammainc(torch.tensor(float(shape)).double(), torch.tensor(middle).double())
        low, high = (middle, high) if below < probability else (low, middle)
    return low
