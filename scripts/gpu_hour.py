#!/usr/bin/env python3
"""The first hour with a GPU: tests, every config for two steps, benchmarks, then the recipes, within a time budget.

python scripts/gpu_hour.py -o FOLDER --minutes 28 --data ROOT
python scripts/gpu_hour.py -o FOLDER --only configs benchmark-vit    # these steps alone
python scripts/gpu_hour.py --list                                    # the steps, their limits and commands
python scripts/gpu_hour.py -o FOLDER --tiny                          # on the CPU with tiny settings, to try it out

What finds errors comes first, what takes long last. Run the same command again to resume: steps that succeeded are
skipped, and unfinished trainings are resumed. A step whose data is not there is skipped. The exit status is 1 if a step
failed.

FOLDER/summary.json   status, seconds, command and last line of each step, written after each
FOLDER/configs.json   the step `configs`: seconds or error of each config, eager and compiled
FOLDER/NAME.log       the output of a step
FOLDER/NAME.json      the numbers of a benchmark
FOLDER/NAME/          the run of a training
"""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities.exceptions import SIGTERMException

from vitspeech import command_line
from vitspeech.data.module import default_root
from vitspeech.errors import InputError
from vitspeech.files import read_json, write_json
from vitspeech.sweep.runs import end
from vitspeech.training.config import shipped_configs
from vitspeech.training.interrupts import handle_interrupts
from vitspeech.training.train import TrainingCLI

SCRIPTS = Path(__file__).resolve().parent
TESTS = SCRIPTS.parent / "tests"
SPARE_S = 20  # kept at the end of the budget
GRACE_S = 30  # for a step that was told to stop
NEEDS = {  # the folders under ROOT that a group of configs reads, or a config
    "cifar10": ("cifar-10-batches-py",),
    "cifar100": ("cifar-100-python",),
    "encoders": ("SpeechCommands",),
    "keywords": ("SpeechCommands", "LibriSpeech/train-clean-5"),
    "librispeech": ("LibriSpeech/train-clean-5",),
    "librispeech/960h": ("LibriSpeech/train-other-500",),
    "librispeech/train-clean-100": ("LibriSpeech/train-clean-100",),
    "speech_commands": ("SpeechCommands",),
    "windows": ("SpeechCommands",),
    "word_sequences": ("SpeechCommands",),
}
OVERLAYS = {  # what is not trained alone, and the config that it is for
    "cifar10/distilled": "cifar10/hybrid",
    "speech_commands/distilled": "speech_commands/truncated",
}


