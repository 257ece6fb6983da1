"""A released model: a folder with weights, configuration and card, loaded without unpickling anything.

NAME/model.safetensors   the weights
NAME/config.yaml         task, network, labels, preprocessing
NAME/card.json           data, split, metrics, seeds, commit, hardware, minutes, sha256 of the two files above
"""

import json
import shutil
from collections.abc import Sequence
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
from vitspeech.errors import InputError
from vitspeech.trust import check_config, import_modules, import_trusted, is_known

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.yaml", "card.json"


@dataclass
class Model:
    """A network with everything needed to run it on a file: labels, preprocessing, card.

    Args:
        network: In evaluation mode.
        labels: The name of each class or unit, in the order of the logits.
        preprocessing: For images `image` (side in pixels), `mean` and `std` (per channel, for values in 0..1); for
            audio `sample_rate_hz`, and `seconds` (length of a clip) or `units`.
        card: Where the network comes from and how good it is: data, split, metrics and so on.
        config: The network's `class_path` and `init_args`.
        task: Class path of the task that trained it, which also evaluates it.
        trust: The user's own modules whose classes it may use; see `load`.
    """

    network: nn.Module
    labels: list[str]
    preprocessing: dict[str, Any]
    card: dict[str, Any]
    config: dict[str, Any]
    task: str = "vitspeech.Classification"
    trust: Sequence[str] = ()


