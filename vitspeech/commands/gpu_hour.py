"""The first hour with a GPU: tests, every config for two steps, benchmarks, then the recipes, within a time budget.

vitspeech gpu-hour -o FOLDER --minutes 28 --data ROOT
vitspeech gpu-hour -o FOLDER --only configs benchmark-vit      # these steps alone
vitspeech gpu-hour --list                                      # the steps, their limits and commands
vitspeech gpu-hour -o FOLDER --tiny                            # on the CPU with tiny settings, to try this command out

Run the same command again to resume: steps that succeeded are skipped, and unfinished trainings are
resumed. A step whose data is not there is skipped. FOLDER/summary.json is written after each step: its status,
seconds, command and last line. FOLDER/NAME.log has its output, FOLDER/NAME.json the numbers of a benchmark, and
FOLDER/NAME/ is the run of a training. The exit status is 1 if a step failed. Tests are those of a checkout.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from vitspeech import command_line
from vitspeech.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech gpu-hour`: prints a line before and after each step."""
    parser = command_line.parser("gpu-hour", __doc__)
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="folder of the results")
    parser.add_argument("--minutes", type=float, default=60.0, metavar="N", help="for all steps together (default 60)")
    parser.add_argument("--data", metavar="ROOT", help="folder of the data sets; default: VITSPEECH_DATA, else data")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="these steps alone")
    parser.add_argument("--tiny", action="store_true", help="on the CPU with tiny settings")
    parser.add_argument("--list", action="store_true", help="list the steps and run none")
    parser.add_argument("--configs", action="store_true", help=argparse.SUPPRESS)  # the step `configs`, in its process
    options = parser.parse_args(arguments)
    if options.output is None and not options.list:
        raise InputError("name the folder of the results with -o")

    from vitspeech.data.module import default_root
    from vitspeech.sweep.gpu_hour import plan, run_all, try_configs
    from vitspeech.training.interrupts import clear_ending

    data, note = Path(default_root(options.data)), partial(print, flush=True)
    if options.configs:
        sys.exit(try_configs(options.output, data, note, tiny=options.tiny))
    steps = plan(options.output or Path("FOLDER"), data, tiny=options.tiny)
    if unknown := [name for name in options.only or () if name not in {step.name for step in steps}]:
        raise InputError(f"--only {', '.join(unknown)}: no such step; they are {', '.join(s.name for s in steps)}")
    steps = [step for step in steps if not options.only or step.name in options.only]
    if options.list:
        for step in steps:
            print(f"{step.name:25} {step.minutes:3.0f} min  {' '.join(step.command)}")
        return
    command_line.check_folder(options.output)
    with clear_ending("vitspeech gpu-hour", lambda: "the same command"):
        failed = run_all(steps, options.output, data, options.minutes, note)
    sys.exit(failed)