@dataclass(frozen=True)
class Step:
    """One step.

    Args:
        name: Its name, and that of its files.
        command: Arguments of the Python interpreter.
        minutes: The most it may take.
        needs: The folders under ROOT that it reads.
        run: The folder of a training, which is resumed.
    """

    name: str
    command: list[str]
    minutes: float
    needs: tuple[str, ...] = ()
    run: Path | None = None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the steps: prints a line before and after each."""
    parser = command_line.parser("gpu-hour", __doc__, trusts=False)
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
    with handle_interrupts("gpu_hour.py", lambda: "the same command"):
        failed = run_all(steps, options.output, data, options.minutes, note)
    sys.exit(failed)


def needs_of(config: str) -> tuple[str, ...]:
    """The folders under ROOT that a config reads."""
    return NEEDS.get(config) or NEEDS.get(config.split("/")[0], ())


def plan(out: Path, data: Path, *, tiny: bool = False) -> list[Step]:
    """The steps in their order.

    Args:
        out: The folder of the results.
        data: The folder of the data sets.
        tiny: On the CPU with tiny settings.
    """
    device = "cpu" if tiny else "cuda"

    def benchmark(name: str, minutes: float, *more: str) -> Step:
        file = str(out / f"benchmark-{name}.json")
        command = [str(SCRIPTS / "benchmark.py"), name, "--device", device, "--json", file, *more]
        return Step(f"benchmark-{name}", command, minutes)

    def training(config: str, minutes: float) -> Step:
        run, overlays = out / config.replace("/", "-"), [] if config.endswith("-gpu") else ["trainer/gpu"]
        configs = [config, *(["trainer/cpu", "trainer/smoke"] if tiny else overlays)]
        named = [word for name in configs for word in ("--config", name)]
        command = ["-m", "vitspeech", "train", *named, "--run", str(run)]
        return Step(run.name, command, minutes, needs_of(config), run)

    configs = [str(SCRIPTS / "gpu_hour.py"), "--configs", "-o", str(out), "--data", str(data), *["--tiny"] * tiny]
    few = ("--repeats", "1", "--dtypes", "fp32") if tiny else ()
    tests = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", str(TESTS)]
    return [
        Step("tests", tests + ["--collect-only"] * tiny, 5),
        Step("configs", configs, 8),
        benchmark("attention", 4, *few, *(("--tokens", "256", "--variants", "full") if tiny else ())),
        benchmark("layer", 2, *few, *(("--tokens", "64", "--batch", "2") if tiny else ())),
        benchmark("vit", 3, *few, *(("--batch", "2") if tiny else ("--compile",))),
        benchmark("speech", 4, *few, *(("--batch", "2", "--stream-minutes", "0.1") if tiny else ())),
        training("cifar10/vit-gpu", 12),
        training("cifar10/cnn-gpu", 6),
        training("speech_commands/full", 10),
        training("speech_commands/truncated", 10),
        training("keywords/truncated", 10),
        training("word_sequences/ctc", 10),
        training("word_sequences/attention", 10),
        training("librispeech/ctc", 15),
        training("cifar100/vit-gpu", 15),
        training("cifar100/cnn-gpu", 8),
    ]


def run_all(steps: Sequence[Step], out: Path, data: Path, minutes: float, note: Callable[[str], None]) -> int:
    """Run the steps within the budget, and write `summary.json` after each.

    Args:
        steps: The steps; those that succeeded before are skipped.
        out: The folder of the results.
        data: The folder of the data sets.
        minutes: The budget.
        note: Called with lines of text on the progress.

    Returns:
        1 if a step failed, else 0.
    """
    out.mkdir(parents=True, exist_ok=True)
    file, deadline = out / "summary.json", time.monotonic() + 60 * minutes - SPARE_S
    summary = read_json(file) if file.exists() else {}
    for step in steps:
        if summary.get(step.name, {}).get("status") == "done":
            continue
        left = deadline - time.monotonic()
        if missing := [folder for folder in step.needs if not (data / folder).exists()]:
            result = {"status": "skipped", "last": f"needs {missing[0]} in {data}"}
        elif left < SPARE_S:
            result = {"status": "no time left"}
        else:
            note(f"{step.name} …")
            result = run(step, out / f"{step.name}.log", min(left, 60 * step.minutes), data)
        summary[step.name] = result
        write_json(summary, file)
        note(f"{step.name}: {result['status']}, {result.get('seconds', 0):.0f} s: {result.get('last', '')}")
    return int(any(result["status"] == "failed" for result in summary.values()))


def run(step: Step, log: Path, seconds: float, data: Path) -> dict[str, Any]:
    """Run one step for so many seconds at most; one that takes longer is told to stop, so that it can be resumed."""
    resumed = step.run is not None and (step.run / "run.json").exists()
    command = ["-m", "vitspeech", "train", "--resume", str(step.run)] if resumed else step.command
    start, environment = time.monotonic(), os.environ | {"VITSPEECH_DATA": str(data)}
    with log.open("a") as output:
        process = subprocess.Popen([sys.executable, *command], stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            status = "failed" if process.wait(seconds) else "done"
        except subprocess.TimeoutExpired:
            status = "out of time"
            end(process, GRACE_S)
        except BaseException:  # Ctrl-C and SIGTERM
            end(process, GRACE_S)
            raise
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = lines[-1].rpartition("\r")[2][:300] if lines else ""
    return {
        "status": status,
        "seconds": round(time.monotonic() - start, 1),
        "command": " ".join(command),
        "last": last,
    }


def try_configs(out: Path, data: Path, note: Callable[[str], None], *, tiny: bool = False) -> int:
    """Train every config for two steps, all of them eager and then all compiled, in this process.

    Args:
        out: The folder of `configs.json`, which has the seconds or the error of each.
        data: The folder of the data sets, which VITSPEECH_DATA names, too: `run` sets it.
        note: Called with a line for each.
        tiny: A few configs, not compiled, on the CPU.

    Returns:
        1 if one failed, else 0.
    """
    names = [name for name in shipped_configs() if not name.startswith("trainer/")]
    file, failed = out / "configs.json", 0
    results = read_json(file) if file.exists() else {}
    names = names[:: 20 if tiny else 1]
    modes = ["eager"] if tiny else ["eager", "compiled"]  # one after the other: compilation takes most of the time
    for mode, name in itertools.product(modes, names):
        key = f"{name}, {mode}"
        if results.get(key, "").startswith("ok"):
            continue
        if missing := [folder for folder in needs_of(name) if not (data / folder).exists()]:
            results[key] = f"skipped: needs {missing[0]} in {data}"
            continue
        run = out / "tried" / key.replace("/", "-")
        shutil.rmtree(run, ignore_errors=True)  # of an earlier attempt
        configs = [*filter(None, [OVERLAYS.get(name)]), name, "trainer/smoke"]
        arguments = [*(f"--config={config}" for config in configs), f"--run={run}"]
        arguments += [f"--trainer.accelerator={'cpu' if tiny else 'gpu'}", "--trainer.precision=bf16-mixed"]
        arguments += ["--trainer.enable_progress_bar=false", "--trainer.callbacks=null"]
        arguments += ["--model.compile=true"] * (mode == "compiled")
        results[key] = try_config(arguments)
        failed += not results[key].startswith("ok")
        note(f"{key}: {results[key]}")
        write_json(results, file)
    write_json(results, file)
    good = sum(result.startswith("ok") for result in results.values())
    note(f"{good} of {len(results)} configs ran, {failed} failed")
    return int(failed > 0)


def try_config(arguments: Sequence[str]) -> str:
    """Train from a command line, and return `ok` with the seconds, or the error."""
    start = time.monotonic()
    try:
        TrainingCLI(arguments).fit()
    except SIGTERMException:  # the time is up
        raise
    except (Exception, SystemExit) as error:  # whatever it is, the next config is tried
        return f"{type(error).__name__}: {error}".partition("\n")[0][:300]
    return f"ok, {time.monotonic() - start:.1f} s"


if __name__ == "__main__":
    command_line.run(main, "gpu_hour.py")
