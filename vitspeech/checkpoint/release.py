"""Releasing a finished run, and adding the results of other seeds to a released model."""

import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitspeech.checkpoint.model import CARD, HALF, RUN_FILES, Model, load, read_card, save
from vitspeech.checkpoint.multi_seed import add_seeds, read_recipe, result
from vitspeech.errors import InputError
from vitspeech.files import write_text


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
    """
    first, *rest = [load_finished(path, trust) for path in (run, *others)]
    if measure_half is not None:
        round_to_half(first.network)
        first.card |= {"metrics": measure_half(first), "weights": HALF}
    first.card |= {"name": Path(folder).name, "recipe": read_recipe(run), "runs": [result(first.card)]}
    add_seeds(first.card, [(path, model.card) for path, model in zip(others, rest, strict=True)], run)
    with suppress(OSError, InputError):  # without a model before
        left_out = sorted({*read_card(Path(folder) / CARD)["seeds"]} - {*first.card["seeds"]})
        if left_out:
            seeds = ", ".join(map(str, left_out))
            warnings.warn(f"{folder}: the previous model had seeds that this one does not have: {seeds}", stacklevel=2)
    reports = [file for name in RUN_FILES if (file := Path(run) / name).exists()]
    save(first, folder, sorted(first.folder.glob("*.jsonl")), reports)
    return first.card


def release_seeds(folder: str | Path, others: Sequence[str | Path], *, trust: Sequence[str] = ()) -> dict[str, Any]:
    """Add runs of the same config with other seeds to the card of a released model, whose weights stay.

    Arguments, result and errors are as those of `release`.
    """
    load(folder, trust=trust)
    card = read_card(Path(folder) / CARD, ("recipe", "runs"))
    add_seeds(card, [(path, load_finished(path, trust).card) for path in others], folder)
    write_text(json.dumps(card, indent=2) + "\n", Path(folder) / CARD)
    return card


@torch.no_grad()
def round_to_half(network: nn.Module) -> None:
    """Round the parameters to the values that float16 has. Buffers stay as they are: some are too small for it."""
    for name, parameter in network.named_parameters():
        parameter.copy_(parameter.half())
        if not parameter.isfinite().all():
            raise InputError(f"--half: the weight {name} has values above 65,504, which float16 does not have")


def load_finished(run: str | Path, trust: Sequence[str] = ()) -> Model:
    """Load the model of a finished run."""
    if not (Path(run) / "model").is_dir():
        raise FileNotFoundError(
            f"{run}: not a finished run (it has no model/); finish it with vitspeech train --resume {run}"
        )
    return load(run, trust=trust)
