"""The folder of a run: how it is chosen, and what it contains.

RUN/config.yaml          the resolved config
RUN/run.json             commit, hardware, versions; `resumed` has those of later starts where they differ
RUN/logs/                CSV and TensorBoard logs, one folder for each start of the run
RUN/last.ckpt best.ckpt  checkpoints of the last epoch and of the best one by the task's validation metric
RUN/model/               the final weights as a released model with their card; written last, so the run is finished
RUN/training_items.txt   the training items, hashed, if the data set names its items
RUN/metrics.csv learning_curves.png
RUN/confusion_matrix.png and classes.csv, or errors.txt: the errors on the test set
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from torch import nn

from vitspeech import checkpoint
from vitspeech.checkpoint.items import split_checksums
from vitspeech.data.files import write_json, write_text
from vitspeech.data.module import InMemoryData
from vitspeech.evaluation import Report
from vitspeech.plots.curves import draw_learning_curves, merge_metrics
from vitspeech.provenance import with_start

TRAINING_ONLY = {"root", "batch", "augment", "download", "workers"}  # arguments of data that a card does not repeat
PATHS_OF_CHECKPOINTS = ("best_model_path", "kth_best_model_path", "last_model_path")  # in a callback's state


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
    """Refuse a folder that holds a run.

    Raises:
        FileExistsError: If `run` has a config.yaml.
    """
    if (Path(run) / "config.yaml").exists():
        raise FileExistsError(f"{run}: holds a run already; continue it with --resume {run}, or name another folder")


def start(run: str | None, configs: Sequence[Path], config: str, origin: dict[str, Any]) -> Path:
    """Start a new run in the folder `run`, or in the next free number under `runs/CONFIG/`.

    Of several runs that start at the same time, one gets a folder, and the others get another one or are refused.

    Args:
        run: The folder that the user names, or `None`.
        configs: The configs that the command line names; the first one names the run.
        config: The resolved config.
        origin: The `provenance` of this start.

    Raises:
        FileExistsError: If `run` already holds a run.
    """
    if run is None:
        folder = next_folder(Path("runs", run_name(configs)))
    else:
        folder = Path(run)
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with (folder / "config.yaml").open("x") as file:  # one process only can create it
            file.write(config)
    except FileExistsError:
        check_free(folder)
        raise
    write_json(with_start(None, origin), folder / "run.json")
    return folder


def resume(run: str | Path, config: str, origin: dict[str, Any]) -> Path:
    """Write the resolved config, which the command line may have changed, and add the `provenance` of this start."""
    folder = Path(run)
    write_text(config, folder / "config.yaml")
    file = folder / "run.json"
    write_json(with_start(json.loads(file.read_text()) if file.exists() else None, origin), file)
    return folder


class OpenRun(Callback):
    """Opens the folder of a run when training starts, and puts the logs and checkpoints there.

    The first process opens it, and tells the others of a run on several devices where it is.

    Args:
        open_folder: Starts or resumes a run; called in the first process only.
        checkpoints: Those that are saved in the folder.

    Attributes:
        folder: `None` until training starts.
    """

    def __init__(self, open_folder: Callable[[], Path], checkpoints: Sequence[ModelCheckpoint]) -> None:
        self.open_folder, self.checkpoints = open_folder, checkpoints
        self.folder: Path | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.folder = trainer.strategy.broadcast(self.open_folder() if trainer.is_global_zero else None)
        trainer.loggers = loggers(self.folder)
        for checkpoint_callback in self.checkpoints:
            checkpoint_callback.dirpath = str(self.folder.resolve())


class RunCheckpoint(ModelCheckpoint):
    """A checkpoint of a run whose folder may have been moved before it is resumed.

    Lightning forgets the best value so far if the checkpoint is in another folder than when it was saved.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        def here(path: str) -> str:
            return str(Path(self.dirpath, Path(path).name)) if path else path

        paths = {name: here(state_dict[name]) for name in PATHS_OF_CHECKPOINTS}
        best = {here(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict(state_dict | paths | {"best_k_models": best, "dirpath": self.dirpath})


def checkpoints(monitor: str, mode: str) -> list[ModelCheckpoint]:
    """The callbacks that save `best.ckpt` and `last.ckpt` after each epoch, in this order.

    `last.ckpt` holds the best value so far, which a resumed run must reach. It is therefore saved after `best.ckpt`.

    Args:
        monitor: The validation metric by which the best epoch is chosen.
        mode: `max` or `min`: whether higher or lower values of it are better.
    """
    saving = {"enable_version_counter": False, "save_on_train_epoch_end": True}
    best = RunCheckpoint(filename="best", monitor=monitor, mode=mode, **saving)
    return [best, RunCheckpoint(filename="last", **saving)]


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


def write_results(run: Path, network: nn.Module, data: InMemoryData, report: Report, minutes: float) -> Path:
    """Write curves, the errors on the test set, and the released model, which finishes the run.

    Returns:
        The file with the errors on the test set.
    """
    config = yaml.safe_load((run / "config.yaml").read_text())
    model_config = config["model"]["init_args"]["network"]
    card = {
        "name": run.parent.name if run.name.isdigit() else run.name,  # runs/cifar10-vit/0, or --run flowers
        "data": test_set(config["data"]),
        "split": "test",
        **({"splits": split_checksums(names)} if (names := data.item_names()) else {}),
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
