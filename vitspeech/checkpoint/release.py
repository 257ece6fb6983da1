"""Releasing a finished run."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import nn

from vitspeech.checkpoint.folder import HALF, Model, load, read_mapping, save
from vitspeech.checkpoint.items import TRAINING_ITEMS
from vitspeech.errors import InputError

RUN_ONLY = re.compile(  # keys of a config that do not change what is learned, apart from the seed
    r"^seed_everything$|^data\..*\b(seed|root|download|workers|storage|broken)$"
    r"|^trainer\.(accelerator|default_root_dir|log_every_n_steps|enable_\w+|logger|profiler)(\.|$)"
)
FILES = ("learning_curves.png", "confusion_matrix.png", "classes.csv", "errors.txt", TRAINING_ITEMS)  # a run has some
FILES += ("speakers.csv", "lengths.csv", "errors.png", "cross_attention.png")


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
        FileNotFoundError: If a run is not finished.
        InputError: If the config of another run differs in more than the seed, the seeds are not all different, or a
            weight is too large for half precision.
    """
    models = [load_finished(path, trust) for path in (run, *others)]
    first = models[0]
    seeds = [seed for model in models for seed in model.card["seeds"]]
    recipe = read_recipe(run) if others else {}
    for path in others:
        for key, values in differences(recipe, read_recipe(path)):
            raise InputError(f"{path}: {key} is {values[1]}, but {values[0]} in {run}; seeds must be of one config")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"the runs' seeds {seeds} are not all different")
    if measure_half is not None:
        round_to_half(first.network)
        first.card |= {"metrics": measure_half(first), "weights": HALF}
    if others:
        first.card["metrics"] |= spread([model.card["metrics"] for model in models])
    first.card |= {"name": Path(folder).name, "seeds": seeds}
    save(first, folder, sorted(first.folder.glob("*.jsonl")))
    for file in (Path(run) / name for name in FILES):
        if file.exists():
            shutil.copy(file, folder)
    return first.card


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


def read_recipe(run: str | Path) -> dict[str, Any]:
    """The config of a run without the arguments that may differ between seeds, by dotted keys."""
    config = read_mapping(Path(run) / "config.yaml", ("data", "model", "trainer"))
    return {key: value for key, value in flattened(config) if not RUN_ONLY.search(key)}


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


def spread(metrics: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean and standard deviation over runs of every accuracy and error rate on their cards."""
    statistics = {}
    for name in [name for name in metrics[0] if name.endswith(("_accuracy", "_error_rate"))]:
        values = [run_metrics[name] for run_metrics in metrics]
        statistics |= {f"{name}_mean": round(mean(values), 6), f"{name}_sd": round(stdev(values), 6)}
    return statistics


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
