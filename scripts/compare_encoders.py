#!/usr/bin/env python3
"""Train seven encoders on spoken words with the same front end and recipe, and compare accuracy, cost and context.

python scripts/compare_encoders.py -o runs/encoders --data.root ROOT
python scripts/compare_encoders.py -o runs/others --words yes no stop left --seeds 0 1 2 --data.root ROOT
python scripts/compare_encoders.py -o runs/mine --configs encoders/full encoders/lstm mine.yaml --trainer.max_epochs 3

The encoders are full, truncated and causal attention, bidirectional and causal LSTM, convolutions, and a fully
connected window (configs/encoders). They are trained as by `vitspeech sweep`: FOLDER/ENCODER/seed-N is a run, the same
command resumes, finished runs count, and FOLDER gets the files of a sweep. Then the cost of each encoder is measured on
this machine; nothing else should run meanwhile.

FOLDER/encoders.md, encoders.csv, encoders.json   for each encoder: accuracy ± sd over the seeds, difference from the
                                                  first one, parameters, FLOPs, clips/s in training and inference,
                                                  streaming delay and real-time factor, effective field, path length
FOLDER/encoders.png                               accuracy against clips/s, with the delay of those that stream

Every other `--KEY VALUE` is an option of `vitspeech train` for every run.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks import measure
from benchmarks.encoders import measure_encoders
from vitspeech import checkpoint, command_line, data
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.checkpoint.model import Model, read_mapping
from vitspeech.commands.sweep import split_options
from vitspeech.errors import InputError
from vitspeech.files import write_csv, write_json, write_text
from vitspeech.inference.stream import AudioStream
from vitspeech.plots.style import BLUE, DARK_GRAY, VERMILION, plain
from vitspeech.receptive.fields.layer_numbers import effective_field_ms
from vitspeech.receptive.sample import validation_sample
from vitspeech.sweep.figure import DPI, axis_label
from vitspeech.sweep.plan import make_plan
from vitspeech.sweep.results import Summary, is_score, label, main_metric, read_rows, summarize
from vitspeech.sweep.runs import exit_with, list_runs, sweep
from vitspeech.sweep.table import difference_cell, score_cell
from vitspeech.training.config import config_chain, find_config, read_config

ENCODERS = [f"encoders/{name}" for name in ("full", "truncated", "causal", "bilstm", "lstm", "cnn", "window-mlp")]
OPTIONS = (
    *("--help", "--output", "--words", "--seeds", "--configs", "--dry-run", "--trust"),
    *("--batch", "--repeats", "--dtype", "--device", "--clips"),
)
NOTE = """\
Mean ± sample standard deviation over n seeds; differences are paired by seed, with the 95 % interval of Student's t.
Minutes are those of training. FLOPs are those of a second of sound from the log-mel frames on, a multiply-add as two.
Clips/s are those of batches of {batch} clips of {seconds:g} s in {dtype}, with forward and backward pass and a step of
AdamW in training; all networks are timed in turn. The delay is from the first sample of a token to its output in a
stream, the real-time factor the time to stream on one thread over the duration of the sound. The field is effective:
90 % of the gradient energy before (after) the center of a token lies within it, mean over the seeds; nothing beyond the
clips of {seconds:g} s is measured. The path is the number of operations between two tokens one second apart (Vaswani et
al. 2017, table 1).

