"""The probe of distances: accuracy against the distance between the two marks that determine the label.

The theoretical receptive field says which inputs can reach an output, the effective one which do in a given network.
The probe measures what training makes of it: each network is trained anew at each distance, on images that differ only
in the place of the dot. Accuracy at chance means that the network did not learn to relate the two marks.

FOLDER/GROUP-CONFIG-7px/SEED/   a run with its curves and its model
FOLDER/probe.json               rows, settings, commit and hardware
FOLDER/probe.png                accuracy against distance
"""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.figure import Figure

from vitspeech.checkpoint.model import CARD, CONFIG, read_mapping
from vitspeech.data import TwoMarks
from vitspeech.errors import InputError
from vitspeech.files import read_json, write_json
from vitspeech.plots.style import COLORS, DASHES, MARKERS
from vitspeech.training.config import config_chain, find_config, read_config
from vitspeech.training.run_folder import is_finished
from vitspeech.training.train import TrainingCLI

CHANCE = 1 / len(TwoMarks.labels)


def probe_distance(
    configs: Sequence[str | Path],
    distances: Sequence[float],
    folder: str | Path,
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    trust: Sequence[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train every config at every distance, and collect the accuracies on the test images.

    Runs that are finished are not repeated, and interrupted runs are resumed.

    Args:
        configs: Configs on `TwoMarks`: files or names of shipped ones.
        distances: Distances between the marks, in pixels.
        folder: The folder for runs, `probe.json` and `probe.png`.
        seeds: Runs per config and distance. They differ in initialization and the order of images, not in the images.
        overrides: Further arguments of `vitspeech train` for all runs, such as `--trainer.max_epochs=3`.
        trust: Modules of your own that the configs name classes of, such as `["mine"]`.
        note: Called with a line of text before each run.

    Returns:
        The contents of `probe.json`: `rows` (model, config, parameters, distance_px, seed, accuracy, interval,
        minutes), `complete`, `settings`, and commit, hardware and versions of the last run.
    """
    folder, files = Path(folder), [find_config(config) for config in configs]
    experiments = {f"{file.resolve().parent.name}/{file.stem}": file for file in files}
    if len(experiments) < len(files) or seeds < 1:
        raise InputError(f"configs={[str(file) for file in files]} are not all different, or seeds={seeds} is below 1")
    for distance in distances:
        TwoMarks(distance)
    contents = {name: [read_config(part) for part in config_chain(file)] for name, file in experiments.items()}
    settings = {"configs": contents, "overrides": list(overrides)}
    report_file = folder / "probe.json"
    if report_file.exists() and read_json(report_file).get("settings") != settings:
        raise FileExistsError(f"{report_file}: of other configs or overrides; name another folder")
    for file in files:  # refuses what is wrong in a config or an override before anything is written
        distance = f"--data.init_args.distance={distances[0]}"
        TrainingCLI([f"--config={file}", *overrides, distance, *(f"--trust={name}" for name in trust)])
    # Seed by seed, so that an interrupted probe has complete lines to draw.
    plan = [(seed, distance, name) for seed in range(seeds) for distance in distances for name in experiments]
    report = {"rows": [], "complete": False, "settings": settings}
    write_json(report, report_file)
    for number, (seed, distance, name) in enumerate(plan, start=1):
        run = folder / f"{name.replace('/', '-')}-{distance:g}px" / str(seed)
        note(f"run {number} of {len(plan)}: {name}, {distance:g} px, seed {seed}")
        options = [*overrides, f"--data.init_args.distance={distance}", f"--seed_everything={seed}"]
        train(run, [f"--config={experiments[name]}", *options], trust)
        row, origin = read_result(run)
        report["rows"].append({"config": name, "distance_px": distance, "seed": seed, **row})
        report |= origin
        report["complete"] = number == len(plan)
        write_json(report, report_file)
        draw(report, folder / "probe.png")
    return report


def train(run: Path, arguments: Sequence[str], trust: Sequence[str] = ()) -> None:
    """Start a run, resume it, or leave it as it is if it is finished."""
    if is_finished(run):
        return
    started = (run / "config.yaml").exists()
    target = [f"--resume={run}"] if started else [*arguments, f"--run={run}"]
    TrainingCLI([*target, *(f"--trust={name}" for name in trust)]).train()


def read_result(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A finished run's accuracy and more, with the class of its network; and its commit, hardware and versions."""
    origin = ("commit", "hardware", "versions")
    card = read_mapping(run / "model" / CARD, ("metrics", "parameters", "minutes", *origin))
    network = read_mapping(run / "model" / CONFIG, ("network",))["network"]
    row = {
        "model": network["class_path"].rpartition(".")[2],
        "parameters": card["parameters"],
        "accuracy": card["metrics"]["test_accuracy"],
        "interval": card["metrics"]["interval_95"],
        "minutes": card["minutes"],
    }
    return row, {name: card[name] for name in origin}


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw one line per config through the means over seeds, and one point per run with its 95 % interval."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes, rows = figure.subplots(), report["rows"]
    lines = {row["config"]: row for row in rows}
    for (name, first), (color, marker, dashes) in zip(
        lines.items(), cycle(zip(COLORS, MARKERS, DASHES, strict=False)), strict=False
    ):
        runs = [row for row in rows if row["config"] == name]
        for row in runs:
            low, high = (100 * bound for bound in row["interval"])
            axes.plot([row["distance_px"]] * 2, [low, high], color=color, linewidth=1, alpha=0.6)
            axes.plot(row["distance_px"], 100 * row["accuracy"], marker, color=color, fillstyle="none")
        distances = sorted({row["distance_px"] for row in runs})
        means = [
            100 * mean(row["accuracy"] for row in runs if row["distance_px"] == distance) for distance in distances
        ]
        label = f"{first['model']}, {first['parameters']:,} parameters ({name})"
        axes.plot(distances, means, linestyle=dashes, marker=marker, color=color, label=label)
    axes.axhline(100 * CHANCE, color="0.4", linestyle=(0, (2, 3)), label="chance")
    axes.set(xlabel="distance between the two marks (px)", ylabel="accuracy on test pictures (%)")
    axes.set_xticks(sorted({row["distance_px"] for row in rows}))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)
