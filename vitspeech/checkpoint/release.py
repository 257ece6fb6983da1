"""From a finished run to a released model, and from its card back to the data it was measured on."""

import inspect
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import vitspeech.data
from vitspeech import checkpoint
from vitspeech.data.module import InMemoryData
from vitspeech.data.utterances.word_clips import WordSource

SHOWN = ("learning_curves.png", "confusion_matrix.png", "errors.txt")  # of which a run has what its task gives


def release(run: str | Path, folder: str | Path, others: Sequence[str | Path] = ()) -> dict[str, Any]:
    """Write a run's final weights as a released model, and list it in the table beside it.

    Args:
        run: A finished run.
        folder: Where the released model goes: `checkpoints/NAME`.
        others: Runs of the same config with other seeds; the card gets mean and deviation over all of them.

    Returns:
        The card.

    Raises:
        FileNotFoundError: If a run is not finished.
        ValueError: If another run is of another network or data set, or of the same seed.
    """
    models = [load_finished(path) for path in (run, *others)]
    first = models[0]
    seeds = [seed for model in models for seed in model.card["seeds"]]
    for path, model in zip((run, *others), models, strict=True):
        if model.config != first.config or model.card["data"] != first.card["data"]:
            raise ValueError(f"{path}: another network or data set than {run}")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"the runs' seeds {seeds} are not all different")
    if others:
        first.card["metrics"] |= spread([model.card["metrics"] for model in models])
    first.card |= {"name": Path(folder).name, "seeds": seeds}
    checkpoint.save(first, folder)
    for file in (Path(run) / name for name in SHOWN):
        if file.exists():
            shutil.copy(file, folder)
    write_table(Path(folder).parent)
    return first.card


def spread(metrics: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean and standard deviation over runs of every accuracy and error rate that a card has."""
    found = {}
    for name in [name for name in metrics[0] if name.endswith(("_accuracy", "_error_rate"))]:
        values = [of_run[name] for of_run in metrics]
        found |= {f"{name}_mean": round(mean(values), 6), f"{name}_sd": round(stdev(values), 6)}
    return found


def load_finished(run: str | Path) -> checkpoint.Model:
    """The model of a run that came to its end."""
    if not (Path(run) / "model").is_dir():
        raise FileNotFoundError(f"{run}: no finished run (it has no model/); finish it with train.py --resume {run}")
    return checkpoint.load(run)


def write_table(folder: Path) -> None:
    """List every released model beside `folder/README.md`'s introduction, in a table made from the cards."""
    cards = [json.loads(path.read_text()) for path in sorted(folder.glob(f"*/{checkpoint.CARD}"))]
    readme = folder / "README.md"
    text = readme.read_text() if readme.exists() else "# Released models\n"
    introduction = text.partition("\n| model |")[0].rstrip()
    readme.write_text(f"{introduction}\n\n" + "\n".join(table(cards)) + "\n")


def table(cards: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of a Markdown table, one for each card."""
    lines = [
        "| model | parameters | test set | mean ± sd (seeds) | minutes | hardware | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for card in cards:
        shares, spreads = percentages(card["metrics"])
        seeds = f"{spreads} ({len(card['seeds'])})" if spreads else "one seed"
        numbers = f"{card['parameters'] / 1e6:.2f} M | {shares} | {seeds}"
        origin = f"{card['minutes']:.0f} | {card['hardware']} | `{card['commit']}`"
        lines.append(f"| `{card['name']}` | {numbers} | {origin} |")
    return lines


NAMES = {  # of a card's metrics, as tables say them
    "test_accuracy": "accuracy",
    "word_accuracy": "words alone",
    "character_error_rate": "CER",
    "word_error_rate": "WER",
    "frame_accuracy": "frames",
}


def percentages(metrics: dict[str, Any]) -> tuple[str, str]:
    """The accuracies or error rates of a card to be read, and their means and deviations over seeds ("" for one)."""
    known = {name: text for name, text in NAMES.items() if name in metrics}
    shares = [f"{text} {100 * metrics[name]:.2f} %" for name, text in known.items()]
    for test_set, others in metrics.get("also", {}).items():
        shares += [f"{text} {100 * others[name]:.2f} % on {test_set}" for name, text in known.items()]
    spreads = [
        f"{text} {100 * metrics[f'{name}_mean']:.2f} ± {100 * metrics[f'{name}_sd']:.2f} %"
        for name, text in known.items()
        if f"{name}_sd" in metrics
    ]
    return ", ".join(shares), ", ".join(spreads)


def card_data(model: checkpoint.Model, root: str | None) -> InMemoryData:
    """The data set that a model's card names, found under `root`.

    Raises:
        ValueError: If the card names no data set of vitspeech, or its labels are not the model's.
    """
    data = made_from(model.card["data"], InMemoryData, root)
    unknown = sorted(set(data.labels) - set(model.labels))
    if list(data.labels) != list(model.labels):
        named = ", ".join(unknown) or ", ".join(sorted(set(model.labels) - set(data.labels)))
        raise ValueError(f"classes of the data and of the model differ: {named}")
    return data


def made_from(description: dict[str, Any], kind: type, root: str | None) -> Any:
    """The data set, or the source of one, that `class_path: vitspeech.NAME` and `init_args` describe.

    Raises:
        ValueError: If there is none of that kind, or it needs a root that is not given.
    """
    package, _, name = str(description["class_path"]).rpartition(".")
    made = getattr(vitspeech.data, name, None) if package == "vitspeech" and name in vitspeech.data.__all__ else None
    if not (isinstance(made, type) and issubclass(made, kind)):
        raise ValueError(f"the card's data {description['class_path']!r} is no data set of vitspeech")
    arguments = dict(description["init_args"])
    if "source" in arguments:
        arguments["source"] = made_from(arguments["source"], WordSource, root)
    parameter = inspect.signature(made).parameters.get("root")
    if parameter is not None:
        if root is None and parameter.default is parameter.empty:
            raise ValueError(f"say where the data is with --data: {name} has no place of its own")
        arguments["root"] = root
    return made(**arguments)
