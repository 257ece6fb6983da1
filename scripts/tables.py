#!/usr/bin/env python3
"""The tables of numbers in README.md, docs/ and checkpoints/README.md, generated from cards and reports.

    python scripts/tables.py            # rewrite the tables
    python scripts/tables.py --check    # exit with status 1 and the names of files whose tables are out of date

A table stands between the lines `<!-- table: NAME -->` and `<!-- /table -->`, where NAME is a key of `TABLES`.
The signatures and docstrings of a module stand between `<!-- api: MODULE -->` and `<!-- /api -->`, see `api_pages.py`.
The cards are checkpoints/*/card.json, the reports docs/benchmark/*.json and docs/receptive/**/*.json.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import vitspeech
from api_pages import api
from vitspeech.checkpoint.models_table import of_all_starts, percentages, recognizes_words
from vitspeech.checkpoint.models_table import table as models_table
from vitspeech.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "checkpoints/README.md", "docs/**/*.md")
MARKED = re.compile(r"(<!-- (?P<kind>table|api): (?P<name>[\w.: -]+?) -->\n).*?(<!-- /(?P=kind) -->)", re.DOTALL)
IMAGES = {  # released model: its description and the configs it was trained with
    "vit-cifar10": ("ViT, convolutional stem, distilled from the CNN", "cifar10/vit cifar10/distilled"),
    "hybrid-cifar10": ("Hybrid of convolutions and ViT, distilled from the CNN", "cifar10/hybrid cifar10/distilled"),
    "cnn-cifar10": ("CNN, whitening first layer", "cifar10/cnn"),
}
SPEECH = {
    "speech-commands": ("Full attention", "speech_commands/full speech_commands/distilled"),
    "speech-commands-truncated": (
        "Truncated attention, 320 ms back and 80 ms ahead per layer",
        "speech_commands/truncated speech_commands/distilled",
    ),
    "speech-commands-causal": (
        "Causal attention, 320 ms back per layer",
        "speech_commands/causal speech_commands/distilled",
    ),
    "speech-commands-cnn": ("Residual convolutions", "speech_commands/cnn"),
}
KEYWORDS = {"keywords-12": ("Truncated attention and convolutions, from the encoder below", "keywords/truncated")}
SEQUENCES = {
    "spoken-words-ctc": ("Truncated attention, CTC trained with a decoder", "word_sequences/joint"),
    "spoken-words-attention": ("Full attention, decoder, joint with CTC", "word_sequences/attention"),
}
LABELS = {"spoken-words-labels": ("Truncated attention, a label per 10 ms", "word_sequences/labeling")}
WAKE_WORDS = {"wake-words": ("Truncated attention and convolutions, from the encoder below", "keywords/wake-words")}
STARTS = {"speech-encoder": ("Truncated attention and convolutions, CTC; spotters start from it", "speech_encoder")}
READING = {"librispeech-5h-ctc": ("Truncated attention and convolutions, CTC", "librispeech/ctc")}
TASKS = {
    "CIFAR-10": IMAGES,
    "12 words": SPEECH,
    "12 words among others": KEYWORDS,
    "two phrases among others": WAKE_WORDS,
    "sentences of nine speakers": STARTS,
    "1–7 words": SEQUENCES,
    "1–7 words, start and end": LABELS,
    "read books": READING,
}
DETAILS = {  # pages of docs/
    "CIFAR-10": "results/images.md",
    "12 words": "results/speech.md",
    "12 words among others": "results/keywords.md",
    "two phrases among others": "results/keywords.md#wake-words",
    "sentences of nine speakers": "results/keywords.md#from-few-recordings",
    "1–7 words": "results/sequences.md",
    "1–7 words, start and end": "results/sequences.md#one-label-per-frame",
    "read books": "results/librispeech.md",
}
PURPOSES = {  # models of the front page, and what they do
    "vit-cifar10": "classifies images into ten classes, ViT",
    "cnn-cifar10": "classifies images into ten classes, CNN",
    "speech-commands-causal": "classifies twelve words, live, with the lowest latency",
    "keywords-12": "spots twelve words among everything else, live",
    "wake-words": 'spots "smart mirror" and "view glass", live',
    "speech-encoder": "starting point for spotters of your own words",
    "spoken-words-ctc": "transcribes sequences of the twelve words, live",
    "spoken-words-attention": "transcribes sequences of the twelve words",
    "spoken-words-labels": "finds starts and ends of the twelve words, live",
    "librispeech-5h-ctc": "transcribes read English, roughly",
}
METRICS = {  # others: accuracy
    "1–7 words": ("WER", "word_error_rate"),
    "1–7 words, start and end": ("F1", "word_f1"),
    "read books": ("CER", "character_error_rate"),
    "sentences of nine speakers": ("CER", "character_error_rate"),
}
AFTER_THE_END_MS = {  # of a word, the median of test words by `vitspeech spot`; docs/results/keywords.md says of which
    "keywords-12": 421,
    "wake-words": 391,
    "speech-commands-truncated": 567,
}
NETWORKS = {  # configs of the distance probe, as its table names them
    "two_marks/vit": "ViT",
    "two_marks/cnn": "CNN",
    "two_marks/vit-without-attention": "ViT without attention",
}
Rows = Iterator[Sequence[str]]
Table = tuple[list[str], list[list[str]]]  # header and rows
REPLACEMENTS = ("mean", "blur", "shuffle")
MAIN_SIZES = (32, 1.0)  # px or s
NUMBERS = {
    "side_50": "50 % of the energy",
    "side_90": "90 % of the energy",
    "span_50": "50 % of the energy",
    "span_90": "90 % of the energy",
    "back_90": "90 % of the past",
    "ahead_90": "90 % of the look-ahead",
} | {f"keeps_90_{name}": f"half-window, {name}" for name in REPLACEMENTS}


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite all tables of the checkout, or with `--check` only report those that are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with status 1 if a table is stale")
    options = parser.parse_args(arguments)
    stale = [path for path in pages() if path.read_text("utf-8") != updated(path.read_text("utf-8"))]
    for path in stale:
        print(f"{path.relative_to(ROOT)}{': tables are out of date' if options.check else ''}")
        if not options.check:
            path.write_text(updated(path.read_text("utf-8")), "utf-8")
    if stale and options.check:
        sys.exit("run: python scripts/tables.py")


def pages() -> list[Path]:
    """The files that may contain tables."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def updated(text: str) -> str:
    """A page with its tables made anew.

    Raises:
        InputError: If a table's name is unknown.
    """

    def replacement(match: re.Match) -> str:
        if match["kind"] == "api":
            return match[1] + "\n".join(api(match["name"])) + "\n" + match[4]
        if match["name"] not in TABLES:
            raise InputError(f"table {match['name']!r} is unknown; known: {', '.join(TABLES)}")
        return match[1] + "\n".join(TABLES[match["name"]]()) + "\n" + match[4]

    return MARKED.sub(replacement, text)


