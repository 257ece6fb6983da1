"""A released model: a folder with weights, configuration and card, loaded without unpickling anything.

NAME/model.safetensors   the weights
NAME/config.yaml         task, network, labels, preprocessing
NAME/card.json           data, split, metrics, seeds, commit, hardware, minutes, settings of a spotter, sha256 of the
                         two files above
"""

import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from vitspeech.checkpoint.build import build_network
from vitspeech.checkpoint.card import FORMAT, check_card, check_config, read_settings
from vitspeech.checkpoint.hub import CARD, CONFIG, WEIGHTS, fetch, on_hub
from vitspeech.checkpoint.leakage import TRAINING_ITEMS
from vitspeech.command_line import one_line
from vitspeech.data.utterances.manifest import CHECKSUMS, add_checksum, read_checksums
from vitspeech.decoding.keywords import SpottingSettings, check_words
from vitspeech.errors import InputError
from vitspeech.files import check_links, read_json, read_yaml, sha256, sync
from vitspeech.trust import import_modules

RUN_FILES = (  # what a run says about training and errors; a model has some of them
    *("learning_curves.png", "confusion_matrix.png", "classes.csv", "errors.txt", "speakers.csv", "lengths.csv"),
    *("errors.png", "cross_attention.png", "masked_speech.png", TRAINING_ITEMS),
)
OF_MODEL = {WEIGHTS, CONFIG, CARD, "README.md", CHECKSUMS, *RUN_FILES}  # replaced or removed with the model
CHECKOUT = Path(__file__).parents[2]  # whose checkpoints/ has the released models, if the package runs from it
HALF = "float16"  # of a card's `weights`: parameters are stored in half precision, and computed with in single


@dataclass
class Model:
    """A network with everything needed to run it on a file: labels, preprocessing, card.

    Args:
        network: In evaluation mode.
        labels: The name of each class or unit, in the order of the logits.
        preprocessing: For images `image` (side in pixels), `mean` and `std` (per channel, for values in 0..1); for
            audio `sample_rate_hz`, and `seconds` (length of a clip) or `units` (pieces have `merges`, too); for symbols
            `symbols`, their names.
        card: Where the network comes from and how good it is: data, split, metrics and so on.
        config: The network's `class_path` and `init_args`.
        task: Class path of the task that evaluates it, and in general trained it.
        trust: The user's own modules whose classes it may use; see `load`.
        folder: Where it was loaded from.
    """

    network: nn.Module
    labels: list[str]
    preprocessing: dict[str, Any]
    card: dict[str, Any]
    config: dict[str, Any]
    task: str = "vitspeech.Classification"
    trust: Sequence[str] = ()
    folder: Path | None = None

    @property
    def spotting(self) -> SpottingSettings | None:
        """The settings of its keyword decoder on its card, which `vitspeech tune` writes."""
        return read_settings(self.card["spotting"]) if "spotting" in self.card else None


def save(
    model: Model, folder: str | Path, manifests: Sequence[str | Path] = (), reports: Sequence[str | Path] = ()
) -> None:
    """Write a released model, replacing the one in `folder`. If it fails, `folder` is unchanged.

    Files of your own in `folder` stay, such as those of a git repository.

    Args:
        model: The model.
        folder: Where to write it.
        manifests: Manifests of your own that its card names, which are copied into the folder.
        reports: Files of its run that are copied into the folder, too; see `RUN_FILES`.

    Raises:
        FileExistsError: If `folder` holds something else.
    """
    folder = Path(os.path.realpath(folder))  # behind a link, the model is replaced and not the link
    if folder.exists() and not (folder / CARD).exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: is not empty and not a released model; name another folder")
    draft, before = beside(folder, "draft"), beside(folder, "before")
    if before.exists() and not folder.exists():
        before.rename(folder)  # left by a process that was killed between the two renames below
    for leftover in (draft, before):
        shutil.rmtree(leftover, ignore_errors=True)
    draft.mkdir(parents=True)
    # Copies: safetensors refuses tensors that share memory, such as a head and the embedding that it is tied to.
    weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.network.state_dict().items()}
    if model.card.get("weights") == HALF:
        weights |= {name: weights[name].half() for name, _ in model.network.named_parameters(remove_duplicate=False)}
    save_file(weights, draft / WEIGHTS)
    (draft / WEIGHTS).chmod(0o644)  # safetensors creates it readable by its owner alone
    names = {"labels": model.labels, "preprocessing": model.preprocessing}
    config = {"task": model.task, "network": model.config, **names}
    (draft / CONFIG).write_text(
        yaml.safe_dump(json.loads(json.dumps(config)), sort_keys=False, allow_unicode=True), "utf-8"
    )
    sums = {"sha256": sha256(draft / WEIGHTS), "config_sha256": sha256(draft / CONFIG)}
    (draft / CARD).write_text(json.dumps(finite(model.card) | {"format": FORMAT} | sums, indent=2) + "\n", "utf-8")
    for manifest in manifests:
        shutil.copy(manifest, draft)
        add_checksum(draft / Path(manifest).name)
    for report in reports:
        shutil.copy(report, draft)
    for name in (WEIGHTS, CONFIG, CARD):
        sync(draft / name)
    if folder.exists():
        copy_others(folder, draft)
        folder.rename(before)
    try:
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        if before.exists():
            before.rename(folder)
        raise
    shutil.rmtree(before, ignore_errors=True)


