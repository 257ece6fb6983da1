"""Releasing a finished run, and building the data set that a model's card names."""

import inspect
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import vitspeech.data
from vitspeech.checkpoint.folder import CARD, Model, load, read_mapping, save
from vitspeech.checkpoint.items import TRAINING_ITEMS
from vitspeech.checkpoint.schema import check_arguments, check_card, is_class, shown
from vitspeech.data.files import write_text
from vitspeech.data.module import InMemoryData
from vitspeech.data.storage.format import PACK
from vitspeech.data.utterances.pieces import Pieces
from vitspeech.data.utterances.word_clips import WordSource
from vitspeech.data.utterances.word_sequences import MANIFESTS, manifest_file
from vitspeech.documents import read_text
from vitspeech.errors import InputError
from vitspeech.trust import check_trusted, import_trusted, is_known

RUN_ONLY = re.compile(  # keys of a config that do not change what is learned, apart from the seed
    r"^seed_everything$|^data\..*\b(seed|root|download|workers|storage|broken)$"
    r"|^trainer\.(accelerator|default_root_dir|log_every_n_steps|enable_\w+|logger|profiler)(\.|$)"
)
USERS_OWN = {"root", "download", "workers", "storage", "broken", "speech"}  # arguments of data that a card never has
FILES = ("learning_curves.png", "confusion_matrix.png", "classes.csv", "errors.txt", TRAINING_ITEMS)  # a run has some
FILES += ("speakers.csv", "lengths.csv", "errors.png", "cross_attention.png")


