"""Releasing a finished run: its folder, the README.md that the Hugging Face Hub shows, the results of other seeds."""

import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from vitspeech.checkpoint.card import METRICS
from vitspeech.checkpoint.model import CARD, HALF, RUN_FILES, Model, load, read_card, save
from vitspeech.checkpoint.multi_seed import OF_AUTO, add_seeds, read_recipe, result
from vitspeech.errors import InputError
from vitspeech.files import check_links, read_text, write_text


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
    check_links(run, ["model", *RUN_FILES])  # whose contents are about to be published
    return load(run, trust=trust)


README = "README.md"
SHOWN = ("metrics", "split", "parameters", "seeds", "minutes", "hardware", "commit")  # of a card
LIBRARY = "vitspeech"
ON_HUB = {"SpeechCommands": "google/speech_commands", "Keywords": "google/speech_commands"}
CIFAR = {10: "uoft-cs/cifar10", 100: "uoft-cs/cifar100"}
TRANSCRIBING = {"vitspeech.Recognition", "vitspeech.Transcription"}
PRETRAINING = {"vitspeech.MaskedPrediction"}
LABELING = {"vitspeech.Labeling"}


def write_readme(
    model: Model, folder: str | Path, *, license: str | None = None, repository: str | None = None
) -> Path:
    """Write the README.md of a released model, and return it.

    `license` is an SPDX name, such as `apache-2.0`; `repository` is `user/name`, for the line that loads the model.
    """
    file = Path(folder, README)
    if missing := [key for key in SHOWN if key not in model.card]:
        raise InputError(f"{Path(folder, CARD)}: has no {', '.join(missing)}, which {README} shows")
    write_text(readme(model, license, repository), file)
    return file


def check_readme(folder: str | Path) -> str | None:
    """Refuse to replace a README.md that somebody else wrote; else return the license that it names."""
    file = Path(folder, README)
    if Path(folder).is_dir():
        check_links(folder, [README, CARD])
    if not file.exists():
        return None
    before = front_matter(read_text(file))
    if before.get("library_name") != LIBRARY:
        raise InputError(f"{file}: not written by vitspeech release, which would replace it; move it elsewhere")
    return before.get("license")


def front_matter(text: str) -> dict[str, Any]:
    """The mapping between the two lines `---` at the beginning of a README.md; empty if there is none."""
    if not text.startswith("---\n") or "\n---\n" not in text:
        return {}
    try:
        content = yaml.safe_load(text[4:].partition("\n---\n")[0])
    except yaml.YAMLError:
        return {}
    return content if isinstance(content, dict) else {}


def readme(model: Model, license: str | None = None, repository: str | None = None) -> str:
    """The text of a README.md; arguments as in `write_readme`."""
    card, pipeline, dataset = model.card, pipeline_tag(model), dataset_on_hub(model.card.get("data", {}))
    name = card.get("name", "model")
    metrics = [
        {"type": METRICS[key].on_hub, "name": METRICS[key].text, "value": round(value, 4)}
        for key, value in card["metrics"].items()
        if key in METRICS
    ]
    result = {
        **({"task": {"type": pipeline}} if pipeline else {}),
        "dataset": {"name": dataset_name(card), "type": dataset or dataset_name(card).lower(), "split": card["split"]},
        "metrics": metrics,
    }
    content = {
        "library_name": LIBRARY,
        "pipeline_tag": pipeline,
        "license": license,
        "tags": [LIBRARY],
        "datasets": [dataset] if dataset else None,
        "metrics": list(dict.fromkeys(metric["type"] for metric in metrics)),
        "model-index": [{"name": name, "results": [result]}] if metrics else None,
    }
    front = yaml.safe_dump({key: value for key, value in content.items() if value}, sort_keys=False, allow_unicode=True)
    parts = (f"# {name}", summary(model), use(model, repository), results(card), training(card), limits(model))
    return f"---\n{front}---\n\n" + "\n\n".join(parts) + "\n"


def pipeline_tag(model: Model) -> str | None:
    """What the model does, in the hub's words; `None` for tasks on symbols."""
    if "image" in model.preprocessing:
        return "image-classification"
    if "symbols" in model.preprocessing:
        return None
    if model.task in PRETRAINING:
        return "feature-extraction"
    return "automatic-speech-recognition" if model.task in TRANSCRIBING else "audio-classification"


