"""The statistics of a sweep: mean and standard deviation over the seeds, and differences that are paired by seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from vitspeech.metrics.intervals import mean_interval
from vitspeech.sweep.results import Row, is_score


@dataclass(frozen=True)
class Difference:
    """The mean difference of a variant's main metric to the first variant's, paired by seed.

    Args:
        mean: The mean over the seeds that both have.
        interval_95: Student's t; `None` with one seed.
        n: The number of these seeds.
    """

    mean: float
    interval_95: tuple[float, float] | None
    n: int


@dataclass(frozen=True)
class Summary:
    """One variant over its finished runs.

    Args:
        variant: Its name.
        seeds: Those of the finished runs.
        scores: Mean and sample standard deviation (`None` with one seed) of each metric of the table.
        parameters: Number of parameters.
        minutes: Mean minutes of training.
        difference: To the first variant; `None` for itself, or without a common seed.
    """

    variant: str
    seeds: list[int]
    scores: dict[str, tuple[float, float | None]]
    parameters: int
    minutes: float
    difference: Difference | None


def main_metric(rows: Sequence[Row]) -> str:
    """The main metric of the first finished run; empty if none is finished."""
    return next((row.result.main for row in rows if row.result is not None), "")


def summarize(rows: Sequence[Row]) -> list[Summary]:
    """One summary for each variant that has a finished run, in the order of the rows."""
    main = main_metric(rows)
    by_variant: dict[str, dict[int, Row]] = {}
    for row in rows:
        if row.result is not None:
            by_variant.setdefault(row.variant, {})[row.seed] = row
    first = next(iter(by_variant.values()), {})
    summaries = []
    for variant, runs in by_variant.items():
        results = [row.result for row in runs.values()]
        names = dict.fromkeys(name for result in results for name in result.metrics)
        shown = [name for name in names if name == main or (is_score(name) and "." not in name)]
        scores = {name: spread([each.metrics[name] for each in results if name in each.metrics]) for name in shown}
        minutes = mean(result.minutes for result in results)
        difference = None if runs is first else paired(runs, first, main)
        summaries.append(Summary(variant, list(runs), scores, results[0].parameters, minutes, difference))
    return summaries


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation, which one value does not have."""
    return mean(values), stdev(values) if len(values) > 1 else None


def paired(runs: dict[int, Row], first: dict[int, Row], metric: str) -> Difference | None:
    """The difference of two variants in a metric over the seeds that both have; `None` if there is none."""
    differences = [
        runs[seed].result.metrics[metric] - first[seed].result.metrics[metric]
        for seed in runs.keys() & first.keys()
        if metric in runs[seed].result.metrics and metric in first[seed].result.metrics
    ]
    if not differences:
        return None
    interval = mean_interval(differences) if len(differences) > 1 else None
    return Difference(mean(differences), interval, len(differences))
