#!/usr/bin/env python3
"""The ablation of the keyword spotter in docs/history/recipes.md: what each source of `unknown` does, on validation.

python docs/results/keywords.py ROOT RUN [RUN ...] [--clips 600]

ROOT has Speech Commands and LibriSpeech train-clean-5; each RUN is a finished run. Prints a table of misses at rates of
false alarms, by the protocol of docs/spotting.md, and false alarms per hour at 10 % misses.
"""

import argparse
from pathlib import Path

import torch

import vitspeech
from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.spotting.measure import Plan, measure

LIMITS = {"speech": ("1", "10"), "others": ("10", "100")}


def main() -> None:
    """Print one row per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, metavar="ROOT")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--clips", type=int, default=600, help="keywords, and other words")
    options = parser.parse_args()
    torch.set_num_threads(1)
    plan = Plan(
        options.root / "SpeechCommands/speech_commands_v0.02",
        options.root / "LibriSpeech/train-clean-5",
        split="validation",
        clips=options.clips,
    )
    titles = [f"misses at {limit}/h {name}" for name, limits in LIMITS.items() for limit in limits]
    titles += [f"{name}/h at 10 % misses" for name in LIMITS]
    print(f"| run | {' | '.join(titles)} |\n|{' --- |' * (len(titles) + 1)}")
    for run in options.runs:
        measurement = measure(vitspeech.load(run), plan)
        settings = SpottingSettings(thresholds=0.5)
        reached = measurement.summary(measurement.counts(settings), settings, run.name)["reached"]
        cells = []
        for name, limits in LIMITS.items():
            misses = reached[name]["clean"]["misses_at_alarms_per_hour"]
            cells += [percent(misses[limit]) for limit in limits]
        cells += [rate(reached[name]["clean"]["alarms_per_hour_at_misses"]["0.1"]) for name in LIMITS]
        print(f"| {run.name} | {' | '.join(cells)} |", flush=True)


def percent(value: float | None) -> str:
    """A share as text."""
    return "–" if value is None else f"{100 * value:.1f} %"


def rate(value: float | None) -> str:
    """A rate as text; `not reached` if no threshold has so few misses."""
    return "not reached" if value is None else f"{value:.0f}"


if __name__ == "__main__":
    main()
