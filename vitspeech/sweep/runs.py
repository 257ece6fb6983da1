"""A sweep from its plan to its table: its runs are trained one after the other, each in a process of its own."""

import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import mean

from vitspeech.checkpoint.multi_seed import RUN_ONLY
from vitspeech.command_line import BUG, BUG_STATUS, program
from vitspeech.sweep.plan import Plan, Run, check_plan
from vitspeech.sweep.results import FINISHED, NEW, read_result, score_text, state
from vitspeech.sweep.table import FILES, tabulate
from vitspeech.training.config import PROGRAM
from vitspeech.training.interrupts import handle_interrupts

TRAIN = [sys.executable, "-P", "-m", "vitspeech", "train"]  # -P: a folder named vitspeech here is not imported
END_S = 60  # an interrupted run may take this long to end

Failures = list[tuple[Run, str]]  # runs that could not be finished, and why


def sweep(plan: Plan, note: Callable[[str], None], *, verb: str = "sweep") -> Failures:
    """Check a sweep, train its runs, and write its table after each of them.

    `note` is called with lines of text on the progress, and with the table; `verb` is the command in messages.
    """
    check_plan(plan)
    plan.folder.mkdir(parents=True, exist_ok=True)
    tabulate(plan.folder, plan)
    with handle_interrupts(program(verb), lambda: "the same command"):
        try:
            failures = train_all(plan, note)
        except KeyboardInterrupt:
            tabulate(plan.folder, plan)
            raise
    note("")
    for line in tabulate(plan.folder, plan):
        note(line)
    note(f"\n{', '.join(str(plan.folder / name) for name in FILES)}")
    return failures


def list_runs(plan: Plan, note: Callable[[str], None]) -> None:
    """Check a sweep, and say for each run what would be done."""
    check_plan(plan)
    for number, run in enumerate(plan.runs, start=1):
        found = state(run.folder)
        what = f"{PROGRAM} {shlex.join(command(plan, run))}" if found != FINISHED else "nothing to do"
        note(f"run {number} of {len(plan.runs)}: {run}, {found}: {what}")


def exit_with(verb: str, failures: Failures, plan: Plan) -> None:
    """Say on standard error which runs failed and why, and end the process with exit status 1, if there are any."""
    if failures:
        print(f"{program(verb)}: {len(failures)} of {len(plan.runs)} runs failed:", file=sys.stderr)
        for run, reason in failures:
            print(f"  {run}: {reason}", file=sys.stderr)
        sys.exit(1)


def train_all(plan: Plan, note: Callable[[str], None]) -> Failures:
    """Train every run that is not finished, write the table after each, and go on when one fails."""
    runs, failures, started = plan.runs, [], time.monotonic()
    durations_s = {run.folder: 60 * read_result(run.folder).minutes for run in runs if state(run.folder) == FINISHED}
    for number, run in enumerate(runs, start=1):
        head = f"run {number} of {len(runs)}: {run}"
        found = state(run.folder)
        if found == FINISHED:
            note(f"{head}: is finished already, {score_text(read_result(run.folder))}")
            continue
        pending = [other for other in runs[number - 1 :] if state(other.folder) != FINISHED]
        times = f"elapsed {clock(time.monotonic() - started)}, left {remaining(pending, durations_s)}"
        note(f"{head} ({times}){'' if found == NEW else ': resuming'}")
        begun = time.monotonic()
        log = run.folder.with_name(f"{run.folder.name}.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        reason = train_in_process(command(plan, run), log)
        if reason is None and state(run.folder) != FINISHED:
            reason = "it ended without a model"
        if reason is None:
            durations_s[run.folder] = time.monotonic() - begun
            result = read_result(run.folder)
            note(f"{head}: {score_text(result)}, {result.minutes:.1f} min")
        else:
            failures.append((run, reason))
            note(f"{head}: failed: {reason}")
        tabulate(plan.folder, plan)
    return failures


def command(plan: Plan, run: Run) -> list[str]:
    """The arguments of `vitspeech train` that start a run, or resume it."""
    options = plan.options(run)
    if state(run.folder) == NEW:
        return [*options, f"--run={run.folder}"]
    trust = [option for option in options if option.startswith("--trust=")]
    return [f"--resume={run.folder}", *where_to_run(options), *trust]


def where_to_run(options: list[str]) -> list[str]:
    """The options that a resumed run may take anew: those that do not change what is learned, such as the data's root.

    All others are in its config.
    """
    keys = {option: re.sub(r"^--|=.*", "", option) for option in options}
    return [option for option in options if RUN_ONLY.search(keys[option]) and "seed" not in keys[option]]


def remaining(pending: Sequence[Run], durations_s: dict[Path, float]) -> str:
    """The time that runs will take, from finished runs of their variant or else of all; `?` without any."""
    if not durations_s:
        return "?"
    total = 0.0
    for run in pending:
        same = [seconds for folder, seconds in durations_s.items() if folder.parent == run.folder.parent]
        total += mean(same or durations_s.values())
    return clock(total)


def clock(seconds: float) -> str:
    """A time as `1:23:45`."""
    return str(timedelta(seconds=round(seconds)))


def train_in_process(arguments: Sequence[str], log: Path) -> str | None:
    """Run `vitspeech train` in a process of its own; its output goes to a file, and indented to standard output.

    If this process is interrupted, the run is ended as by SIGTERM and can be resumed.

    The file of a resumed run is continued. Returns why it failed, or `None`.
    """
    last: deque[str] = deque(maxlen=5)
    with (
        log.open("a" if arguments[0].startswith("--resume") else "w", encoding="utf-8") as file,
        subprocess.Popen(
            [*TRAIN, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment(),
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the run once
        ) as process,
    ):
        try:
            for text in process.stdout:
                file.write(text)
                file.flush()
                if text.strip():
                    last.append(text.strip())
                    print(f"  {text.rstrip()}", flush=True)
            status = process.wait()
        except BaseException:
            end(process)
            raise
    return None if status == 0 else failure(status, list(last))


def end(process: subprocess.Popen, seconds: float = END_S) -> None:
    """End a process by SIGTERM, or by SIGKILL if it does not end within some seconds."""
    process.terminate()
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def failure(status: int, last: Sequence[str]) -> str:
    """Why a run failed, from its exit status and the last lines that it printed."""
    if status < 0:
        hint = " (perhaps the machine ran out of memory)" if -status == signal.SIGKILL else ""
        return f"ended by {signal.Signals(-status).name}{hint}"
    lines = [line for line in last if not (status == BUG_STATUS and line.endswith(BUG))]
    reason = lines[-1].removeprefix(f"{PROGRAM}: ") if lines else "it printed nothing"
    return reason if status != BUG_STATUS else f"bug: {reason}"


def environment() -> dict[str, str]:
    """The environment of a run: it imports the same vitspeech as this process, and prints lines at once, in UTF-8."""
    package = str(Path(__file__).resolve().parents[2])
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if package not in (*folders, sysconfig.get_path("purelib")):
        folders = [*folders, package]
    output = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}  # the log has every character, whatever this prints
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))} | output