Measured on {hardware}, commit {commit}."""
HEIGHT_POINTS = 270  # of the axes, about
LINE, LABEL = 0.07, 0.25  # height and width of a label, as fractions of the axes
Encoder = tuple[Summary, Mapping[str, float | None]]


@dataclass(frozen=True)
class EncoderRow:
    """One encoder of the comparison.

    Args:
        summary: Its test metrics over the seeds, parameters and minutes.
        cost: The numbers of `EncoderCost`: `flops_per_second`, `training_clips_per_second`, `clips_per_second`,
            `single_clips_per_second`, `delay_ms`, `real_time_factor` and `path_length`; the last three may be `None`.
        back_ms: Effective field before the center of a token, mean over the seeds.
        ahead_ms: The same after it.
        not_streamed: Why it can't be streamed; `None` if it can.
    """

    summary: Summary
    cost: Mapping[str, float | None]
    back_ms: float
    ahead_ms: float
    not_streamed: str | None

    def numbers(self, metric: str) -> dict[str, Any]:
        """All numbers by name, those of the test metrics from one main metric."""
        average, deviation = self.summary.scores[metric]
        difference = self.summary.difference
        low, high = (difference and difference.interval_95) or (None, None)
        return {
            "encoder": self.summary.variant,
            "n": len(self.summary.seeds),
            metric: average,
            f"{metric}_sd": deviation,
            "difference": difference and difference.mean,
            "difference_low": low,
            "difference_high": high,
            "parameters": self.summary.parameters,
            "minutes": self.summary.minutes,
            **self.cost,
            "field_back_ms": self.back_ms,
            "field_ahead_ms": self.ahead_ms,
            "not_streamed": self.not_streamed,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and measure the encoders: prints the progress and the table."""
    parser = command_line.parser("compare-encoders", __doc__, allow_abbrev=False)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of runs and results")
    parser.add_argument("--words", nargs="+", metavar="WORD", help="words to recognize; default: those of the configs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N", help="default 0 1 2")
    configs = "configs to compare; the first is the reference (default: the seven of configs/encoders)"
    parser.add_argument("--configs", nargs="+", default=ENCODERS, metavar="CONFIG", help=configs)
    parser.add_argument("--dry-run", action="store_true", help="check everything and list the runs; train nothing")
    parser.add_argument("--batch", type=int, default=128, help="clips in a batch when the cost is measured (128)")
    parser.add_argument("--repeats", type=int, default=5, help="times that each cost is measured (5)")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32", help="of the measured costs (fp32)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="for the measured costs (cpu)")
    parser.add_argument("--clips", type=int, default=64, help="validation clips for the effective field (64)")
    own, overrides = split_options(sys.argv[1:] if arguments is None else arguments, OPTIONS)
    options = parser.parse_args(own)
    command_line.check_folder(options.output)
    if options.words:
        overrides.append(f"--data.init_args.words={json.dumps(options.words, ensure_ascii=False)}")

    plan = make_plan(options.configs, options.seeds, options.output, overrides=overrides, trust=options.trust)
    for config in options.configs:
        refuse_utterances(config)
    note = partial(print, flush=True)
    if options.dry_run:
        list_runs(plan, note)
        return
    failures = sweep(plan, note)

    seeds = {variant.name: plan.seeds for variant in plan.variants}
    rows = [row for row in read_rows(plan.folder, seeds) if row.variant in seeds]
    names = ("batch", "repeats", "dtype", "device", "clips")
    settings = {name: getattr(options, name) for name in names}
    if summaries := summarize(rows):
        measured = measure_all(summaries, plan.folder, settings, plan.trust, note)
        settings |= measure.origin(options.device)
        note("")
        for line in write_encoders(measured, main_metric(rows), settings, plan.folder):
            note(line)
        note(f"\n{', '.join(str(plan.folder / f'encoders.{ending}') for ending in ('md', 'csv', 'json', 'png'))}")
    exit_with("compare-encoders", failures, plan)


def refuse_utterances(config: str) -> None:
    """Raise an InputError if a config names a data set of utterances, of which no clips are taken."""
    parts = [read_config(file).get("data") for file in config_chain(find_config(config))]
    names = [part["class_path"] for part in parts if isinstance(part, dict) and "class_path" in part]
    kind = getattr(data, str(names[-1]).rpartition(".")[2], None) if names else None
    if isinstance(kind, type) and issubclass(kind, data.UtteranceData):
        raise InputError(f"{config}: trains on the utterances of {kind.__name__}; give configs of classifiers of clips")