def save(model: Model, folder: str | Path) -> None:
    """Write a released model, replacing the one in `folder`. If it fails, `folder` is unchanged.

    Raises:
        FileExistsError: If `folder` holds something else.
    """
    folder = Path(folder).resolve()  # behind a link, the model is replaced and not the link
    if folder.exists() and not (folder / CARD).exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: is not empty and not a released model; name another folder")
    draft, before = beside(folder, "draft"), beside(folder, "before")
    if before.exists() and not folder.exists():
        before.rename(folder)  # left by a process that was killed between the two renames below
    for leftover in (draft, before):
        shutil.rmtree(leftover, ignore_errors=True)
    draft.mkdir(parents=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.network.state_dict().items()}
    save_file(weights, draft / WEIGHTS)
    (draft / WEIGHTS).chmod(0o644)  # safetensors creates it readable by its owner alone
    names = {"labels": model.labels, "preprocessing": model.preprocessing}
    config = {"task": model.task, "network": model.config, **names}
    (draft / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    sums = {"sha256": sha256(draft / WEIGHTS), "config_sha256": sha256(draft / CONFIG)}
    (draft / CARD).write_text(json.dumps(model.card | {"format": FORMAT} | sums, indent=2) + "\n")
    if folder.exists():
        folder.rename(before)
    try:
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        if before.exists():
            before.rename(folder)
        raise
    shutil.rmtree(before, ignore_errors=True)


def beside(folder: Path, role: str) -> Path:
    """A hidden folder next to a model's, for its draft or for the model before it."""
    return folder.with_name(f".{folder.name}.{role}")


def load(folder: str | Path, *, trust: Sequence[str] = ()) -> Model:
    """Load a released model or a finished run: `vitspeech.load("checkpoints/vit-cifar10")`.

    Loading runs no code from the folder: the weights are safetensors, and the configuration may name only networks of
    vitspeech, torch and timm, and classes of the modules in `trust`.

    Args:
        folder: Holds `model.safetensors`, `config.yaml` and `card.json`; or a finished run, which has them in `model/`.
        trust: Modules of your own whose code may run, such as `["mine"]` for `class_path: mine.Net`. They are also
            looked for in the current folder.

    Raises:
        FileNotFoundError: If the folder or a file in it is missing.
        InputError: If a file is altered, broken, or does not fit the others, or a class is not trusted.
    """
    folder = Path(folder)
    if not (folder / WEIGHTS).exists() and (folder / "model").is_dir():
        folder = folder / "model"
    elif not (folder / WEIGHTS).exists() and (folder / "run.json").exists():
        raise FileNotFoundError(
            f"{folder}: the run is not finished; continue it with `vitspeech train --resume {folder}`"
        )
    before = beside(folder.resolve(), "before")
    if not folder.exists() and before.exists():
        raise FileNotFoundError(f"{folder}: missing; replacing it was interrupted, and the model before is {before}")
    for path in (folder, folder / WEIGHTS, folder / CONFIG, folder / CARD):
        if not path.exists():
            raise FileNotFoundError(f"{path}: missing; a released model has {WEIGHTS}, {CONFIG} and {CARD}")
    card = read_mapping(folder / CARD, ("sha256", "config_sha256"))
    for name, key in ((WEIGHTS, "sha256"), (CONFIG, "config_sha256")):
        if sha256(folder / name) != card[key]:
            raise InputError(f"{folder / name}: altered; its sha256 is not the one in {CARD}")
    config = read_mapping(folder / CONFIG, ("network", "labels", "preprocessing"))
    outdated = card.get("format", 1) < FORMAT
    try:
        check_shape(config)
        config = upgraded_config(config) if outdated else config
        check_config(config["network"], trust)
        import_modules(trust)  # which may register scores by name
        network, weights = build(config["network"], trust), load_file(folder / WEIGHTS)
        network.load_state_dict(upgraded_weights(weights) if outdated else weights)
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{folder}: the network cannot be built: {' '.join(str(error).split())}") from None
    task = config.get("task", Model.task)
    return Model(network.eval(), config["labels"], config["preprocessing"], card, config["network"], task, list(trust))


def build(config: dict[str, Any], trust: Sequence[str] = ()) -> nn.Module:
    """Build the network that a `class_path` and its `init_args` describe.

    Args:
        config: `class_path: vitspeech.NAME` or a class of a trusted module, and `init_args`.
        trust: Modules of the user's own whose code may run.

    Raises:
        InputError: If a class is not trusted, or is not a network.
    """
    network_class = find_class(str(config.get("class_path")), trust)
    if not issubclass(network_class, nn.Module):
        raise InputError(f"class_path {config['class_path']!r} is not a network (a subclass of torch.nn.Module)")
    return network_class(**built_arguments(config.get("init_args") or {}, trust))


def built_arguments(arguments: dict[str, Any], trust: Sequence[str]) -> dict[str, Any]:
    """Arguments in which every nested class is replaced by an instance, and every own score by its class."""
    return {
        name: import_trusted(value, trust)
        if name == "score" and isinstance(value, str) and "." in value
        else built_value(value, trust)
        for name, value in arguments.items()
    }


def built_value(value: Any, trust: Sequence[str]) -> Any:
    """A value in which every nested class is replaced by an instance, in dictionaries and lists."""
    if isinstance(value, dict) and "class_path" in value:
        return find_class(value["class_path"], trust)(**built_arguments(value.get("init_args") or {}, trust))
    if isinstance(value, dict):
        return built_arguments(value, trust)
    return [built_value(item, trust) for item in value] if isinstance(value, list) else value


def find_class(class_path: str, trust: Sequence[str]) -> type:
    """A network of vitspeech or a part of one, a module of torch or timm, or any class of a trusted module.

    Raises:
        InputError: If it is none of these.
    """
    parts = class_path.split(".")
    if parts[0] == "vitspeech":
        rooms = (vitspeech.models, vitspeech.frontends, vitspeech.attention)
        part = next((getattr(room, parts[-1]) for room in rooms if parts[-1] in room.__all__), None)
        if len(parts) != 2 or not (isinstance(part, type) and issubclass(part, nn.Module)):
            raise InputError(f"class_path {class_path!r} is not a network of vitspeech")
        return part
    part = import_trusted(class_path, trust)
    if not isinstance(part, type) or (is_known(class_path) and not issubclass(part, nn.Module)):
        raise InputError(f"class_path {class_path!r} is not a network (a subclass of torch.nn.Module)")
    return part


def check_shape(config: dict[str, Any]) -> None:
    """Refuse a configuration whose network or preprocessing cannot be read.

    Raises:
        InputError: If the preprocessing is not a mapping, or the network or a nested class has no `class_path`, or
            `init_args` that are not a mapping.
    """
    if not isinstance(config["preprocessing"], dict):
        raise InputError("preprocessing is not a mapping")
    if not isinstance(config["network"], dict) or "class_path" not in config["network"]:
        raise InputError("network has no class_path")
    check_classes(config["network"])


def check_classes(value: Any) -> None:
    """Refuse a `class_path` that is not a name, and `init_args` that are not a mapping, wherever they are nested.

    Raises:
        InputError: If there is one.
    """
    if isinstance(value, dict) and "class_path" in value:
        if not isinstance(value["class_path"], str):
            raise InputError(f"class_path {value['class_path']!r} is not a name")
        if not isinstance(value.get("init_args") or {}, dict):
            raise InputError(f"init_args of {value['class_path']} is not a mapping")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            check_classes(item)


def read_mapping(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Read a YAML or JSON file that must have these keys.

    Raises:
        InputError: If it cannot be read, or a key is missing.
    """
    try:
        # YAML reads JSON's 5e-05 as a string.
        mapping = (json.loads if path.suffix == ".json" else yaml.safe_load)(path.read_text())
    except (yaml.YAMLError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    missing = [key for key in keys if not isinstance(mapping, dict) or key not in mapping]
    if missing:
        raise InputError(f"{path}: has no {', '.join(missing)}")
    return mapping
