"""Runs of one recipe that differ in the seed: whether they do, and their results on one card.

Releasing a finished run.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import nn

from vitspeech.checkpoint.model import CARD, HALF, RUN_FILES, Model, load, read_mapping, save
from vitspeech.checkpoint.models_table import read_card
from vitspeech.errors import InputError
from vitspeech.files import write_text

RUN_ONLY = re.compile(  # keys of a config that do not change what is learned, apart from the seed
    r"^seed_everything$|^data\..*\b(seed|root|download|workers|storage|broken)$"
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

    Args:
        card: With the `recipe` and the `runs` that it has so far; changed in place.
        others: Folder and card of each run.
        name: The run or the model of the card, for messages.

    Raises:
        InputError: If the config of a run differs in more than `RUN_ONLY` and what `auto` precision chose, it started
            or learned from other weights or was tested on other items, or the seeds are not all different.
    """
    if others and not {"recipe", "runs"} <= card.keys():
        raise InputError(f"{name}: its card has no recipe to compare runs with; release the first run again")
    recipe = card.get("recipe", {})
    runs = [{"precision": recipe.get(PRECISION)} | run for run in card["runs"]]  # older cards do not name it
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


def release(
    run: str | Path,
    folder: str | Path,
    others: Sequence[str | Path] = (),
    *,
    measure_half: Callable[[Model], dict[str, Any]] | None = None,
    trust: Sequence[str] = (),
) -> dict[str, Any]:
    """Write a run's final weights as a released model.

    Args:
        run: Folder of a finished run.
        folder: Folder of the released model: `checkpoints/NAME`.
        others: Runs of the same config with other seeds; the card gets mean and standard deviation over all runs.
        measure_half: Store the weights in half precision (float16): half the size. The function measures the test
            set anew with the rounded weights, for the card.
        trust: Modules of your own whose classes the runs use.

    Returns:
        The card.

    Raises:
        FileExistsError: If the folder holds something else than a model.
        FileNotFoundError: If a run is not finished.
        InputError: If the config of another run differs in more than seeds may (see `add_seeds`), the seeds are not
            all different, or a weight is too large for half precision.
    """
    first, *rest = [load_finished(path, trust) for path in (run, *others)]
    if measure_half is not None:
        round_to_half(first.network)
        first.card |= {"metrics": measure_half(first), "weights": HALF}
    first.card |= {"name": Path(folder).name, "recipe": read_recipe(run), "runs": [result(first.card)]}
    add_seeds(first.card, [(path, model.card) for path, model in zip(others, rest, strict=True)], run)
    if left_out := sorted(released_seeds(folder) - set(first.card["seeds"])):
        seeds = ", ".join(map(str, left_out))
        warnings.warn(f"{folder}: the previous model had seeds that this one does not have: {seeds}", stacklevel=2)
    reports = [file for name in RUN_FILES if (file := Path(run) / name).exists()]
    save(first, folder, sorted(first.folder.glob("*.jsonl")), reports)
    return first.card


def release_seeds(folder: str | Path, others: Sequence[str | Path], *, trust: Sequence[str] = ()) -> dict[str, Any]:
    """Add runs of the same config with other seeds to the card of a released model, whose weights stay.

    Args:
        folder: Folder of the released model.
        others: Folders of the runs.
        trust: Modules of your own whose classes the model and the runs use.

    Returns:
        The card.

    Raises:
        FileNotFoundError: If a run is not finished.
        InputError: As `release`, or if the card was written by a version that did not keep the recipe.
    """
    card = load(folder, trust=trust).card
    add_seeds(card, [(path, load_finished(path, trust).card) for path in others], folder)
    write_text(json.dumps(card, indent=2) + "\n", Path(folder) / CARD)
    return card


def released_seeds(folder: str | Path) -> set[int]:
    """The seeds on the card of the model in a folder; none if it has no card that can be read."""
    with suppress(OSError, InputError):
        return set(read_card(Path(folder) / CARD)["seeds"])
    return set()


@torch.no_grad()
def round_to_half(network: nn.Module) -> None:
    """Round the parameters to the values that float16 has. Buffers stay as they are: some are too small for it.

    Raises:
        InputError: If one is too large.
    """
    for name, parameter in network.named_parameters():
        parameter.copy_(parameter.half())
        if not parameter.isfinite().all():
            raise InputError(f"--half: the weight {name} has values above 65,504, which float16 does not have")


def load_finished(run: str | Path, trust: Sequence[str] = ()) -> Model:
    """Load the model of a finished run.

    Raises:
        FileNotFoundError: If the run is not finished.
    """
    if not (Path(run) / "model").is_dir():
        raise FileNotFoundError(
            f"{run}: not a finished run (it has no model/); finish it with vitspeech train --resume {run}"
        )
    return load(run, trust=trust)
