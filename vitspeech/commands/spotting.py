"""`vitspeech spot` and `vitspeech tune`: keyword spotters in continuous speech."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import vitspeech
from vitspeech import command_line

if TYPE_CHECKING:
    from vitspeech.spotting.measure import Plan

SPOT = """Measure how often a keyword spotter misses its words, and how often it reports words that nobody said.

vitspeech spot MODEL --speech LibriSpeech/ --keywords SpeechCommands/speech_commands_v0.02/ -o report/
vitspeech spot MODEL --speech LibriSpeech/ --keywords recordings/ --sounds kitchen/ -o report/
vitspeech spot MODEL --keywords recordings/ -o report/ --split validation --clips 300
vitspeech spot MODEL --sounds kitchen/ -o report/

--keywords is a folder of one folder per word, as for training: the model's words, which are said one after another
with pauses, without noise and with noise at 20, 10 and 5 dB; other words test what the model does with words that it
does not know. --speech is a folder of recordings in LibriSpeech's layout or any other; detections of
words that the transcript has are not counted. The report folder gets report.html, det.png, summary.json, all
detections and words as CSV files, and the worst false alarms as sounds. Without --keywords, misses are not measured.
docs/spotting.md states the protocol.
"""
TUNE = """Choose the threshold of a keyword spotter for a wanted rate of false alarms, and write it into its card.

vitspeech tune MODEL --alarms-per-hour 1 --keywords recordings/
vitspeech tune MODEL --alarms-per-hour 1 --speech LibriSpeech/ --keywords SpeechCommands/speech_commands_v0.02/
vitspeech tune MODEL --alarms-per-hour 0.5 --others 10 --speech LibriSpeech/ --keywords recordings/ --sounds kitchen/
vitspeech tune MODEL --alarms-per-hour 1 --speech LibriSpeech/ --keywords recordings/ --dry-run

Searches one threshold for all words, and a small grid of the other settings (token probability, smoothing, minimum
duration, pause, refractory period), for the highest recall at which speech and sounds each stay below the wanted rate.
Other words do not count unless --others gives a rate for them. The words and the speech are of the validation split.
Without --speech, the speech that comes with vitspeech is heard, a third of an hour.
docs/spotting.md says how the rate is estimated. The command prints a table of operating points, and writes the
settings into card.json, where `stream` and `spot` find them.
"""


def spot(arguments: Sequence[str]) -> None:
    """Run `vitspeech spot`: prints the main numbers and the report's path."""
    parser = command_line.parser("spot", SPOT)
    add = parser.add_argument
    add_plan(parser, split="test")
    text = "one folder of recordings per word (default: none; misses are not measured)"
    add("--keywords", type=Path, metavar="FOLDER", help=text)
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of the report")
    options = parser.parse_args(arguments)
    command_line.check_folder(options.output)

    from vitspeech.spotting.measure import measure
    from vitspeech.spotting.report import check_report_folder, main_lines, write_report

    check_report_folder(options.output)
    plan = plan_of(options)
    start = time.perf_counter()
    model = load(options)
    measurement = measure(model, plan)
    settings = measurement.listener.settings
    counts = measurement.counts(settings)
    summary = measurement.summary(counts, settings, model.card.get("name") or Path(options.model).resolve().name)
    page = write_report(measurement, counts, summary, options.output)
    print("\n".join(main_lines(summary)))
    factor = summary["real_time_factor"]
    print(f"{page} ({time.perf_counter() - start:.0f} s; real-time factor of the network {factor:.4f})")


def tune(arguments: Sequence[str]) -> None:
    """Run `vitspeech tune`: prints operating points and the chosen settings."""
    parser = command_line.parser("tune", TUNE)
    add = parser.add_argument
    add_plan(parser, split="validation")
    add("--keywords", type=Path, required=True, metavar="FOLDER", help="one folder of recordings per word")
    add("--alarms-per-hour", type=float, required=True, metavar="RATE", help="wanted rate of speech and of sounds each")
    add("--others", type=float, metavar="RATE", help="false alarms per hour of other words (default: any)")
    add("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)

    from vitspeech.data.audio.background import background_folder
    from vitspeech.spotting.measure import measure
    from vitspeech.spotting.tune import check_card, chosen, record, save_settings, table, tune, wanted_rates

    if options.speech is None and options.split == "validation":
        options.speech = background_folder() / "speech"
    plan = plan_of(options)
    wanted = wanted_rates(plan, options.alarms_per_hour, options.others)
    if not options.dry_run:
        check_card(options.model)
    measurement = measure(load(options), plan, with_others=options.others is not None, every_word=True)
    tuned = tune(measurement, wanted)
    print("\n".join(table(tuned, wanted)))
    choice = record(tuned, measurement, wanted)
    for line in (*chosen(tuned, choice), *measurement.notes):
        print(line)
    if not options.dry_run:
        print(save_settings(options.model, tuned.settings, choice))


def add_plan(parser: argparse.ArgumentParser, split: str) -> None:
    """Add the model and what it hears, which `load` and `plan_of` read; `split` is the default of `--split`."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="folder of a released keyword spotter or a finished run")
    add("--speech", type=Path, metavar="FOLDER", help="recordings of continuous speech")
    add("--sounds", type=Path, metavar="FOLDER", help="recordings without speech, all of them")
    splits, text = ("test", "validation", "train", "all"), f"of words and speech (default {split})"
    add("--split", choices=splits, default=split, help=text)
    add("--hours", type=float, metavar="H", help="hear about H hours of speech, in whole recordings (default: all)")
    add("--clips", type=int, metavar="N", help="hear at most N keywords, and N other words (default: all)")
    add("--seed", type=int, default=0, help="of the order of words, pauses and noise (default 0)")


def plan_of(options: argparse.Namespace) -> "Plan":
    """What the spotter hears."""
    from vitspeech.spotting.measure import Plan

    names = ("keywords", "speech", "sounds", "split", "hours", "clips", "seed")
    return Plan(**{name: getattr(options, name) for name in names})


def load(options: argparse.Namespace) -> "vitspeech.Model":
    """The spotter, on one thread: the parts of its stream are too small for more."""
    import torch

    torch.set_num_threads(1)
    return vitspeech.load(options.model, trust=options.trust)
