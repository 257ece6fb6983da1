"""How far a network can relate what it sees: accuracy against the distance of the two marks that make the answer.

The theoretical field says what could reach an output, the effective one what does in a given network. This asks what
training makes of it: each network is trained anew at each distance, on pictures that differ in nothing but where the
dot lies. Where it stays at chance it did not learn to bring the two marks together, whatever its field.

FOLDER/GROUP-CONFIG-7px/SEED/   a run like any other, with its curves and its model
FOLDER/probe.json               the rows, what was asked, commit and hardware
FOLDER/probe.png                accuracy against distance
"""

import json
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import mean
from typing import Any

import yaml
from matplotlib.figure import Figure

from vitspeech.checkpoint.folder import CARD, CONFIG, read_mapping
from vitspeech.data import TwoMarks
from vitspeech.data.files import write_json
from vitspeech.plots.style import COLORS, DASHES, MARKERS
from vitspeech.provenance import provenance
from vitspeech.training.cli import TrainingCLI

CHANCE = 1 / len(TwoMarks.labels)


def probe_distance(
    configs: Sequence[str | Path],
    distances: Sequence[float],
    folder: str | Path,
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train every config at every distance, and gather how often each is right on the test pictures.

    A run that is finished is not made again, and one that was broken off goes on where it stopped.

    Args:
        configs: Experiments on `TwoMarks`, or on another data set with a `distance`.
        distances: Between the marks, in px.
        folder: Where runs, numbers and picture go.
        seeds: Runs of each; they differ in the network's start and in the order of the pictures, which are the same.
        overrides: What else the command line of `train.py` takes, for all runs: `--trainer.max_epochs=3`.
        note: Told which run begins.

    Returns:
        What `probe.json` holds: `rows` (model, config, parameters, distance_px, seed, accuracy, interval, minutes),
        `complete`, `settings`, and where the numbers are from.

    Raises:
        FileExistsError: If `folder` holds a probe of other configs or overrides.
        ValueError: If two configs have one name, `seeds` is below 1, or a distance does not fit the pictures.
    """
    folder, named = Path(folder), {f"{Path(file).parent.name}/{Path(file).stem}": file for file in configs}
    if len(named) < len(configs) or seeds < 1:
        raise ValueError(
            f"configs={[str(file) for file in configs]} are not all different, or seeds={seeds} is below 1"
        )
    for distance in distances:
        TwoMarks(distance)
    read = {name: yaml.safe_load(Path(file).read_text()) for name, file in named.items()}
    settings = {"configs": read, "overrides": list(overrides)}
    report_file = folder / "probe.json"
    if report_file.exists() and json.loads(report_file.read_text())["settings"] != settings:
        raise FileExistsError(f"{report_file}: of other configs or overrides; name another folder")
    # Seed by seed, so that a probe broken off has whole lines to show.
    plan = [(seed, distance, name) for seed in range(seeds) for distance in distances for name in named]
    report = {"rows": [], "complete": False, "settings": settings, **provenance()}
    write_json(report, report_file)
    for number, (seed, distance, name) in enumerate(plan, start=1):
        run = folder / f"{name.replace('/', '-')}-{distance:g}px" / str(seed)
        note(f"run {number} of {len(plan)}: {name}, {distance:g} px, seed {seed}")
        chosen = [*overrides, f"--data.init_args.distance={distance}", f"--seed_everything={seed}"]
        train(run, [f"--config={named[name]}", *chosen])
        report["rows"].append({"config": name, "distance_px": distance, "seed": seed, **found(run)})
        report["complete"] = number == len(plan)
        write_json(report, report_file)
        draw(report, folder / "probe.png")
    return report


def train(run: Path, arguments: Sequence[str]) -> None:
    """Bring a run to its end, from wherever it is."""
    if (run / "model").is_dir():
        return
    started = (run / "config.yaml").exists()
    TrainingCLI([f"--resume={run}"] if started else [*arguments, f"--run={run}"]).train()


def found(run: Path) -> dict[str, Any]:
    """What a finished run's card says of it, and the name of its network's class."""
    card = read_mapping(run / "model" / CARD, ("metrics", "parameters", "minutes"))
    network = read_mapping(run / "model" / CONFIG, ("network",))["network"]
    return {
        "model": network["class_path"].rpartition(".")[2],
        "parameters": card["parameters"],
        "accuracy": card["metrics"]["test_accuracy"],
        "interval": card["metrics"]["interval_95"],
        "minutes": card["minutes"],
    }


def draw(report: dict[str, Any], path: Path) -> None:
    """A line for each config through the means over seeds; each run is a point with its 95 % interval."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes, rows = figure.subplots(), report["rows"]
    lines = {row["config"]: row for row in rows}
    for (name, first), (color, marker, dashes) in zip(
        lines.items(), cycle(zip(COLORS, MARKERS, DASHES, strict=False)), strict=False
    ):
        own = [row for row in rows if row["config"] == name]
        for row in own:
            low, high = (100 * bound for bound in row["interval"])
            axes.plot([row["distance_px"]] * 2, [low, high], color=color, linewidth=1, alpha=0.6)
            axes.plot(row["distance_px"], 100 * row["accuracy"], marker, color=color, fillstyle="none")
        distances = sorted({row["distance_px"] for row in own})
        means = [100 * mean(row["accuracy"] for row in own if row["distance_px"] == distance) for distance in distances]
        label = f"{first['model']}, {first['parameters']:,} parameters ({name})"
        axes.plot(distances, means, dashes, marker=marker, color=color, label=label)
    axes.axhline(100 * CHANCE, color="0.4", linestyle=(0, (2, 3)), label="chance")
    axes.set(xlabel="distance between the two marks (px)", ylabel="accuracy on test pictures (%)")
    axes.set_xticks(sorted({row["distance_px"] for row in rows}))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)