def release(
    run: str | Path, folder: str | Path, others: Sequence[str | Path] = (), *, trust: Sequence[str] = ()
) -> dict[str, Any]:
    """Write a run's final weights as a released model.

    Args:
        run: Folder of a finished run.
        folder: Folder of the released model: `checkpoints/NAME`.
        others: Runs of the same config with other seeds; the card gets mean and standard deviation over all runs.
        trust: Modules of your own whose classes the runs use.

    Returns:
        The card.

    Raises:
        FileNotFoundError: If a run is not finished.
        InputError: If the config of another run differs in more than the seed, or the seeds are not all different.
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
    if others:
        first.card["metrics"] |= spread([model.card["metrics"] for model in models])
    first.card |= {"name": Path(folder).name, "seeds": seeds}
    save(first, folder, sorted(first.folder.glob("*.jsonl")))
    for file in (Path(run) / name for name in FILES):
        if file.exists():
            shutil.copy(file, folder)
    return first.card


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


def write_table(folder: Path) -> Path:
    """Rewrite the table of released models in `folder/README.md` from their cards, and return that file.

    The text around the table is kept.

    Raises:
        InputError: If a card or `README.md` cannot be read, or a card lacks what a row shows.
    """
    cards = [read_card(path) for path in sorted(folder.glob(f"*/{CARD}"))]
    readme = folder / "README.md"
    text = read_text(readme) if readme.exists() else "# Released models\n"
    introduction, header, rest = text.partition("\n| model |")
    after = [line for line in rest.splitlines()[1:] if not line.startswith("|")]
    marked = introduction.endswith("-->")  # the table stands between the marks of vitspeech.tables
    before = introduction if header and marked else f"{introduction.rstrip()}\n"
    write_text("\n".join([before, *table(cards), *after]) + "\n", readme)
    return readme


def read_card(path: Path) -> dict[str, Any]:
    """A card with all entries that a row of the table shows.

    Raises:
        InputError: If it cannot be read, lacks one, or has one of another type.
    """
    card = read_mapping(path, ("name", "metrics", "parameters", "seeds", "minutes", "hardware", "commit"))
    try:
        check_card(card)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return card


def table(cards: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of a Markdown table with one row per card."""
    lines = [
        "| model | parameters | test set | mean ± sd (seeds) | minutes | hardware | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for card in cards:
        values, spreads = percentages(card["metrics"])
        seeds = f"{spreads} ({len(card['seeds'])})" if spreads else "one seed"
        numbers = f"{card['parameters'] / 1e6:.2f} M | {values} | {seeds}"
        commits = ", ".join(f"`{commit}`" for commit in of_all_starts(card, "commit"))
        origin = f"{card['minutes']:.0f} | {', '.join(of_all_starts(card, 'hardware'))} | {commits}"
        lines.append(f"| `{card['name']}` | {numbers} | {origin} |")
    return lines


def of_all_starts(card: dict[str, Any], name: str) -> list[str]:
    """The commits, or the hardware, that a run was started and resumed with, each once."""
    return list(dict.fromkeys(start[name] for start in (card, *card.get("resumed", []))))


NAMES = {  # of the metrics on a card, as tables spell them
    "test_accuracy": "accuracy",
    "sequence_accuracy": "sequences",
    "word_accuracy": "words alone",
    "unknown_accuracy": "unknown",
    "unheard_accuracy": "unheard words",
    "character_error_rate": "CER",
    "word_error_rate": "WER",
    "frame_accuracy": "frames",
}


def percentages(metrics: dict[str, Any]) -> tuple[str, str]:
    """The accuracies or error rates of a card as text, and their mean ± standard deviation over seeds ("" for one)."""
    names = {name: text for name, text in NAMES.items() if name in metrics}
    if next(iter(metrics), "") == "word_error_rate":  # characters are not what the model recognizes
        names.pop("character_error_rate", None)
    values = [f"{text} {100 * metrics[name]:.2f} %" for name, text in names.items()]
    for test_set, others in metrics.get("also", {}).items():
        values += [f"{text} {100 * others[name]:.2f} % on {test_set}" for name, text in names.items()]
    spreads = [
        f"{text} {100 * metrics[f'{name}_mean']:.2f} ± {100 * metrics[f'{name}_sd']:.2f} %"
        for name, text in names.items()
        if f"{name}_sd" in metrics
    ]
    return ", ".join(values), ", ".join(spreads)


def card_data(model: Model, root: str | None, changes: Mapping[str, Any] | None = None) -> InMemoryData:
    """Build the data set that a model's card names, with its files under `root`.

    A card names no folders, starts no download, and names manifests of the package, or files beside the model or in
    `root`.

    Args:
        model: From `load`.
        root: The folder of the data set that the user names; `None` is the default of the data set's class.
        changes: Arguments of the data set in place of the card's, such as another test set.

    Raises:
        InputError: If the card names no data set, or one that is not of vitspeech and not in a module that the model
            was loaded with trust in; if an argument is not one that a card has; or if its labels are not the model's.
        FileNotFoundError: If there is no such manifest.
    """
    if "data" not in model.card:
        raise InputError("the card names no data set")
    description = model.card["data"]
    description = {**description, "init_args": description.get("init_args", {}) | dict(changes or {})}
    data = build_data(description, InMemoryData, root, model.trust)
    if "merges" in model.preprocessing:  # the pieces are those of the model, whatever transcripts there are
        data.labels, data.pieces = list(model.labels), Pieces(model.labels, model.preprocessing["merges"])
    if getattr(data, "manifests", ()):
        folders = [Path(folder) for folder in (model.folder, root) if folder is not None]
        data.manifests = [find_manifest(name, folders) for name in data.manifests]
    if list(data.labels) != list(model.labels):
        names = sorted(set(data.labels) - set(model.labels)) or sorted(set(model.labels) - set(data.labels))
        raise InputError(f"classes of the data and of the model differ: {', '.join(names) or 'in their order'}")
    return data


def is_inside(folder: Any) -> bool:
    """Whether a name, if there is one, is that of a folder in another one, whatever that is."""
    return not isinstance(folder, str) or not (Path(folder).is_absolute() or ".." in Path(folder).parts)


def find_manifest(name: str, folders: Sequence[Path]) -> str:
    """A manifest that a card names: one of the package as it is, or a file of that name in one of the folders.

    Raises:
        FileNotFoundError: If there is none.
    """
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

    Args:
        description: `class_path: vitspeech.NAME` or a class of a trusted module, and `init_args`.
        kind: The class must be a subclass of it.
        root: Folder of the files, or a pack of them; `None` is the class's default.
        trust: Modules of the user's own whose code may run.

    Raises:
        InputError: If the class is not trusted or not of that kind, or needs a root and `root` is `None`.
    """
    class_path = description["class_path"]
    package, _, name = class_path.rpartition(".")
    if class_path.startswith("vitspeech."):
        data_class = (
            getattr(vitspeech.data, name) if package == "vitspeech" and name in vitspeech.data.__all__ else None
        )
    else:
        check_trusted(class_path, trust)
        data_class = None if is_known(class_path) else import_trusted(class_path, trust)
    if not (isinstance(data_class, type) and issubclass(data_class, kind)):
        raise InputError(f"the card's data {class_path!r} is not a data set (a subclass of {kind.__name__})")
    arguments = dict(description.get("init_args") or {})
    for argument, value in arguments.items():
        if argument in USERS_OWN:
            raise InputError(f"the card's data has {argument}={shown(value)}, which is not for a card to say")
    if not is_inside(arguments.get("recordings")):
        raise InputError(f"the card's data has recordings={shown(arguments['recordings'])}, not a folder in --data")
    if "source" in arguments:
        if not is_class(arguments["source"]):
            raise InputError(f"the card's source={shown(arguments['source'])} has no class_path")
        arguments["source"] = build_data(arguments["source"], WordSource, root, trust)
    if class_path.startswith("vitspeech."):
        check_arguments(data_class, arguments)
    parameter = inspect.signature(data_class).parameters.get("root")
    if parameter is not None:
        if root is None and parameter.default is parameter.empty:
            raise InputError(f"name the folder of the data with --data: {name} has no default")
        arguments["root"] = root
        if root is not None and issubclass(data_class, InMemoryData) and (Path(root) / PACK).is_file():
            arguments["storage"] = root
    try:
        return data_class(**arguments)
    except TypeError as error:  # unknown arguments
        raise InputError(f"the card's data {class_path}: {error}") from error
