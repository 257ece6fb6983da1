"""A released model: a folder with weights, the network's configuration and its card, loaded without a pickle.

NAME/model.safetensors   the weights
NAME/config.yaml         network, labels, preprocessing
NAME/card.json           data, split, metrics, seeds, commit, hardware, minutes, sha256 of the two files above
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

import vitspeech.attention
import vitspeech.frontends
import vitspeech.models
from vitspeech.checkpoint.upgrade import FORMAT, upgraded_config, upgraded_weights
from vitspeech.data.files import sha256

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.yaml", "card.json"


@dataclass
class Model:
    """A network with what is needed to give it a raw picture.

    Args:
        network: In evaluation mode.
        labels: The name of each class.
        preprocessing: `image` (side in pixels), `mean` and `std` (per channel, of 0..1).
        card: What is known of the network: data, split, metrics and so on.
        config: The network's `class_path` and `init_args`.
        task: Class path of the task that trained the network.
    """

    network: nn.Module
    labels: list[str]
    preprocessing: dict[str, Any]
    card: dict[str, Any]
    config: dict[str, Any]
    task: str = "vitspeech.Classification"


def save(model: Model, folder: str | Path) -> None:
    """Write a released model, whole or not at all; a released model in `folder` is replaced.

    Raises:
        FileExistsError: If `folder` holds something else.
    """
    folder = Path(folder)
    if folder.exists() and not (folder / CARD).exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: holds something that is no released model; name another folder")
    draft = folder.with_name(folder.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.network.state_dict().items()}
    save_file(weights, draft / WEIGHTS)
    (draft / WEIGHTS).chmod(0o644)  # safetensors leaves it to its owner alone
    config = {"task": model.task, "network": model.config, "labels": model.labels, "preprocessing": model.preprocessing}
    (draft / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    sums = {"sha256": sha256(draft / WEIGHTS), "config_sha256": sha256(draft / CONFIG)}
    (draft / CARD).write_text(json.dumps(model.card | {"format": FORMAT} | sums, indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def load(folder: str | Path) -> Model:
    """Load a released model: `vitspeech.load("checkpoints/vit-cifar10")`.

    Nothing in the folder is run: the weights are safetensors, the configuration may name only this package's
    networks.

    Args:
        folder: Holds `model.safetensors`, `config.yaml` and `card.json`; or a finished run, which has it in `model/`.

    Raises:
        FileNotFoundError: If the folder or a file of it is missing.
        ValueError: If a file is altered, broken, or doesn't fit the others.
    """
    folder = Path(folder)
    if not (folder / WEIGHTS).exists() and (folder / "model").is_dir():
        folder = folder / "model"
    for path in (folder, folder / WEIGHTS, folder / CONFIG, folder / CARD):
        if not path.exists():
            raise FileNotFoundError(f"{path}: missing; a released model has {WEIGHTS}, {CONFIG} and {CARD}")
    card = read_mapping(folder / CARD, ("sha256", "config_sha256"))
    for name, key in ((WEIGHTS, "sha256"), (CONFIG, "config_sha256")):
        if sha256(folder / name) != card[key]:
            raise ValueError(f"{folder / name}: altered; its sha256 is not the one in {CARD}")
    config = read_mapping(folder / CONFIG, ("network", "labels", "preprocessing"))
    old = card.get("format", 1) < FORMAT
    try:
        config = upgraded_config(config) if old else config
        network, weights = build(config["network"]), load_file(folder / WEIGHTS)
        network.load_state_dict(upgraded_weights(weights) if old else weights)
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{folder}: the network can't be made from its configuration and weights: {reason}") from None
    return Model(
        network.eval(),
        config["labels"],
        config["preprocessing"],
        card,
        config["network"],
        config.get("task", Model.task),
    )


def build(config: dict[str, Any]) -> nn.Module:
    """Make the network that `class_path: vitspeech.NAME` and `init_args` describe; no other code can be named."""
    package, _, name = str(config.get("class_path")).rpartition(".")
    rooms = (vitspeech.models, vitspeech.frontends, vitspeech.attention)
    known = {name: getattr(room, name) for room in rooms for name in room.__all__}
    made = known.get(name) if package == "vitspeech" else None
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        raise ValueError(f"class_path {config.get('class_path')!r} is no network of vitspeech")
    arguments = config.get("init_args") or {}
    nested = {
        key: build(value) for key, value in arguments.items() if isinstance(value, dict) and "class_path" in value
    }
    return made(**(arguments | nested))


def read_mapping(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """A YAML or JSON file that holds these keys."""
    try:
        mapping = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: can't be read: {' '.join(str(error).split())}") from None
    missing = [key for key in keys if not isinstance(mapping, dict) or key not in mapping]
    if missing:
        raise ValueError(f"{path}: has no {', '.join(missing)}")
    return mapping
