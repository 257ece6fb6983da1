"""The folder of a run: how it is chosen, and what it contains.

RUN/config.yaml          the resolved config
RUN/run.json             commit, hardware, versions; `resumed` has those of later starts where they differ
RUN/logs/                CSV and TensorBoard logs, one folder for each start of the run
RUN/last.ckpt best.ckpt  checkpoints of the last epoch and of the best one by the task's validation metric
RUN/model/               the final weights as a released model with their card; written last, so the run is finished
RUN/metrics.csv learning_curves.png
RUN/confusion_matrix.png or errors.txt: the errors on the test set
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from torch import nn

from vitspeech import checkpoint
from vitspeech.data.files import write_json, write_text
from vitspeech.data.module import InMemoryData
from vitspeech.evaluation import Report
from vitspeech.plots.curves import draw_learning_curves, merge_metrics
from vitspeech.provenance import with_start

FOLDER_VARIABLE = "VITSPEECH_RUN"  # hands the folder of a run to the processes that Lightning starts for more devices
TRAINING_ONLY = {"root", "batch", "augment", "download", "workers"}  # arguments of data that a card does not repeat


def resumed_config(run: str | Path) -> Path:
    """The config of a run to resume.

    Raises:
        FileNotFoundError: If there is no such run.
    """
    file = Path(run) / "config.yaml"
    if not file.is_file():
        raise FileNotFoundError(f"{run}: no run to resume; it has no config.yaml")
    return file


def is_finished(run: str | Path) -> bool:
    """Whether a run is trained and tested; its model is written last."""
    return (Path(run) / "model").is_dir()


def check_free(run: str | Path) -> None:
    """Refuse a folder that holds a run, unless this is a further process of that run.

    Raises:
        FileExistsError: If `run` has a config.yaml.
    """
    if (Path(run) / "config.yaml").exists() and not is_further_process():
        raise FileExistsError(f"{run}: holds a run already; continue it with --resume {run}, or name another folder")


def is_further_process() -> bool:
    """Whether this is not the first process of a run on several devices."""
    return os.environ.get("LOCAL_RANK", "0") != "0"


def create_folder(run: str | None, configs: Sequence[Path]) -> Path:
    """Create the folder of a new run: `run`, or the next free number under `runs/CONFIG/`.

    Two runs that start at the same time get different numbers, since only one of them can create a folder.

    Args:
        run: The folder that the user names, or `None`.
        configs: The configs that the command line names; the first one names the run.

    Raises:
        FileExistsError: If `run` already holds a run.
        ValueError: If this is one of several processes that were not started by Lightning, and `run` is `None`.
    """
    if "LOCAL_RANK" in os.environ and FOLDER_VARIABLE in os.environ:
        return Path(os.environ[FOLDER_VARIABLE])
    if run is None and is_further_process():
        raise ValueError("processes that are started from outside need one folder: name it with --run FOLDER")
    if run is not None:
        folder = Path(run)
        check_free(folder)
        folder.mkdir(parents=True, exist_ok=True)
    else:
        folder = next_folder(Path("runs", run_name(configs)))
    os.environ[FOLDER_VARIABLE] = str(folder)
    return folder


def run_name(configs: Sequence[Path]) -> str:
    """The name of a run after its first config: `cifar10-vit` for `configs/cifar10/vit.yaml`."""
    first = Path(configs[0] if configs else "run.yaml").resolve()
    return f"{first.parent.name}-{first.stem}"


def next_folder(parent: Path) -> Path:
    """Create the folder with the next free number in `parent`."""
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        numbers = [int(path.name) for path in parent.glob("*") if path.name.isdigit()]
        folder = parent / str(max(numbers, default=-1) + 1)
        try:
            folder.mkdir()
        except FileExistsError:  # another run created it in the meantime
            continue
        return folder


def loggers(run: Path) -> list[Logger]:
    """The CSV and TensorBoard logs of the run, one folder per start."""
    start = {"save_dir": run, "name": "logs", "version": str(sum(1 for _ in (run / "logs").glob("*")))}
    return [CSVLogger(**start, flush_logs_every_n_steps=1), TensorBoardLogger(**start)]


def epochs_done(run: Path) -> int:
    """The number of epochs after which the last checkpoint was written; 0 without one."""
    if not (run / "last.ckpt").exists():
        return 0
    return torch.load(run / "last.ckpt", map_location="cpu", weights_only=True, mmap=True)["epoch"] + 1


def write_start(run: Path, config: str, origin: dict[str, Any]) -> None:
    """Write the resolved config, and add the `provenance` of this start to run.json."""
    write_text(config, run / "config.yaml")
    file = run / "run.json"
    write_json(with_start(json.loads(file.read_text()) if file.exists() else None, origin), file)


def write_results(run: Path, network: nn.Module, data: InMemoryData, report: Report, minutes: float) -> Path:
    """Write curves, the errors on the test set, and the released model, which finishes the run.

    Returns:
        The file with the errors on the test set.
    """
    config = yaml.safe_load((run / "config.yaml").read_text())
    model_config = config["model"]["init_args"]["network"]
    card = {
        "name": run.parent.name,
        "data": test_set(config["data"]),
        "split": "test",
        "metrics": report.metrics,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        **getattr(network, "context_ms", {}),
        "seeds": [config["seed_everything"]],
        "minutes": round(minutes, 1),
        **json.loads((run / "run.json").read_text()),
    }
    draw_learning_curves(merge_metrics(run), run / "learning_curves.png")
    errors = report.write(run)
    model = checkpoint.Model(
        network, list(data.labels), data.preprocessing, card, model_config, task=config["model"]["class_path"]
    )
    checkpoint.save(model, run / "model")
    return errors


def test_set(data: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a data set without the arguments that matter only in training, and without its folder."""
    arguments = {
        name: test_set(value) if isinstance(value, dict) and "class_path" in value else value
        for name, value in (data.get("init_args") or {}).items()
        if name not in TRAINING_ONLY
    }
    return {"class_path": data["class_path"], "init_args": arguments}
