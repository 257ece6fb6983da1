"""95 % confidence intervals: Wilson for proportions, Garwood for Poisson counts, Student for means of a few values,
percentile bootstrap otherwise.

Shapes: N items, G groups of items, R bootstrap resamples, K = R + 1 of which the first is the items themselves.
"""

import math
import statistics
from collections.abc import Hashable, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

RESAMPLES_AT_ONCE = 500  # bounds the memory for many items
PAIRED_RESAMPLES, PAIRED_SEED = 500, 20_261_121
Z_95 = 1.959964  # the normal quantile of a two-sided 95 % interval


def wilson_interval(proportion: float, count: int) -> tuple[float, float]:
    """The interval of a proportion observed in `count` independent trials (Wilson 1927)."""
    z = Z_95
    center = (proportion + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(proportion * (1 - proportion) / count + z * z / (4 * count * count))
    return max(0.0, center - half), min(1.0, center + half)  # within 0 .. 1 but for rounding


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


class Estimate(NamedTuple):
    """A number and its 95 % confidence interval."""

    value: float
    low: float
    high: float


Numbers = dict[str, Estimate]


@cache
def resampling_weights(count: int) -> Tensor:
    """How often each item occurs in each of 500 resamples; the first row is the items themselves.

    The draws depend on the count alone, so numbers measured on the same items are paired: the interval of their
    difference is that of the difference in each resample. It is narrower than two separate intervals suggest where both
    find the same items easy or hard.

    Shape:
        -> (K, N)
    """
    indices = bootstrap_indices(count, PAIRED_RESAMPLES, seed=PAIRED_SEED)
    weights = torch.zeros(PAIRED_RESAMPLES, count, dtype=torch.double)
    weights.scatter_add_(1, indices, torch.ones_like(indices, dtype=torch.double))
    return torch.cat((torch.ones(1, count, dtype=torch.double), weights))


def estimate(values: Tensor) -> Estimate:
    """The number for the items themselves, and the interval that contains 95 % of the resamples: (K,)."""
    return Estimate(float(values[0]), *percentile_interval(values[1:]))


def bootstrap_ratio_interval(
    numerators: Tensor, denominators: Tensor, *, resamples: int, groups: Sequence[Hashable] | None = None
) -> tuple[float, float]:
    """The interval of Σ numerators / Σ denominators, for example of an error rate.

    Bisani and Ney 2004 (doi:10.1109/ICASSP.2004.1326009).

    Items of one group, for example the words of one speaker, are not independent, so whole groups are resampled
    (cluster bootstrap; Davison and Hinkley 1997, sec. 3.8). With fewer than about 20 groups the interval is too narrow.
    If all numerators are zero, resamples do not vary; the interval is then that of Wilson with one trial for each item
    or group. If all groups have the same ratio above 0, as a single group does, its width is 0.

    Args:
        numerators: For example errors.
        denominators: For example words, at least one per group.
        resamples: Number of resamples R.
        groups: The group of each item; `None` resamples single items.

    Shape:
        (N,), (N,) -> low, high
    """
    if groups is not None:
        numerators, denominators = group_sums(numerators, groups), group_sums(denominators, groups)
    if not numerators.any():
        return wilson_interval(0.0, len(numerators))
    ratios = []
    for start in range(0, resamples, RESAMPLES_AT_ONCE):
        rows = bootstrap_indices(len(numerators), min(RESAMPLES_AT_ONCE, resamples - start), seed=start)
        ratios.append(numerators[rows].sum(1) / denominators[rows].sum(1))
    return percentile_interval(torch.cat(ratios))


def group_sums(values: Tensor, groups: Sequence[Hashable]) -> Tensor:
    """The sum of the values of each group, in the order in which the groups first occur.

    Shape:
        (N,) -> (G,)
    """
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    index = torch.tensor([numbers[group] for group in groups])
    return torch.zeros(len(numbers), dtype=values.dtype).index_add_(0, index, values)


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


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the mean of independent, normally distributed values (Student 1908).

    Of differences of pairs it is the interval of the paired t-test.

    Args:
        values: At least two.
    """
    half = student_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values) - half, statistics.mean(values) + half


def student_quantile(degrees: int, probability: float = 0.975) -> float:
    """The quantile of Student's t distribution for a probability above 1/2, by bisection."""
    low, high = 0.0, 1.0
    while student_inside(degrees, high) < 2 * probability - 1:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_inside(degrees, middle) < 2 * probability - 1 else (low, middle)
    return low


def student_inside(degrees: int, t: float) -> float:
    """The probability that |T| is at most t, for a whole number of degrees of freedom.

    Abramowitz and Stegun 1964, eq. 26.7.3 and 26.7.4: a finite sum over powers of the cosine of atan(t/√degrees).
    """
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine, odd = math.cos(angle), math.sin(angle), degrees % 2
    term, total = cosine if odd else 1.0, 0.0
    for number in range(odd, degrees - 1, 2):
        total += term
        term *= cosine**2 * (number + 1) / (number + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
