"""The results of a sweep: what the cards of its finished runs say, and statistics over the seeds, paired by seed."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from vitspeech.checkpoint.model import CARD, read_mapping
from vitspeech.checkpoint.models_table import NAMES
from vitspeech.checkpoint.multi_seed import flattened, test_sum
from vitspeech.errors import InputError
from vitspeech.files import check_links, read_json, read_text
from vitspeech.metrics.intervals import mean_interval
from vitspeech.training.checkpoints import METRICS, read_metrics
from vitspeech.training.run_folder import is_finished

FINISHED, UNFINISHED, NEW = "finished", "unfinished", "not started"
SEED_FOLDER = re.compile(r"seed-(0|[1-9]\d*)")
VALIDATION = {"val_accuracy": "validation accuracy", "val_error_rate": "validation error rate"}
LENGTHS = "lengths.csv"  # of a run of a sequence task
MOST_BYTES = 2**28  # of a log or a record, which grow with the steps and the epochs of all runs
SCORES = re.compile(r"(^|_)(accuracy|error_rate)$")


@dataclass(frozen=True)
class Result:
    """What the card and the `metrics.csv` of a finished run say.

    `metrics` has every number of the test metrics, in the card's order, where an interval is two of them; then the
    validation metric after the last epoch. `progress` has that metric after each epoch, counted from 1, under its name.
    """

    metrics: dict[str, float]
    main: str  # name of the main metric
    parameters: int
    minutes: float  # of training
    commit: str = ""
    hardware: str = ""
    precision: str = ""  # the trainer's, such as `32-true`
    test_sum: str = ""  # checksum of the names of the test items
    progress: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A run in the folder of a sweep; it has a result if its state is `finished`."""

    variant: str
    seed: int
    state: str
    result: Result | None


def state(run: Path) -> str:
    """Whether the run of a folder is finished, unfinished or not started."""
    if is_finished(run):
        return FINISHED
    return UNFINISHED if (run / "config.yaml").is_file() else NEW


def read_result(run: Path) -> Result:
    """The result of a finished run from its card and its `metrics.csv`."""
    check_links(run, [f"model/{CARD}", METRICS, LENGTHS])
    card = read_mapping(run / "model" / CARD, ("metrics", "parameters", "minutes"))
    metrics = dict(numbers(card["metrics"])) if isinstance(card["metrics"], dict) else {}
    if not metrics:
        raise InputError(f"{run / 'model' / CARD}: has no metrics")
    main, progress = next(iter(metrics)), read_progress(run)
    metrics |= {name: curve[-1][1] for name, curve in progress.items()}
    origin = {name: str(card.get(name, "")) for name in ("commit", "hardware", "precision")}
    origin["test_sum"] = test_sum(card)
    return Result(metrics, main, int(card["parameters"]), float(card["minutes"]), **origin, progress=progress)


def read_progress(run: Path) -> dict[str, list[tuple[int, float]]]:
    """The validation metric of a run after each epoch, counted from 1, under its name; empty without one."""
    file = run / METRICS
    if not file.is_file():
        return {}
    try:
        rows = read_metrics(read_text(file, most_bytes=MOST_BYTES))
        for name in VALIDATION:
            if curve := {int(row["epoch"]) + 1: float(row[name]) for row in rows if row.get(name)}:
                return {name: sorted(curve.items())}
    except ValueError as error:
        raise InputError(f"{file}: {error}") from None
    return {}


def numbers(metrics: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of nested metrics with dotted names; of an interval `interval_95` its `_low` and `_high`."""
    for name, value in flattened(metrics):
        if isinstance(value, list) and len(value) == 2:
            yield f"{name}_low", value[0]
            yield f"{name}_high", value[1]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


def is_score(name: str) -> bool:
    """Whether a metric is an accuracy or an error rate, which tables show in percent."""
    return bool(SCORES.search(name))


def label(metric: str) -> str:
    """A metric as tables spell it: `test_accuracy` -> `accuracy`."""
    return VALIDATION.get(metric) or NAMES.get(metric, metric.replace("_", " "))


def number_text(metric: str, value: float) -> str:
    """A value of a metric as text, in percent if it is an accuracy or an error rate."""
    return f"{100 * value:.2f}" if is_score(metric) else f"{value:.4g}"


def score_text(result: Result) -> str:
    """The main metric of a run as text: `accuracy 92.52 %`."""
    percent = " %" if is_score(result.main) else ""
    return f"{label(result.main)} {number_text(result.main, result.metrics[result.main])}{percent}"


def read_rows(folder: Path, planned: Mapping[str, Collection[int]]) -> list[Row]:
    """Every run in the folder of a sweep, and those that are planned, by variant and seed.

    `planned` has the seeds of each planned variant; other variants follow in alphabetical order.
    """
    found: dict[str, set[int]] = {name: {*seeds} for name, seeds in planned.items()}
    for path in sorted(folder.glob("*/seed-*")):
        if (seed := SEED_FOLDER.fullmatch(path.name)) and (path / "config.yaml").is_file():
            found.setdefault(path.parent.name, set()).add(int(seed[1]))
    if not found:
        raise FileNotFoundError(f"{folder}: holds no run of a sweep (a folder VARIANT/seed-N)")
    rows = []
    for variant, seeds in found.items():
        for seed in sorted(seeds):
            run = folder / variant / f"seed-{seed}"
            rows.append(Row(variant, seed, state(run), read_result(run) if state(run) == FINISHED else None))
    return rows


def read_record(folder: Path) -> dict[str, Any]:
    """The variants and overrides in the `sweep.json` of a folder; none if there is none."""
    file = folder / "sweep.json"
    if not file.exists():
        return {"variants": {}, "overrides": []}
    record = read_json(file, most_bytes=MOST_BYTES)
    try:
        variants = {
            name: {"config": variant["config"], "varied": {**variant["varied"]}, "seeds": [*map(int, variant["seeds"])]}
            for name, variant in record["variants"].items()
        }
        return {"variants": variants, "overrides": record["overrides"]}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{file}: is not the record of a sweep; remove it") from None


@dataclass(frozen=True)
class Difference:
    """The mean difference of a variant's main metric to the first variant's, paired by seed."""

    mean: float  # over the seeds that both have
    interval_95: tuple[float, float] | None  # Student's t; `None` with one seed
    n: int  # number of these seeds


@dataclass(frozen=True)
class Summary:
    """One variant over its finished runs."""

    variant: str
    seeds: list[int]
    scores: dict[str, tuple[float, float | None]]  # mean and sample standard deviation (`None` with one seed)
    parameters: int
    minutes: float  # mean, of training
    difference: Difference | None  # to the first variant; `None` for itself, or without a common seed


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