def measure_all(
    summaries: Sequence[Summary],
    folder: Path,
    settings: dict[str, Any],
    trust: Sequence[str],
    note: Callable[[str], None],
) -> list[EncoderRow]:
    """Measure the cost of each encoder's network of the first seed, and the field of those of all seeds.

    Args:
        summaries: The encoders.
        folder: The folder of the runs.
        settings: `batch`, `repeats`, `dtype`, `device` and `clips`; gets `seconds`, the length of a clip.
        trust: Modules of the user's own.
        note: Called with lines of text on the progress.

    Raises:
        InputError: If a network does not take waveforms, or the data have no validation clips.
    """
    networks, reaches, clips = {}, {}, None
    for summary in summaries:
        note(f"{summary.variant}: effective field")
        reaches[summary.variant] = []
        for seed in summary.seeds:
            run = folder / summary.variant / f"seed-{seed}"
            model = checkpoint.load(run, trust=trust)
            if not hasattr(model.network, "tokens"):
                raise InputError(f"{run}: {type(model.network).__name__} does not take waveforms")
            if clips is None:
                clips = validation_clips(model, run, settings["clips"])
                sample_rate_hz = model.network.tokens.log_mel.sample_rate_hz
                settings["seconds"] = clips.shape[1] / sample_rate_hz
            networks.setdefault(summary.variant, model.network)
            reaches[summary.variant].append(effective_field_ms(model.network, clips))
    note(f"measuring the cost of {len(networks)} encoders; nothing else should run meanwhile")
    with tqdm(unit="call", leave=False, mininterval=1, dynamic_ncols=True) as bar:
        costs = measure_encoders(
            networks,
            sample_rate_hz,
            seconds=settings["seconds"],
            batch=settings["batch"],
            repeats=settings["repeats"],
            dtype=settings["dtype"],
            device=settings["device"],
            note=lambda text: (bar.update(), bar.set_description(text, refresh=False)),
        )
    rows = []
    for summary in summaries:
        cost = asdict(costs[summary.variant])
        back, ahead = (mean(values) for values in zip(*reaches[summary.variant], strict=True))
        reason = why_not_streamed(networks[summary.variant]) if cost["delay_ms"] is None else None
        del cost["parameters"]  # the same as on the cards
        rows.append(EncoderRow(summary, cost, back, ahead, reason))
    return rows


def validation_clips(model: Model, run: Path, count: int) -> Tensor:
    """Validation clips of the data that a run was trained on, with words: samples within ±1 (B, N)."""
    arguments = read_mapping(run / "config.yaml", ("data",))["data"].get("init_args") or {}
    data = card_dataset(model, arguments.get("root", arguments.get("path")))
    return data.normalize(validation_sample(data, count).raw)


def why_not_streamed(network: nn.Module) -> str | None:
    """Why a network can't be streamed, in a few words; `None` if it can."""
    try:
        AudioStream(network)
    except InputError as error:
        return str(error).partition(": ")[2].partition(";")[0] or str(error)
    return None


def write_encoders(rows: Sequence[EncoderRow], metric: str, settings: Mapping[str, Any], folder: Path) -> list[str]:
    """Write the table of encoders and its figure.

    Args:
        rows: The encoders, the first one is the reference of differences.
        metric: The main metric.
        settings: How the costs were measured: `batch`, `seconds`, `dtype`, `hardware`, `commit`; others are written as
            they are.
        folder: Where the files are written.

    Returns:
        The lines of the table, with the reasons why encoders can't be streamed.
    """
    lines = encoder_lines(rows, metric)
    write_text("\n".join([*lines, "", NOTE.format_map(settings)]) + "\n", folder / "encoders.md")
    records = [row.numbers(metric) for row in rows]
    cells = [["" if value is None else value for value in record.values()] for record in records]
    write_csv(folder / "encoders.csv", list(records[0]), cells)
    content = {"metric": metric, "settings": dict(settings), "encoders": [asdict(row) for row in rows]}
    write_json(content, folder / "encoders.json")
    draw_encoders([(row.summary, row.cost) for row in rows], metric, folder / "encoders.png")
    return lines


