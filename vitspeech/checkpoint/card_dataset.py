"""Building the data set that a model's card names."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import vitspeech.data
from vitspeech.checkpoint.card import check_types, is_class
from vitspeech.checkpoint.model import Model
from vitspeech.data.hugging_face import HuggingFaceData
from vitspeech.data.module import DataModule
from vitspeech.data.utterances.subwords import Subwords
from vitspeech.data.utterances.word_clips import WordSource
from vitspeech.data.utterances.word_sequences import MANIFESTS, manifest_file
from vitspeech.errors import InputError, shown
from vitspeech.trust import import_trusted, is_known

USERS_OWN = {"root", "download", "workers", "storage", "broken", "speech"}  # arguments of data that a card never has

FOLDERS = {"recordings", "train", "validation", "test"}  # arguments of data that name folders in its root


def card_dataset(model: Model, root: str | None, changes: Mapping[str, Any] | None = None) -> DataModule:
    """Build the data set that a model's card names, with its files under `root`.

    A card names no folders, starts no download, and names manifests of the package, or files beside the model or in
    `root`.

    `root` is the folder that the user names, or `None` for the default of the data set's class; `changes` are arguments
    in place of the card's, such as another test set. Labels that are not the model's are refused.
    """
    if "data" not in model.card:
        raise InputError("the card names no data set")
    description = model.card["data"]
    description = {**description, "init_args": (description.get("init_args") or {}) | dict(changes or {})}
    data = build_data(description, DataModule, root, model.trust)
    if root is not None and not reads_files(data):
        raise InputError(f"--data {root}: {type(data).__name__} reads no files; leave it out")
    if "merges" in model.preprocessing:  # the pieces are those of the model, whatever transcripts there are
        data.labels, data.subwords = list(model.labels), Subwords(model.labels, model.preprocessing["merges"])
    elif getattr(data, "learns_labels", False):  # likewise
        data.labels = list(model.labels)
    if getattr(data, "manifests", ()):
        folders = [Path(folder) for folder in (model.folder, root) if folder is not None]
        data.manifests = [find_manifest(name, folders) for name in data.manifests]
    if list(data.labels) != list(model.labels):
        names = sorted(set(data.labels) - set(model.labels)) or sorted(set(model.labels) - set(data.labels))
        which = ", ".join(map(shown, names)) or "in their order"
        raise InputError(f"classes of the data and of the model differ: {which}")
    return data


def reads_files(data: Any) -> bool:
    """Whether a data set, or the source of its words, has a folder or manifests; others are generated."""
    if place_of(type(data)) or getattr(data, "manifests", ()):
        return True
    return hasattr(data, "source") and reads_files(data.source)


def place_of(data_class: type) -> str | None:
    """The argument that says where the files of a data set are; `None` if it has none."""
    if issubclass(data_class, HuggingFaceData):
        return "path"
    return "root" if "root" in inspect.signature(data_class).parameters else None


def is_inside(folder: Any) -> bool:
    """Whether a folder's path is relative and has no `..`, so that it stays in its parent; true if it is no text."""
    return not isinstance(folder, str) or not (Path(folder).is_absolute() or ".." in Path(folder).parts)


def find_manifest(name: str, folders: Sequence[Path]) -> str:
    """A manifest that a card names: one of the package as it is, or a file of that name in one of the folders."""
    if manifest_file(name).parent == MANIFESTS and "/" not in name:
        return name
    name = Path(name).name  # where it was in training does not matter, and a card must not name files elsewhere
    for folder in folders:
        file = folder / name
        if file.is_file() and file.resolve().is_relative_to(folder.resolve()):
            return str(file)
    places = " or ".join(map(str, folders))
    raise FileNotFoundError(f"the card's manifest {name} is not in {places}; put it there, with its SHA256SUMS")


def build_data(description: dict[str, Any], kind: type, root: str | None, trust: Sequence[str] = ()) -> Any:
    """Build the data set, or the source of words of one, that a `class_path` and its `init_args` describe.

    The class must be a subclass of `kind`. `root` is a folder; `None` is the class's default.
    """
    class_path, arguments = description["class_path"], dict(description.get("init_args") or {})
    package, _, name = class_path.rpartition(".")
    if package == "vitspeech":
        data_class = getattr(vitspeech.data, name) if name in vitspeech.data.__all__ else None
    else:
        data_class = None if is_known(class_path) else import_trusted(class_path, trust)
    if not (isinstance(data_class, type) and issubclass(data_class, kind)):
        raise InputError(f"the card's data {class_path!r} is not a data set (a subclass of {kind.__name__})")
    for argument, value in arguments.items():
        if argument in USERS_OWN:
            raise InputError(f"the card's data has {argument}={shown(value)}, which a card must not set")
        if argument in FOLDERS and not all(map(is_inside, value if isinstance(value, list) else [value])):
            raise InputError(f"the card's data has {argument}={shown(value)}, not a folder in --data")
    if "source" in arguments:
        if not is_class(arguments["source"]):
            raise InputError(f"the card's source={shown(arguments['source'])} has no class_path")
        arguments["source"] = build_data(arguments["source"], WordSource, root, trust)
    if package == "vitspeech":
        # A class takes the arguments of its base classes, too.
        bases = [base for base in reversed(data_class.__mro__) if base.__module__.startswith("vitspeech.")]
        hints = {name: kind for base in bases for name, kind in get_type_hints(base.__init__).items()}
        check_types(arguments, hints, f"the card's data {class_path}: ")
    if place := place_of(data_class):
        if root is None and inspect.signature(data_class).parameters[place].default is inspect.Parameter.empty:
            known = f"; the card says {shown(arguments[place])}" if place in arguments else ""
            raise InputError(f"name the folder of the data with --data: {name} has no default{known}")
        arguments[place] = root  # not what the card says: it starts no download
    try:
        return data_class(**arguments)
    except TypeError as error:  # unknown arguments
        raise InputError(f"the card's data {class_path}: {error}") from error