def dataset_on_hub(data: dict[str, Any]) -> str | None:
    """The data set of a card under its name on the hub, if it is there."""
    name, arguments = data.get("class_path", "").rpartition(".")[2], data.get("init_args") or {}
    if name == "Cifar":
        return CIFAR.get(arguments.get("classes", 10))
    if isinstance(arguments.get("source"), dict):
        return dataset_on_hub(arguments["source"])
    return ON_HUB.get(name)


def dataset_name(card: dict[str, Any]) -> str:
    """The class of the data set of a card."""
    return card.get("data", {}).get("class_path", "unknown").rpartition(".")[2]


def summary(model: Model) -> str:
    """What the model is, in two sentences."""
    network = model.config["class_path"].rpartition(".")[2]
    millions = f"{model.card['parameters'] / 1e6:.2f} million parameters"
    text = f"A `{network}` of vitspeech with {millions}, trained on `{dataset_name(model.card)}`."
    if "symbols" in model.preprocessing:
        return text
    takes = (
        f"images of {model.preprocessing['image']} × {model.preprocessing['image']} pixels"
        if "image" in model.preprocessing
        else f"speech at {model.preprocessing['sample_rate_hz'] / 1000:g} kHz"
    )
    if model.task in PRETRAINING:
        return f"{text} It takes {takes}; it is a start for the training of a recognizer, and has no labels."
    units = "units" if "units" in model.preprocessing else "labels"
    listed = ", ".join(f"`{label}`" for label in model.labels[:20]) + (", …" if len(model.labels) > 20 else "")
    return f"{text} It takes {takes}; its {len(model.labels)} {units} are {listed}."


def use(model: Model, repository: str | None) -> str:
    """How to load and run it."""
    name = "hf-hub:" + (repository or f"USER/{model.card.get('name', 'NAME')}")
    if "symbols" in model.preprocessing:
        call, command = 'vitspeech.transcribe_symbols(model, ["…"])', f'vitspeech transcribe {name} --symbols "…"'
    elif model.task in PRETRAINING:
        call, command = "model.network.encoder", f"vitspeech train --config mine.yaml --init_from {name}"
    elif model.task in TRANSCRIBING:
        call, command = 'list(vitspeech.transcribe(model, ["talk.wav"]))', f"vitspeech transcribe {name} talk.wav"
    else:
        file = "image.jpg" if "image" in model.preprocessing else "word.wav"
        call, command = f'list(vitspeech.predict(model, ["{file}"]))', f"vitspeech predict {name} {file}"
    lines = ["import vitspeech", "", f'model = vitspeech.load("{name}")', f"print({call})"]
    streams = model.card.get("delay_ms") is not None
    if model.task in LABELING:
        command = f"vitspeech stream {name} talk.wav" if streams else f"vitspeech evaluate {name} --data ROOT"
        lines = labeling_code(name, model.preprocessing["sample_rate_hz"], streams)
    elif streams and model.task not in PRETRAINING:
        lines += [f"stream = vitspeech.stream(model)  # rows of logits {model.card['delay_ms']:.0f} ms after the sound"]
    code = "\n".join(lines)
    place = "The name of a folder with these files works in its place; both are checked against `card.json`."
    return f"## Use\n\n```python\n{code}\n```\n\n```bash\n{command}\n```\n\n{place}"


def labeling_code(name: str, rate_hz: int, streams: bool) -> list[str]:
    """The lines that print the words of a recording; of a model that can't be streamed, they compute its logits."""
    read = f'samples = torch.from_numpy(soundfile.read("talk.wav", dtype="int16")[0])  # mono, {rate_hz} Hz'
    use = [f"for word in vitspeech.LabelStream(model).words(samples.split({rate_hz // 10})):", "    print(word)"]
    if not streams:
        use = ["logits = model.network.forward_frames(samples[None] / 32768)  # (1, frames, labels and none)"]
    imports = ["import soundfile", "import torch", "import vitspeech", ""]
    return [*imports, f'model = vitspeech.load("{name}")', read, *use]