def markdown(header: Sequence[str], rows: Rows | Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def read(path: str) -> Any:
    """The content of a JSON file of the checkout."""
    return json.loads((ROOT / path).read_text("utf-8"))


def card(name: str) -> dict[str, Any]:
    """The card of a released model."""
    return read(f"checkpoints/{name}/card.json")


def all_models() -> list[str]:
    """Every released model, in alphabetical order."""
    return models_table([card(path.parent.name) for path in sorted((ROOT / "checkpoints").glob("*/card.json"))])


def front() -> list[str]:
    """One short row per model that the front page has."""

    def rows() -> Rows:
        for task, name in ((task, name) for task, models in TASKS.items() for name in models):
            if name not in PURPOSES:
                continue
            content = card(name)
            kind, key = METRICS.get(task, ("accuracy", "test_accuracy"))
            number = f"{kind} {'↓' if kind in ('WER', 'CER') else '↑'} {100 * content['metrics'][key]:.1f} %"
            megabytes = sum(file.stat().st_size for file in (ROOT / "checkpoints" / name).glob("*.safetensors")) / 1e6
            latency = f"{content['delay_ms']:.0f} ms" if content.get("delay_ms") else "–"
            size = f"{content['parameters'] / 1e6:.2f} M"
            yield f"[`{name}`](checkpoints/{name})", PURPOSES[name], size, f"{megabytes:.1f}", latency, number

    return markdown(["model", "what it does", "parameters", "MB", "latency", "on its test set"], rows())


def summary() -> list[str]:
    """One row per released model: its main metric, hardware and minutes."""

    def rows() -> Rows:
        for task, name in ((task, name) for task, models in TASKS.items() for name in models):
            content, (title, _) = card(name), TASKS[task][name]
            metrics = content["metrics"]
            kind, key = METRICS.get(task, ("accuracy", "test_accuracy"))
            if f"{key}_sd" in metrics:
                number = f"{100 * metrics[f'{key}_mean']:.2f} ± {100 * metrics[f'{key}_sd']:.2f} %"
                number += f" ({len(content['seeds'])} seeds)"
            else:
                number = f"{100 * metrics[key]:.2f} %"
            link = f"[`{name}`]({DETAILS[task]})"
            hardware = ", ".join(of_all_starts(content, "hardware"))
            yield task, title, link, f"{kind} {number}", f"{content['minutes']:.0f} min, {hardware}"

    return markdown(["test set", "model", "checkpoint", "result", "training"], rows())


def latency() -> list[str]:
    """One row per released model that streams, in ms: from its card and its decoder, and measured."""

    def rows() -> Rows:
        for path in sorted((ROOT / "checkpoints").glob("*/card.json")):
            name, content = path.parent.name, card(path.parent.name)
            if content.get("look_ahead_ms") is None or name == "speech-encoder":  # a start for spotters
                continue
            words = vitspeech.load(path.parent).stream()
            decided_ms = 1000 * words.latency_samples / words.stream.sample_rate_hz
            times = (f"{number:.0f}" for number in (content["look_ahead_ms"], content["delay_ms"], decided_ms))
            yield f"`{name}`", *times, str(AFTER_THE_END_MS.get(name, "–"))

    return markdown(["ms", "look-ahead", "first output", "first decision", "after the word's end"], rows())


def results(models: Mapping[str, tuple[str, str]]) -> list[str]:
    """One row per model of one task, with all its metrics."""

    def rows() -> Rows:
        for name, (title, configs) in models.items():
            content = card(name)
            metrics = content["metrics"]
            numbers, spreads = percentages(metrics)
            if "word_error_rate" in metrics:
                numbers = ", ".join(error_rates(metrics))
            seeds = f"{spreads} ({len(content['seeds'])})" if spreads else "one seed"
            size = f"{content['parameters'] / 1e6:.2f} M"
            minutes = ", ".join((f"{content['minutes']:.0f}", *of_all_starts(content, "hardware")))
            config = ", ".join(f"`{config}`" for config in configs.split())
            yield title, config, size, numbers, seeds, minutes, f"`checkpoints/{name}`"

    header = ["model", "config", "parameters", "test set", "mean ± sd (seeds)", "minutes, hardware", "checkpoint"]
    return markdown(header, rows())


def error_rates(metrics: dict[str, Any]) -> Iterator[str]:
    """Word error rates with their intervals, one per test set; that of characters first if they are the units."""
    for name, numbers in {metrics["test_set"]: metrics, **metrics.get("also", {})}.items():
        low, high = (100 * bound for bound in numbers["interval_95"])
        words = f"{100 * numbers['word_error_rate']:.2f} % ({low:.1f}–{high:.1f})"
        if not recognizes_words(metrics):
            low, high = (100 * bound for bound in numbers["character_interval_95"])
            yield f"CER {100 * numbers['character_error_rate']:.2f} % ({low:.1f}–{high:.1f}), WER {words}"
        else:
            yield f"{words} on {name.removeprefix('speech-commands-').replace('-', '–')} words"


def receptive(kind: str, table: Callable[[dict[str, Any]], Table]) -> list[str]:
    """One table of a report on receptive fields; `kind` is `pictures` or `speech`."""
    return markdown(*table(read(f"docs/receptive/{kind}/metrics.json")))


def fields_table(metrics: dict[str, Any]) -> Table:
    """The fields of the last layer, one row per model: trained, before training, and at the second size."""
    rows = []
    images = metrics["models"][0]["unit"] == "px"
    for model in metrics["models"]:
        states = {(state["trained"], state["size"] in MAIN_SIZES): state["layers"][-1] for state in model["states"]}
        trained, larger, untrained = states[True, True], states[True, False], states[False, True]
        reach, cells = trained["theoretical_reach"], [f"`{model['name']}`"]
        if images:
            cells.append("unlimited" if None in reach else f"{sum(reach) + 1:.0f}")
            shown = [(trained, "side_50"), (trained, "side_90")]
            shown += [(untrained, "side_50"), (untrained, "side_90"), (larger, "side_50"), (larger, "side_90")]
        else:
            cells.append(", ".join("unlimited" if side is None else f"{side:,.0f}" for side in reach))
            shown = [(trained, name) for name in ("back_90", "ahead_90", "span_50", "span_90")]
            shown += [(untrained, "span_90"), (larger, "span_90")]
        rows.append([*cells, *(beside_uniform(layer, name, 1 if images else 0) for layer, name in shown)])
    if images:
        extents = [f"{part} %{state}" for state in ("", " before training", " at 48 px") for part in (50, 90)]
        return ["last layer, px", "theoretical", *extents], rows
    sides = ["90 % of the past", "90 % of the look-ahead", "50 % (span)", "90 % (span)"]
    return ["last layer, ms", "theoretical: back, ahead", *sides, "90 % before training", "90 % at 1.5 s"], rows


def windows_table(metrics: dict[str, Any]) -> Table:
    """The window that keeps 90 % of the accuracy for each replacement of the rest, one row per model."""
    unit = metrics["models"][0]["unit"]
    rows = []
    for model in metrics["models"]:
        kept = model["visible"][f"keeps_90_{unit}"]
        accuracy = 100 * model["visible"]["accuracy"]["mean"][-1]
        numbers = [with_interval(kept[name], 1 if unit == "px" else 0) for name in REPLACEMENTS]
        rows.append([f"`{model['name']}`", f"{accuracy:.1f} %", *numbers])
    return [f"half-window for 90 % of the accuracy, {unit}", "accuracy", *REPLACEMENTS], rows


def differences_table(metrics: dict[str, Any]) -> Table:
    """The paired differences between models, one row per pair and number that is reported in the text."""
    unit = metrics["models"][0]["unit"]
    digits, shown = (1, ("side_50", "side_90")) if unit == "px" else (0, ("span_90",))
    rows = []
    for pair in metrics["differences"]:
        if pair["kind"] != "models":
            continue
        low, high = (f"{end:,.0f}".replace("-", "−") for end in pair["offsets"])
        models = [f"`{pair[place]['name']}`" for place in ("first", "second")]
        for name, numbers in pair["numbers"].items():
            if name not in shown and not name.startswith("keeps"):
                continue
            what = NUMBERS[name] + (f", {low} to {high} {unit}" if name in shown else "")
            values = [f"{numbers[place][0]:,.{digits}f}" for place in ("first", "second")]
            rows.append([*models, what, *values, signed(numbers["difference"], digits)])
    return ["first", "second", f"number, {unit}", "first", "second", "first − second"], rows


def beside_uniform(layer: dict[str, Any], name: str, digits: int) -> str:
    """A number of a layer with its interval, and that of a uniform field."""
    uniform = layer["uniform"]["cumulative"][name]
    return f"{with_interval(layer['cumulative'][name], digits)}; {uniform:,.{digits}f}"


def with_interval(numbers: Sequence[float], digits: int) -> str:
    """A number with its 95 % interval."""
    value, low, high = (f"{number:,.{digits}f}" for number in numbers)
    return f"{value} ({low}–{high})"


def signed(numbers: Sequence[float], digits: int) -> str:
    """A difference with its 95 % interval."""
    value, low, high = (f"{round(number, digits) + 0:+,.{digits}f}".replace("-", "−") for number in numbers)
    return f"{value} ({low} to {high})"


def probe() -> list[str]:
    """Accuracy on two marks: one row per network, one column per distance."""
    cells = {(row["config"], row["distance_px"]): row["accuracy"] for row in read("docs/receptive/probe.json")["rows"]}
    distances = sorted({distance for _, distance in cells})
    rows = (
        [f"{title}, `{config}`", *(f"{100 * cells[config, distance]:.1f}" for distance in distances)]
        for config, title in NETWORKS.items()
    )
    return markdown(["test accuracy, %", *(f"{distance:g} px" for distance in distances)], rows)


def probe_seeds() -> list[str]:
    """Mean and standard deviation over seeds at the largest distance, as a sentence."""
    rows = read("docs/receptive/probe-13px.json")["rows"]
    values = [100 * row["accuracy"] for row in rows]
    number = f"{mean(values):.1f} ± {stdev(values):.1f} %"
    return [f"At {rows[0]['distance_px']:g} px the ViT has {number} over {len(rows)} seeds; the table shows the first."]


def benchmark_attention() -> list[str]:
    """Truncated attention: milliseconds of ours, the factor of every other implementation, peak memory."""
    report = read("docs/benchmark/attention.json")
    memory = {(cell["tokens"], cell["dtype"], cell["variant"]): cell.get("extra_mib") for cell in report["memory"]}
    others = ("full", "dense mask", "local-attention", "LSTM", "convolution")

    def rows() -> Rows:
        for cell in (cell for cell in report["cells"] if cell["pass"] == "forward+backward"):
            tokens, dtype, times = cell["tokens"], cell["dtype"], cell["times"]
            factors = [f"{times[other]['ratio']:.1f}" if other in times else "–" for other in others]
            sizes = [memory[tokens, dtype, name] for name in ("ours", "full", "local-attention")]
            peak = " / ".join("–" if size is None else f"{size:,.0f}" for size in sizes)
            yield f"{tokens:,}", dtype, f"{times['ours']['median_ms']:.1f}", *factors, peak

    return markdown(["T", "dtype", "ours, ms", *others, "MiB: ours / full / local-attention"], rows())


def benchmark_layer() -> list[str]:
    """One layer of full attention: milliseconds of each implementation."""
    cells = read("docs/benchmark/layer.json")["cells"]
    rows = (
        [str(cell["tokens"]), cell["dtype"], *(f"{time['median_ms']:.1f}" for time in cell["times"].values())]
        for cell in cells
    )
    return markdown(["T", "dtype", *(f"`{name}`" if name != "ours" else name for name in cells[0]["times"])], rows)


def benchmark_vit() -> list[str]:
    """One training step of a ViT: images/s of each implementation."""
    cells = read("docs/benchmark/vit.json")["cells"]
    names = cells[0]["times"]
    rows = ([name, *(f"{cell['times'][name]['images_per_second']:.0f}" for cell in cells)] for name in names)
    return markdown(["images/s", *(cell["dtype"] for cell in cells)], rows)


def benchmark_speech(part: str) -> list[str]:
    """Speech: `frontend` and reading, `networks` from waveform to logits, or a `stream` of an hour."""
    report = read("docs/benchmark/speech.json")
    if part == "frontend":
        log_mel = {f"log-mel, {name}": time for name, time in report["log_mel"]["times"].items()}
        times = (log_mel | report["reading"]["times"]).items()
        return markdown(["step", "clips/s"], ([name, f"{time['clips_per_second']:,.0f}"] for name, time in times))
    if part == "networks":
        columns = [cell["times"] for cell in report["classify"]]
        rows = (
            [
                name,
                *(f"{times[name]['clips_per_second']:,.0f} ({times[name]['log_mel_share']:.0%})" for times in columns),
            ]
            for name in ("full", "truncated", "causal", "cnn")
        )
        return markdown(["clips/s", *(cell["dtype"] for cell in report["classify"])], rows)
    rows = []
    for name in ("first", "last"):
        times = report["stream"]["stretches"][name]
        cells = (
            f"{times['real_time_factor']:.3f}",
            f"{times['all_but_one_in_1000_ms']:.1f}",
            f"{times['state_bytes']:,}",
        )
        rows.append([f"{name} minute", *cells, f"{times['resident_bytes'] / 2**20:,.0f}"])
    header = [
        "part of the hour",
        "real-time factor",
        "99.9 % of pushes take at most, ms",
        "state, bytes",
        "process, MiB",
    ]
    return markdown(header, rows)


TABLES: dict[str, Callable[[], list[str]]] = {
    "models": all_models,
    "front": front,
    "summary": summary,
    "latency": latency,
    "images": lambda: results(IMAGES),
    "speech": lambda: results(SPEECH),
    "keywords": lambda: results(KEYWORDS),
    "sequences": lambda: results(SEQUENCES),
    "labels": lambda: results(LABELS),
    "reading": lambda: results(READING),
    "receptive-images": lambda: receptive("pictures", fields_table),
    "receptive-images-windows": lambda: receptive("pictures", windows_table),
    "receptive-images-differences": lambda: receptive("pictures", differences_table),
    "receptive-speech": lambda: receptive("speech", fields_table),
    "receptive-speech-windows": lambda: receptive("speech", windows_table),
    "receptive-speech-differences": lambda: receptive("speech", differences_table),
    "probe": probe,
    "probe-seeds": probe_seeds,
    "benchmark-attention": benchmark_attention,
    "benchmark-layer": benchmark_layer,
    "benchmark-vit": benchmark_vit,
    "benchmark-speech-frontend": lambda: benchmark_speech("frontend"),
    "benchmark-speech-networks": lambda: benchmark_speech("networks"),
    "benchmark-speech-stream": lambda: benchmark_speech("stream"),
}

if __name__ == "__main__":
    main()
