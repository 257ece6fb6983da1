"""Runs of one recipe that differ in the seed: whether they do, and their results on one card."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from vitspeech.checkpoint.model import read_mapping
from vitspeech.errors import InputError
from vitspeech.files import check_links

RUN_ONLY = re.compile(  # keys of a config that do not change what is learned, apart from the seed
    r"^seed_everything$|^data\..*\b(seed|root|path|download|workers|storage|broken)$"
    r"|^every_(minutes|steps)$|^trainer\.(accelerator|default_root_dir|log_every_n_steps|enable_\w+|logger|profiler)(\.|$)"
)
LEARNED_FROM = ("starts_from_sha256", "teachers_sha256")  # keys of a card
FACTS = ("minutes", "commit", "hardware", "precision", "resumed")  # of a run's card, kept for each seed
PRECISION = "trainer.precision"  # key of a config
OF_AUTO = ("bf16-mixed", "32-true")  # what the precision `auto` becomes, by the hardware


def read_recipe(run: str | Path) -> dict[str, Any]:
    """The config of a run by dotted keys, without keys that are null or may differ between seeds.

    Absolute paths are replaced by their last part, since a card shows the recipe to others.
    """
    check_links(run, ["config.yaml"])
    config = read_mapping(Path(run) / "config.yaml", ("data", "model", "trainer"))
    values = ((key, value) for key, value in flattened(config) if not RUN_ONLY.search(key))
    return {key: without_folders(value) for key, value in values if value is not None}


def without_folders(value: Any) -> Any:
    """A value of a config, in which absolute paths are replaced by their last part."""
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def flattened(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested dictionary with their dotted keys."""
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def differences(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each key whose values differ, in order, with both values as text; a missing key is `not set`."""
    for key in dict.fromkeys((*one, *other)):
        if key not in one or key not in other or one[key] != other[key]:
            yield key, tuple(repr(config[key]) if key in config else "not set" for config in (one, other))


def with_precision_of(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Another recipe with the precision of the first one if `auto` may have chosen both; else as it is."""
    chosen = all(recipe.get(PRECISION) in OF_AUTO for recipe in (one, other))
    return other | {PRECISION: one[PRECISION]} if chosen else other


def add_seeds(card: dict[str, Any], others: Sequence[tuple[str | Path, dict[str, Any]]], name: str | Path) -> None:
    """Add finished runs of the same recipe to a card: each result, and mean and standard deviation over all.

    The card, with its `recipe` and the `runs` so far, is changed in place. Runs that differ in more than `RUN_ONLY` and
    what `auto` precision chose, or in their test items or the weights they learned from, are refused.
    """
    recipe, runs = card["recipe"], [{"precision": card["recipe"].get(PRECISION)} | run for run in card["runs"]]
    for run, other in others:
        own = read_recipe(run)
        for key, values in differences(recipe, with_precision_of(recipe, own)):
            raise InputError(f"{run}: {key} is {values[1]}, but {values[0]} in {name}; seeds must be of one config")
        for key in LEARNED_FROM:
            if key in card and key in other and card[key] != other[key]:
                raise InputError(f"{run}: learned from other weights than {name} ({key} differs)")
        if test_sum(card) != test_sum(other) and test_sum(card) and test_sum(other):
            raise InputError(f"{run}: was tested on other items than {name}; train it again on the same data")
        runs.append({"precision": own.get(PRECISION)} | result(other))
    seeds = [run["seed"] for run in runs]
    if len(set(seeds)) < len(seeds):
        raise InputError(f"the runs' seeds {seeds} are not all different")
    card |= {"seeds": seeds, "runs": runs, "metrics": card["metrics"] | spread([run["metrics"] for run in runs])}


def result(card: dict[str, Any]) -> dict[str, Any]:
    """Seed, accuracies and error rates of the card of one run, and how it was trained: time, hardware, precision."""
    numbers = {name: value for name, value in card["metrics"].items() if is_result(name)}
    return {"seed": card["seeds"][0], "metrics": numbers, **{name: card[name] for name in FACTS if name in card}}


def test_sum(card: dict[str, Any]) -> str:
    """The checksum of the names of the test items; empty if the card has none."""
    test = card["splits"].get("test") if isinstance(card.get("splits"), dict) else None
    return str(test.get("sha256", "")) if isinstance(test, dict) else ""


def is_result(name: str) -> bool:
    """Whether a metric is an accuracy, an F1 score or an error rate."""
    return name.endswith(("_accuracy", "_f1", "_error_rate"))


def spread(metrics: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean and standard deviation over runs of every such metric that all of them have; nothing of a single run."""
    statistics = {}
    shared = [name for name in metrics[0] if is_result(name) and all(name in others for others in metrics)]
    for name in shared if len(metrics) > 1 else []:
        values = [run_metrics[name] for run_metrics in metrics]
        statistics |= {f"{name}_mean": round(mean(values), 6), f"{name}_sd": round(stdev(values), 6)}
    return statistics
