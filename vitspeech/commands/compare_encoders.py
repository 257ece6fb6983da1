"""Train seven encoders on spoken words with the same front end and recipe, and compare accuracy, cost and context.

vitspeech compare-encoders -o runs/encoders --data.root ROOT
vitspeech compare-encoders -o runs/others --words yes no stop left --seeds 0 1 2 --data.root ROOT
vitspeech compare-encoders -o runs/mine --configs encoders/full encoders/lstm mine.yaml --trainer.max_epochs 3

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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from vitspeech import command_line
from vitspeech.errors import InputError
from vitspeech.sweep.arguments import split_options

if TYPE_CHECKING:
    from torch import Tensor, nn

    from vitspeech.checkpoint import Model
    from vitspeech.sweep.encoders import EncoderRow
    from vitspeech.sweep.results import Summary

ENCODERS = [f"encoders/{name}" for name in ("full", "truncated", "causal", "bilstm", "lstm", "cnn", "window-mlp")]
OPTIONS = (
    *("--help", "--output", "--words", "--seeds", "--configs", "--dry-run", "--trust"),
    *("--batch", "--repeats", "--dtype", "--device", "--clips"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech compare-encoders`: prints the progress and the table."""
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
    command_line.add_trust(parser)
    own, overrides = split_options(sys.argv[2:] if arguments is None else arguments, OPTIONS)
    options = parser.parse_args(own)
    command_line.check_folder(options.output)
    if options.words:
        overrides.append(f"--data.init_args.words={json.dumps(options.words, ensure_ascii=False)}")

    from vitspeech.benchmark import measure
    from vitspeech.sweep.plan import make_plan
    from vitspeech.sweep.sweep import exit_with, list_runs, sweep

    measure.check_counts(batch=options.batch, repeats=options.repeats, clips=options.clips)
    if options.clips < 2:
        raise InputError("--clips 1: an interval needs at least 2")
    measure.check_device(options.device)
    plan = make_plan(options.configs, options.seeds, options.output, overrides=overrides, trust=options.trust)
    for config in options.configs:
        refuse_utterances(config)
    note = partial(print, flush=True)
    if options.dry_run:
        list_runs(plan, note)
        return
    failures = sweep(plan, note)

    from vitspeech.sweep.encoders import write_encoders
    from vitspeech.sweep.results import main_metric, read_rows, summarize

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
    from vitspeech import data
    from vitspeech.training.config import config_chain, find_config, read_config

    parts = [read_config(file).get("data") for file in config_chain(find_config(config))]
    names = [part["class_path"] for part in parts if isinstance(part, dict) and "class_path" in part]
    kind = getattr(data, str(names[-1]).rpartition(".")[2], None) if names else None
    if isinstance(kind, type) and issubclass(kind, data.UtteranceData):
        raise InputError(f"{config}: trains on the utterances of {kind.__name__}; give configs of classifiers of clips")


def measure_all(
    summaries: Sequence["Summary"],
    folder: Path,
    settings: dict[str, Any],
    trust: Sequence[str],
    note: Callable[[str], None],
) -> list["EncoderRow"]:
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
    from dataclasses import asdict

    from tqdm import tqdm

    from vitspeech import checkpoint
    from vitspeech.benchmark.encoders import measure_encoders
    from vitspeech.receptive.reach import effective_reach_ms
    from vitspeech.sweep.encoders import EncoderRow

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
            reaches[summary.variant].append(effective_reach_ms(model.network, clips))
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


def validation_clips(model: "Model", run: Path, count: int) -> "Tensor":
    """Validation clips of the data that a run was trained on, with words: samples within ±1 (B, N)."""
    from vitspeech.checkpoint.card_dataset import card_data
    from vitspeech.checkpoint.model import read_mapping
    from vitspeech.data.module import FILES, MEMORY
    from vitspeech.receptive.sample import validation_sample

    arguments = read_mapping(run / "config.yaml", ("data",))["data"].get("init_args") or {}
    storage = arguments.get("storage", MEMORY)
    data = card_data(model, arguments.get("root") if storage in (MEMORY, FILES) else storage)
    return data.normalize(validation_sample(data, count).raw)


def why_not_streamed(network: "nn.Module") -> str | None:
    """Why a network can't be streamed, in a few words; `None` if it can."""
    from vitspeech.inference.stream import AudioStream

    try:
        AudioStream(network)
    except InputError as error:
        return str(error).partition(": ")[2].partition(";")[0] or str(error)
    return None
