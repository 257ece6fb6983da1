"""`vitspeech compare` and `vitspeech probe`: how far networks see."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from vitspeech import command_line
from vitspeech.commands.sweep import split_options
from vitspeech.errors import MOST_SEED, InputError, check_number

COMPARE = """Compare the receptive fields of models: theoretical, effective, and what the output depends on.

vitspeech compare checkpoints/vit-cifar10 checkpoints/cnn-cifar10 --data ROOT -o report/
vitspeech compare checkpoints/vit-cifar10 timm:resnet18 timm:convnext_atto --data ROOT -o report/
vitspeech compare checkpoints/speech-commands checkpoints/speech-commands-truncated --data ROOT -o report/
vitspeech compare checkpoints/vit-cifar10 timm:resnet18 --data photos/ -o report/            # any images
vitspeech compare timm:deit_tiny_patch16_224 --pretrained --data photos/ -o report/

The models must be all for images or all for speech. The inputs are validation items of the data set on the first
released model's card. If --data names a folder without it, they are the images or recordings in that folder: the
report has the accuracy of models that know the names of its subfolders as labels, and of others the agreement with
their own predictions. The report folder gets report.html (one page that needs no network), a PNG per figure, and
metrics.json with every number.
"""
PROBE = """Train networks on images whose label depends on two marks, and plot accuracy against their distance.

vitspeech probe --distances 5 7 9 11 13 -o runs/probe
vitspeech probe --configs two_marks/vit two_marks/vit-without-attention --seeds 3 -o runs/probe
vitspeech probe -o runs/probe-few --data.init_args.count=1000                   # fewer training images

A sweep (see `vitspeech sweep --help`) of every config at every distance: the output folder gets the runs, sweep.csv,
table.md, sweep.json, and sweep.png with accuracy against distance. The same command resumes an interrupted probe. Other
options override every run's config, as for `vitspeech train`.
"""
PROBED = ["two_marks/vit", "two_marks/cnn"]
PROBE_OPTIONS = ("--help", "--configs", "--distances", "--seeds", "--output", "--trust")
DISTANCE = "data.init_args.distance"


def compare(arguments: Sequence[str]) -> None:
    """Run `vitspeech compare`: prints a table of the main results and the report's path."""
    parser = command_line.parser("compare", COMPARE)
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="folder of a released model or a run, or timm:NAME")
    add("--data", metavar="ROOT", help="folder of the data set, or of any images or recordings")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of the report")
    add("--inputs", type=int, help="inputs for the receptive fields (default 200)")
    add("--answers", type=int, help="inputs for accuracies (default 500)")
    minutes = "as many inputs as fit into about this time (at most 500), in place of --inputs and --answers"
    add("--minutes", type=float, metavar="M", help=minutes)
    factors = "input sizes relative to the models' own (default 1 1.5); the report is about the first"
    add("--factors", type=float, nargs="+", default=[1.0, 1.5], metavar="FACTOR", help=factors)
    add("--layers", nargs="+", metavar="NAME", help="only these layers; every model must have them")
    add("--pretrained", action="store_true", help="use timm's weights, which timm downloads")
    add("--size", type=int, metavar="PX", help="image side for timm's networks; default: the others'")
    command_line.add_device(parser, others="")
    options = parser.parse_args(arguments)
    command_line.check_folder(options.output)
    given = command_line.settings(options, "inputs", "answers")
    if options.minutes is not None and given:
        raise InputError("--minutes: chooses --inputs and --answers itself; leave them out")
    if options.device == "mps":
        raise InputError("--device mps: Apple GPUs have no double precision, which the measures need; choose cpu")

    from vitspeech.receptive.compare import compare
    from vitspeech.receptive.plan import Plan, plan_within, time_text
    from vitspeech.receptive.report.numbers import main_results, widths
    from vitspeech.receptive.report.page import write_report
    from vitspeech.receptive.sample import sample_for
    from vitspeech.receptive.subjects import subjects_named

    plan = Plan(**given, factors=tuple(options.factors), layers=options.layers)
    chosen = {"size": options.size, "pretrained": options.pretrained, "trust": options.trust}
    subjects = subjects_named(options.models, **chosen, device=command_line.find_device(options.device))
    sample = sample_for(subjects, options.data, max(plan.inputs, plan.answers))
    start = time.perf_counter()
    if options.minutes is not None:
        plan = plan_within(options.minutes, subjects, sample, plan)
        print(f"{plan.inputs} inputs in about {time_text(options.minutes)}", flush=True)
    results = compare(subjects, sample, plan, progress=True)
    page = write_report(results, sample, plan, options.output)
    table, _ = main_results(results)
    print(table)
    if options.minutes is not None:
        print(f"{plan.inputs} inputs: {widths(results)}; four times the inputs halve the intervals")
    for result in results:
        for measure, reason in result.missing.items():
            print(f"{result.subject.name}: no {measure}: {reason}")
    print(f"{page} ({time.perf_counter() - start:.0f} s)")


def probe(arguments: Sequence[str]) -> None:
    """Run `vitspeech probe`: a sweep over the distance of the marks."""
    parser = command_line.parser("probe", PROBE, allow_abbrev=False)
    add = parser.add_argument
    add("--configs", nargs="+", default=PROBED, metavar="CONFIG", help=f"default: {' '.join(PROBED)}")
    distances, default = "distances of the marks, 5 to 13 px; default: 5 7 9 11 13", [5, 7, 9, 11, 13]
    add("--distances", type=float, nargs="+", default=default, metavar="PX", help=distances)
    add("--seeds", type=int, default=1, help="runs per config and distance; default: 1")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    own, overrides = split_options(arguments, PROBE_OPTIONS)
    options = parser.parse_args(own)
    check_number("--seeds", options.seeds, 1, MOST_SEED)
    command_line.check_folder(options.output)

    from vitspeech.sweep.plan import make_plan
    from vitspeech.sweep.runs import exit_with, sweep

    varied = [(DISTANCE, [f"{distance:g}" for distance in options.distances])]
    given = {"overrides": overrides, "trust": options.trust}
    plan = make_plan(options.configs, range(options.seeds), options.output, varied, **given)
    exit_with("probe", sweep(plan, partial(print, flush=True), verb="probe"), plan)
