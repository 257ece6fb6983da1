"""Train configs, with varied values, with several seeds each, and tabulate the results.

vitspeech sweep encoders/full encoders/cnn --seeds 0 1 2 -o runs/encoders --data.root ROOT
vitspeech sweep shapes/vit --vary model.network.encoder.depth=1,2,3 --seeds 0 1 -o runs/depth --trainer.max_epochs 3
vitspeech sweep --table runs/encoders

Every config is trained with every combination of the varied values and every seed, seed by seed, each run in a process
of its own. The runs are those of `vitspeech train`, in FOLDER/VARIANT/seed-N: the variant is the config's name
(`full`), with `,KEY=VALUE` for each varied key (`full,left=16`). VARIANT/seed-N.log has what a run printed.

The same command resumes an interrupted sweep: finished runs are skipped, also those that `vitspeech train` was started
for by hand with the same config, seed and folder, and an unfinished run is resumed. More seeds or configs can be added
to a folder. A run in the folder that differs in its config is refused before the first training.

When a run fails, the others continue; the last lines say which failed and why, and the exit status is 1.

FOLDER/sweep.csv    a row for each run: variant, varied values, seed, every test metric, parameters, minutes
FOLDER/table.md     mean ± standard deviation over the seeds of each variant, and its difference from the first variant,
                    paired by seed, with a 95 % interval
FOLDER/sweep.json   both, with the configs and varied values
FOLDER/sweep.png    a dot for each seed, with mean and standard deviation; a line if one numeric key is varied
FOLDER/progress.png the validation error against the minutes of training
FOLDER/lengths.png  for sequence tasks: accuracy over the length

Every other `--KEY VALUE` is an option of `vitspeech train` for every run, such as --data.root ROOT,
--trainer.max_epochs 3, --data.init_args.words '[left, right]' or --config trainer/gpu (an overlay on every config).
"""

import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from vitspeech import command_line
from vitspeech.errors import InputError

OPTIONS = ("--help", "--seeds", "--vary", "--output", "--dry-run", "--table", "--trust")
OWN_OPTION = {  # of `vitspeech train`, which a sweep sets itself
    "--run": "the sweep names the folders of its runs; name its own with -o",
    "--resume": "the same command resumes a sweep",
    "--seed_everything": "name the seeds with --seeds",
    "--print_config": "--dry-run lists the runs; `vitspeech train` prints a config",
}


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech sweep`: prints the progress and the table."""
    parser = command_line.parser("sweep", __doc__, allow_abbrev=False)
    add = parser.add_argument
    add("configs", nargs="*", metavar="CONFIG", help="files or names of shipped configs")
    add("--seeds", type=int, nargs="+", metavar="N", help="seeds of each (default 0)")
    add("--vary", nargs="+", action="extend", default=[], metavar="KEY=A,B,C", help="a key of the config and values")
    add("-o", "--output", type=Path, metavar="FOLDER", help="folder of the runs and the results")
    add("--dry-run", action="store_true", help="check everything and list the runs; train nothing")
    add("--table", type=Path, metavar="FOLDER", help="write the results of the runs in this folder anew; train nothing")
    own, overrides = split_options(arguments, OPTIONS)
    options = parser.parse_args(own)
    if options.table is not None:
        others = ("configs", "vary", "output", "seeds", "dry_run", "trust")
        if overrides or any(getattr(options, name) for name in others):
            raise InputError("--table FOLDER takes no configs and no other options")
        if not options.table.is_dir():
            raise InputError(f"--table {options.table}: is not a folder")

        from vitspeech.sweep.table import FILES, tabulate

        print("\n".join(tabulate(options.table)))
        print(f"\n{', '.join(str(options.table / name) for name in FILES)}")
        return
    if not options.configs or options.output is None:
        parser.error("name at least one CONFIG, and the folder of the results with -o (or --table FOLDER)")
    command_line.check_folder(options.output)
    variations = [parse_variation(text) for text in options.vary]

    from vitspeech.sweep.plan import make_plan
    from vitspeech.sweep.runs import exit_with, list_runs, sweep

    seeds, given = options.seeds or [0], {"overrides": overrides, "trust": options.trust}
    plan = make_plan(options.configs, seeds, options.output, variations, **given)
    note = partial(print, flush=True)
    if options.dry_run:
        list_runs(plan, note)
        return
    exit_with("sweep", sweep(plan, note), plan)


def split_options(arguments: Sequence[str], own: Collection[str]) -> tuple[list[str], list[str]]:
    """Split a command line into a sweep's own part and the options of `vitspeech train`, as `--KEY=VALUE`.

    `own` are the long options of the sweep, such as `--seeds`.
    """
    mine, others, remaining = [], [], list(arguments)
    while remaining:
        argument = remaining.pop(0)
        name, equals, value = argument.partition("=")
        if not argument.startswith("--") or name in own:
            mine.append(argument)
            continue
        if name in OWN_OPTION:
            raise InputError(f"{name}: {OWN_OPTION[name]}")
        if not equals:
            if not remaining or re.match(r"-[^\d.]", remaining[0]):
                raise InputError(f"{name} needs a value")
            value = remaining.pop(0)
        others.append(f"{name}={value}")
    return mine, others


def parse_variation(text: str) -> tuple[str, list[str]]:
    """The key of `KEY=A,B,C` and its values; a comma inside of brackets or quotes does not separate values."""
    key, _, listed = text.partition("=")
    key = key.strip()
    values = [value.strip() for value in split_commas(listed)]
    if f"--{key}" in OWN_OPTION:
        raise InputError(f"--vary {key}: {OWN_OPTION[f'--{key}']}")
    if not key or not all(values):
        raise InputError(f"--vary {text}: write it as KEY=A,B,C, with a key of the config and a value between commas")
    if len(set(values)) < len(values):
        raise InputError(f"--vary {text}: a value is there twice")
    return key, values


def split_commas(text: str) -> list[str]:
    """The parts of a text between commas that are not inside of brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "[{(") - (character in "]})")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
        if depth < 0:
            break
    if depth or quote:
        raise InputError(f"--vary: brackets or quotes are not closed in {text}")
    return parts