def copy_others(folder: Path, draft: Path) -> None:
    """Copy the user's own files and folders, and links as links, from the folder of a model to its draft."""
    of_model = {*OF_MODEL, *read_checksums(folder / CHECKSUMS)}  # the latter are its manifests
    for entry in folder.iterdir():
        if entry.name in of_model:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, draft / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, draft / entry.name, follow_symlinks=False)


def finite(value: Any) -> Any:
    """A value for JSON, in which numbers that are not finite are replaced by `None`."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def beside(folder: Path, role: str) -> Path:
    """A hidden folder next to a model's, for its draft or for the model before it."""
    return folder.with_name(f".{folder.name}.{role}")


def load(folder: str | Path, *, trust: Sequence[str] = ()) -> Model:
    """Load a released model or a finished run; arguments and errors are those of `vitspeech.load`."""
    folder = find_folder(Path(folder))
    card = read_card(folder / CARD)
    for name, key in ((WEIGHTS, "sha256"), (CONFIG, "config_sha256")):
        if sha256(folder / name) != card[key]:
            raise InputError(f"{folder / name}: altered; its sha256 is not the one in {CARD}")
    config = read_mapping(folder / CONFIG, ("network", "labels", "preprocessing"))
    try:
        check_config(config)
        if "spotting" in card:
            check_words(read_settings(card["spotting"]).thresholds, config["labels"])
        import_modules(trust)  # which may register scores by name
        network = build_network(config, load_file(folder / WEIGHTS), trust)
    except (SafetensorError, KeyError, OverflowError) as error:  # KeyError: a dtype that torch lacks
        raise InputError(f"{folder / WEIGHTS}: not safetensors: {one_line(error):.1000}") from None
    except ValueError as error:
        raise InputError(f"{folder}: {one_line(error):.1000}") from error
    task = config.get("task", Model.task)
    parts = (config["labels"], config["preprocessing"], card, config["network"], task, list(trust), folder)
    return Model(network, *parts)


def read_card(path: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """A card whose entries have the types that they must have, with these `keys` besides the checksums."""
    card = read_mapping(path, ("sha256", "config_sha256", *keys))
    try:
        check_card(card)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return card


def find_folder(folder: Path) -> Path:
    """The folder of a released model, or of that of a finished run; one on the hub is downloaded."""
    if on_hub(folder):
        folder = fetch(folder)
    given = folder
    if not (folder / WEIGHTS).exists() and (folder / "model").is_dir():
        folder = folder / "model"
    elif not (folder / WEIGHTS).exists() and (folder / "run.json").exists():
        raise FileNotFoundError(
            f"{folder}: the run is not finished; continue it with `vitspeech train --resume {folder}`"
        )
    before = beside(Path(os.path.realpath(folder)), "before")
    if not folder.exists() and before.exists():
        raise FileNotFoundError(f"{folder}: missing; replacing it was interrupted, and the model before is {before}")
    for path in (folder, folder / WEIGHTS, folder / CONFIG, folder / CARD):
        if not path.exists():
            known = [here / "checkpoints" / folder.name.lower().replace("_", "-") for here in (Path(), CHECKOUT)]
            known = [one for one in known if path == folder and (one / CARD).is_file()]
            hint = f"; did you mean {known[0]}?" if known else ""
            text = f"{path}: missing; a released model has {WEIGHTS}, {CONFIG} and {CARD}"
            raise FileNotFoundError(f"{path}: no such folder{hint}" if hint else text)
        if path.is_file() == (path == folder):
            raise InputError(f"{path}: not a {'folder' if path == folder else 'regular file'}")
    check_links(given, [(folder / name).relative_to(given) for name in (WEIGHTS, CONFIG, CARD)])
    return folder


def read_mapping(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Read a YAML or JSON file that must have these keys."""
    mapping = (read_json if path.suffix == ".json" else read_yaml)(path)  # YAML reads JSON's 5e-05 as a string
    missing = [key for key in keys if not isinstance(mapping, dict) or key not in mapping]
    if missing:
        raise InputError(f"{path}: has no {', '.join(missing)}")
    return mapping