def results(card: dict[str, Any]) -> str:
    """The table of metrics, with intervals where the card has them."""
    lines = ["## Results", "", "| metric | value | 95 % interval |", "|---|---|---|"]
    sets = [(card["metrics"], ""), *((also, f" on {name}") for name, also in card["metrics"].get("also", {}).items())]
    for metrics, where in sets:
        known = [key for key in metrics if key in METRICS]  # the first one is the main metric
        for key in known:
            interval = metrics.get(interval_key(key, is_main=key == known[0]))
            bounds = " – ".join(f"{100 * bound:.2f}" for bound in interval) + " %" if interval else ""
            spread = ""
            if f"{key}_sd" in metrics:
                spread = f" (mean {100 * metrics[f'{key}_mean']:.2f} ± {100 * metrics[f'{key}_sd']:.2f} %)"
            lines.append(f"| {METRICS[key].text}{where} | {100 * metrics[key]:.2f} %{spread} | {bounds} |")
    over = card["metrics"].get("interval_over")
    intervals = f" Intervals are over {over}." if over else ""
    return "\n".join(lines) + f"\n\nMeasured on the {card['split']} split of `{dataset_name(card)}`.{intervals}"


def interval_key(metric: str, *, is_main: bool) -> str:
    """The key of a metric's interval: `interval_95` for word error rates and the main accuracy, else with a prefix."""
    if metric == "word_error_rate" or (is_main and not metric.endswith("_error_rate")):
        return "interval_95"
    return f"{metric.removesuffix('_accuracy').removesuffix('_error_rate')}_interval_95"


def training(card: dict[str, Any]) -> str:
    """Where the weights come from."""
    first, *others = card["seeds"]
    seeds = f"Seed {first}" + (f" (the mean is over it and {', '.join(map(str, others))})" if others else "")
    versions = ", ".join(f"{name} {version}" for name, version in card.get("versions", {}).items())
    facts = f"{seeds}; {card['minutes']:.0f} minutes on {card['hardware']}; commit `{card['commit']}`; {versions}."
    splits = ", ".join(f"{name} {split['items']:,}" for name, split in card.get("splits", {}).items())
    facts += precisions(card)
    facts += f" Items of the splits: {splits}." if splits else ""
    facts += f" Training started from {card['starts_from']}." if "starts_from" in card else ""
    for source in card.get("weights_from", ()):
        facts += f" The weights of `{source['file']}` are not in this folder, and not among the parameters: they are "
        facts += f"read from the installed package `{source['package']}`."
    is_joint = card.get("recipe", {}).get("model.class_path") == "vitspeech.JointRecognition"
    facts += " It was trained together with a decoder, which is left out." if is_joint else ""
    facts += f" Distilled from {', '.join(card['teachers'])}." if "teachers" in card else ""
    if "weights" in card:
        exact = ", those of the other seeds are of float32 weights" if others else ""
        facts += f" The weights were rounded to float16; the results are of the rounded ones{exact}."
    checksums = " and checksums of its splits" if splits else ""
    return f"## Training\n\n{facts} `card.json` has the arguments of the data set{checksums}."


def precisions(card: dict[str, Any]) -> str:
    """A sentence about the precision of each seed if they differ; else an empty text."""
    seeds = {name: [run["seed"] for run in card.get("runs", ()) if run.get("precision") == name] for name in OF_AUTO}
    if not all(seeds.values()):
        return ""
    parts = (f"{name} ({', '.join(map(str, numbers))})" for name, numbers in seeds.items())
    return f" Precision by seed: {', '.join(parts)}."


def limits(model: Model) -> str:
    """What the numbers do not say."""
    lines = [f"- The numbers are of the {model.card['split']} split of one data set; other data give others."]
    if model.task in TRANSCRIBING:
        lines.append(
            "- It knows the units listed above; what lies outside of them is transcribed with them, or left out."
        )
    elif model.task in LABELING:
        lines.append("- Other words are labeled as one of these, or as none.")
    elif "symbols" not in model.preprocessing and model.task not in PRETRAINING:
        lines.append("- Every input gets one of the labels above, whatever it shows or says.")
    if model.card.get("delay_ms") is not None and "look_ahead_ms" in model.card:
        lines.append(f"- As a stream, an output comes {model.card['delay_ms']:.0f} ms after the sound that it is for.")
    return "## Limits\n\n" + "\n".join(lines)
