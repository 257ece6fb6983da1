#!/usr/bin/env python3
"""The first hour with a GPU: tests, every config for two steps, benchmarks, then the recipes, within a time budget.

python scripts/gpu_hour.py -o FOLDER --minutes 28 --data ROOT
python scripts/gpu_hour.py -o FOLDER --only tests configs      # these steps alone
python scripts/gpu_hour.py --list                              # the steps, their limits and commands
python scripts/gpu_hour.py -o FOLDER --tiny                    # on the CPU with tiny settings, to try this script out

The same command goes on where an earlier one ended: steps that succeeded are skipped, and unfinished trainings are
resumed. A step that needs data which is not there is skipped. FOLDER/summary.json is written after each step: its
status, seconds, command and last line; FOLDER/NAME.log has its output. Benchmarks write FOLDER/NAME.json, trainings
FOLDER/NAME/.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SPARE_S = 20  # kept at the end of the budget
GRACE_S = 30  # for a step that was told to stop
NEEDS = {  # the folder under ROOT that a group of configs reads
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "encoders": "SpeechCommands",
    "keywords": "SpeechCommands",
    "librispeech": "LibriSpeech",
    "speech_commands": "SpeechCommands",
    "windows": "SpeechCommands",
    "word_sequences": "SpeechCommands",
}


@dataclass(frozen=True)
class Step:
    """One step.

    Args:
        name: Its name, and that of its files.
        command: The command without the interpreter.
        minutes: The most it may take.
        needs: The folder under ROOT that it reads, if any.
        run: The folder of a training, which is resumed.
    """

    name: str
    command: list[str]
    minutes: float
    needs: str | None = None
    run: Path | None = field(default=None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps; the exit status is 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="folder of the results")
    parser.add_argument("--minutes", type=float, default=60.0, help="time for all steps together (default 60)")
    parser.add_argument("--data", default=os.environ.get("VITSPEECH_DATA", "data"), metavar="ROOT", help="data sets")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="these steps alone")
    parser.add_argument("--tiny", action="store_true", help="on the CPU with tiny settings")
    parser.add_argument("--list", action="store_true", help="list the steps and run none")
    parser.add_argument("--configs", action="store_true", help=argparse.SUPPRESS)  # the step `configs`, in its process
    options = parser.parse_args(arguments)
    if options.output is None and not options.list:
        parser.error("name the folder of the results with -o")
    if options.configs:
        return try_configs(options)
    steps = [step for step in plan(options) if not options.only or step.name in options.only]
    if unknown := set(options.only or ()) - {step.name for step in steps}:
        parser.error(f"unknown steps: {', '.join(sorted(unknown))}; --list shows all")
    if options.list:
        for step in steps:
            print(f"{step.name:18} {step.minutes:4.0f} min  {' '.join(step.command)}")
        return 0
    return run_all(steps, options)


def plan(options: argparse.Namespace) -> list[Step]:
    """The steps in their order: what finds errors first, what takes long last."""
    out, tiny = options.output or Path("FOLDER"), options.tiny
    device = "cpu" if tiny else "cuda"

    def benchmark(name: str, minutes: float, *more: str) -> Step:
        file = str(out / f"benchmark-{name}.json")
        command = ["-m", "vitspeech", "benchmark", name, "--device", device, "--json", file, *more]
        return Step(f"benchmark-{name}", command, minutes)

    def training(config: str, minutes: float, *more: str) -> Step:
        run = out / config.replace("/", "-")
        command = ["-m", "vitspeech", "train", "--config", config, "--data.root", options.data, "--run", str(run)]
        return Step(run.name, [*command, *more], minutes, NEEDS[config.split("/")[0]], run)

    own = [str(Path(__file__).resolve()), "--configs", "-o", str(out), "--data", options.data, *["--tiny"] * tiny]
    few = ("--repeats", "1", "--dtypes", "fp32") if tiny else ()
    on = ("--config", "trainer/cpu") if tiny else ("--config", "trainer/gpu")
    short = ("--config", "trainer/smoke") if tiny else ()
    tests = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", str(HERE / "tests")]
    return [
        Step("tests", tests + ["--collect-only"] * tiny, 5),
        Step("configs", own, 8),
        benchmark("attention", 4, *few, *(("--tokens", "256", "--variants", "full") if tiny else ())),
        benchmark("layer", 2, *few, *(("--tokens", "64", "--batch", "2") if tiny else ())),
        benchmark("vit", 3, *few, *(("--batch", "2") if tiny else ("--compile",))),
        benchmark("speech", 4, *few, *(("--batch", "2", "--stream-minutes", "0.1") if tiny else ())),
        training("cifar10/vit-gpu", 12, *short, *(on if tiny else ())),
        training("cifar10/cnn-gpu", 6, *short, *(on if tiny else ())),
        *(
            training(config, 10, *on, *short)
            for config in ("speech_commands/full", "speech_commands/truncated", "keywords/truncated")
        ),
        *(training(f"word_sequences/{name}", 10, *on, *short) for name in ("ctc", "attention")),
        training("librispeech/ctc", 15, *on, *short),
        training("cifar100/vit-gpu", 15, *short, *(on if tiny else ())),
        training("cifar100/cnn-gpu", 8, *short, *(on if tiny else ())),
    ]


def run_all(steps: Sequence[Step], options: argparse.Namespace) -> int:
    """Run the steps within the budget, and write `summary.json` after each."""
    options.output.mkdir(parents=True, exist_ok=True)
    file, end = options.output / "summary.json", time.monotonic() + 60 * options.minutes - SPARE_S
    summary = json.loads(file.read_text()) if file.exists() else {}
    for step in steps:
        if summary.get(step.name, {}).get("status") == "done":
            continue
        left = end - time.monotonic()
        if step.needs and not (Path(options.data) / step.needs).exists():
            result = {"status": "skipped", "last": f"needs {step.needs} in {options.data}"}
        elif left < SPARE_S:
            result = {"status": "no time left"}
        else:
            print(f"{step.name} …", flush=True)
            result = run(step, options.output / f"{step.name}.log", min(left, 60 * step.minutes))
        summary[step.name] = result
        file.write_text(json.dumps(summary, indent=2) + "\n")
        print(
            f"{step.name}: {result['status']}, {result.get('seconds', 0):.0f} s: {result.get('last', '')}", flush=True
        )
    return int(any(result["status"] == "failed" for result in summary.values()))


def run(step: Step, log: Path, seconds: float) -> dict[str, object]:
    """Run one step for so many seconds at most; one that takes longer is told to stop, so that it can be resumed."""
    resumed = step.run is not None and (step.run / "run.json").exists()
    command = ["-m", "vitspeech", "train", "--resume", str(step.run)] if resumed else step.command
    start = time.monotonic()
    with log.open("a") as output:
        process = subprocess.Popen([sys.executable, *command], stdout=output, stderr=subprocess.STDOUT, cwd=HERE)
        try:
            status = "failed" if process.wait(seconds) else "done"
        except subprocess.TimeoutExpired:
            status = "out of time"
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = lines[-1].rpartition("\r")[2][:300] if lines else ""
    return {
        "status": status,
        "seconds": round(time.monotonic() - start, 1),
        "command": " ".join(command),
        "last": last,
    }


def try_configs(options: argparse.Namespace) -> int:
    """Train every config for two steps, eager and compiled; `configs.json` has the error or the seconds of each."""
    from vitspeech.training.cli import TrainingCLI  # here, so that `--help` does not wait for torch

    names = sorted(path.relative_to(HERE / "configs").with_suffix("") for path in (HERE / "configs").rglob("*.yaml"))
    names = [str(name) for name in names if name.parts[0] != "trainer"]
    file, failed = options.output / "configs.json", 0
    results = json.loads(file.read_text()) if file.exists() else {}
    accelerator = "cpu" if options.tiny else "gpu"
    for name in names[:: 20 if options.tiny else 1]:
        needs = NEEDS.get(name.split("/")[0])
        for mode in ("eager", *([] if options.tiny else ["compiled"])):
            key = f"{name}, {mode}"
            if results.get(key, "").startswith("ok"):
                continue
            if needs and not (Path(options.data) / needs).exists():
                results[key] = f"skipped: needs {needs} in {options.data}"
                continue
            arguments = [f"--config={name}", "--config=trainer/smoke", f"--trainer.accelerator={accelerator}"]
            arguments += ["--trainer.precision=bf16-mixed", "--trainer.enable_progress_bar=false"]
            arguments += ["--trainer.callbacks=null", f"--run={options.output / 'tried' / key.replace('/', '-')}"]
            arguments += [f"--data.root={options.data}"] * bool(needs) + ["--model.compile=true"] * (mode == "compiled")
            results[key] = timed(TrainingCLI, arguments)
            failed += not results[key].startswith("ok")
            print(f"{key}: {results[key]}", flush=True)
            file.write_text(json.dumps(results, indent=2) + "\n")
    good = sum(result.startswith("ok") for result in results.values())
    print(f"{good} of {len(results)} configs ran, {failed} failed")
    return int(failed > 0)


def timed(make: Callable, arguments: list[str]) -> str:
    """Train, and return `ok` with the seconds, or the error."""
    start = time.monotonic()
    try:
        make(arguments).fit()
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0][:300]
    return f"ok, {time.monotonic() - start:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
