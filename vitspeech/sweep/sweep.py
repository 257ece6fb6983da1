"""A sweep from its plan to its table."""

import shlex
import sys
from collections.abc import Callable, Sequence

from vitspeech.command_line import program
from vitspeech.sweep.check import check_plan
from vitspeech.sweep.plan import Plan
from vitspeech.sweep.results import FINISHED, state
from vitspeech.sweep.runs import Failure, Train, command, train_all
from vitspeech.sweep.table import tabulate
from vitspeech.training.interrupts import clear_ending
from vitspeech.training.train import PROGRAM


def sweep(plan: Plan, note: Callable[[str], None], *, train: Train | None = None) -> list[Failure]:
    """Check a sweep, train its runs, and write its table after each of them.

    Args:
        plan: The sweep.
        note: Called with lines of text on the progress, and with the table.
        train: Trains one run, see `train_all`.

    Returns:
        The runs that failed.

    Raises:
        InputError: If `check_plan` refuses the sweep; nothing is trained then.
        OSError: If a file cannot be read or written.
    """
    check_plan(plan)
    plan.folder.mkdir(parents=True, exist_ok=True)
    tabulate(plan.folder, plan)
    with clear_ending(program("sweep"), lambda: "the same command"):
        try:
            failures = train_all(plan, note, train=train, after_run=lambda: tabulate(plan.folder, plan))
        except KeyboardInterrupt:
            tabulate(plan.folder, plan)
            raise
    note("")
    for line in tabulate(plan.folder, plan):
        note(line)
    note(f"\n{', '.join(str(plan.folder / name) for name in ('table.md', 'sweep.csv', 'sweep.json', 'sweep.png'))}")
    return failures


def list_runs(plan: Plan, note: Callable[[str], None]) -> None:
    """Check a sweep, and say for each run what would be done.

    Raises:
        InputError: If `check_plan` refuses the sweep.
    """
    check_plan(plan)
    for number, run in enumerate(plan.runs, start=1):
        found = state(run.folder)
        what = f"{PROGRAM} {shlex.join(command(plan, run))}" if found != FINISHED else "nothing to do"
        note(f"run {number} of {len(plan.runs)}: {run}, {found}: {what}")


def exit_with(verb: str, failures: Sequence[Failure], plan: Plan) -> None:
    """Say on standard error which runs failed and why, and end the process with exit status 1, if there are any."""
    if failures:
        print(f"{program(verb)}: {len(failures)} of {len(plan.runs)} runs failed:", file=sys.stderr)
        for failure in failures:
            print(f"  {failure.run}: {failure.reason}", file=sys.stderr)
        sys.exit(1)