def encoder_lines(rows: Sequence[EncoderRow], metric: str) -> list[str]:
    """The table as lines of Markdown."""
    first = rows[0].summary
    header = [
        "encoder",
        "n",
        f"{label(metric)}{', %' if is_score(metric) else ''}",
        *([f"minus {first.variant}"] if len(rows) > 1 else []),
        "parameters",
        "minutes",
        "MFLOPs per second of sound",
        "training, clips/s",
        "inference, clips/s",
        "delay, ms",
        "real-time factor",
        "field back / ahead, ms",
        "path",
    ]
    lines = [header, ["---"] * len(header)]
    for row in rows:
        cost = row.cost
        lines.append(
            [
                row.summary.variant,
                str(len(row.summary.seeds)),
                score_cell(metric, *row.summary.scores[metric]),
                *([difference_cell(row.summary, first, metric)] if len(rows) > 1 else []),
                f"{row.summary.parameters:,}",
                f"{row.summary.minutes:.1f}",
                f"{cost['flops_per_second'] / 1e6:.1f}",
                f"{cost['training_clips_per_second']:,.0f}",
                f"{cost['clips_per_second']:,.0f}",
                "—" if cost["delay_ms"] is None else f"{cost['delay_ms']:.0f}",
                "—" if cost["real_time_factor"] is None else f"{cost['real_time_factor']:.3f}",
                f"{row.back_ms:.0f} / {row.ahead_ms:.0f}",
                "no path" if cost["path_length"] is None else str(cost["path_length"]),
            ]
        )
    reasons = [f"{row.summary.variant}: not streamed, since {row.not_streamed}." for row in rows if row.not_streamed]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), *([""] if reasons else []), *(f"- {r}" for r in reasons)]


def draw_encoders(encoders: Sequence[Encoder], metric: str, path: Path) -> None:
    """Draw the mean and standard deviation of each encoder against its clips/s in inference.

    Args:
        encoders: Each with its test metrics, and its costs with `clips_per_second` and `delay_ms`.
        metric: The main metric.
        path: The PNG file.
    """
    scale = 100 if is_score(metric) else 1
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    places, labels = [], []
    for summary, cost in encoders:
        average, deviation = (scale * (value or 0) for value in summary.scores[metric])
        speed, delay = cost["clips_per_second"], cost["delay_ms"]
        color, fill = (VERMILION, "none") if delay is None else (BLUE, "full")
        axes.errorbar(speed, average, deviation, fmt="o", color=color, fillstyle=fill, markersize=9, capsize=4)
        places.append((speed, average))
        labels.append((plain(summary.variant) + ("" if delay is None else f", {delay:.0f} ms"), color))
    right = 1.35 * max(speed for speed, _ in places)  # room for the labels at the right
    axes.set_xlim(0, right)
    axes.margins(y=0.12)
    axes.autoscale_view(scalex=False)
    low, high = axes.get_ylim()
    fractions = [(speed / right, (average - low) / (high - low)) for speed, average in places]
    for place, (_, own), height, (text, color) in zip(places, fractions, spaced(fractions), labels, strict=True):
        offset = (14, (height - own) * HEIGHT_POINTS)
        axes.annotate(text, place, offset, textcoords="offset points", color=color, va="center", size=11)
    axes.set(xlabel="clips/s in inference, in batches", ylabel=axis_label(metric))
    streams = Line2D([], [], color=BLUE, marker="o", markersize=9, linestyle="none")
    others = Line2D([], [], color=VERMILION, marker="o", markersize=9, linestyle="none", fillstyle="none")
    legend = figure.legend(
        [streams, others],
        ["streams with this delay", "does not stream"],
        loc="outside upper center",
        ncols=2,
    )
    for text in legend.get_texts():
        text.set_color(DARK_GRAY)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=DPI)


def spaced(places: Sequence[tuple[float, float]]) -> list[float]:
    """The heights of labels that start at points, moved up where they would overlap.

    Args:
        places: Horizontal and vertical place of each point, as fractions of the axes.
    """
    heights: dict[int, float] = {}
    for index in sorted(range(len(places)), key=lambda index: places[index][1]):
        across, height = places[index]
        near = sorted(other for place, other in heights.items() if abs(places[place][0] - across) < LABEL)
        for other in near:
            if abs(other - height) < LINE:
                height = other + LINE
        heights[index] = height
    return [heights[index] for index in range(len(places))]


if __name__ == "__main__":
    command_line.run(main, "compare_encoders.py")
