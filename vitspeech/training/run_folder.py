"""The folder of a run: how it is chosen, and what it contains.

RUN/config.yaml          the resolved config
RUN/run.json             commit, hardware, versions, precision; `resumed` has those of later starts where they differ
RUN/logs/                TensorBoard logs, one folder for each start of the run
RUN/last.ckpt best.ckpt  checkpoints of the last epoch and of the best one by the task's validation metric
RUN/previous.ckpt        the previous last.ckpt, until the run is finished
RUN/model/               the final weights as a released model with their card; written last, so the run is finished
RUN/init_from.json       with `--init_from`: which weights were taken from where
RUN/training_items.txt   the training items, hashed, if the data set names its items
RUN/metrics.csv          losses, metrics and learning rates, written with each checkpoint
RUN/learning_curves.png
RUN/confusion_matrix.png and classes.csv, or errors.txt: the errors on the test set
RUN/speakers.csv, lengths.csv and errors.png: of transcripts, error rates by speaker and by length
RUN/lengths.csv and cross_attention.png: for symbols, accuracy by length, and what the decoder attends to
RUN/masked_speech.png    of pre-training: what the network predicts for masked speech
RUN/.lock                while the run is trained: which process does it
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import nn

from vitspeech import checkpoint
from vitspeech.checkpoint.hub import PREFIX as HUB
from vitspeech.checkpoint.leakage import TRAINING_ITEMS, split_checksums
from vitspeech.checkpoint.model import RUN_FILES, beside
from vitspeech.checkpoint.multi_seed import without_folders
from vitspeech.data.module import DataModule
from vitspeech.data.utterances.word_sequences import own_manifests
from vitspeech.errors import InputError
from vitspeech.evaluation import Report
from vitspeech.files import check_links, read_json, read_yaml, write_json, write_text
from vitspeech.frontends import SpeechEmbedding
from vitspeech.plots.curves import draw_learning_curves
from vitspeech.provenance import with_start
from vitspeech.training.checkpoints import BEST, LAST, METRICS, PREVIOUS, read_metrics
from vitspeech.training.interrupts import LOCK, RunLock

CONFIG = "config.yaml"
INIT_FROM = "init_from.json"
STARTED = (CONFIG, "run.json", INIT_FROM, TRAINING_ITEMS, METRICS, LOCK)  # files of a run before its first checkpoint
NAMES = dict.fromkeys((CONFIG, "run.json", INIT_FROM, METRICS, "logs", LAST, BEST, PREVIOUS, "model", *RUN_FILES))
DRAFTS = [beside(Path("model"), role).name for role in ("before", "draft")]  # saving a model makes and removes these
# Arguments of data that a card does not repeat: they matter in training, or on one machine, only.
TRAINING_ONLY = set("root batch batch_s augment download workers storage broken speech".split())


def check_run_links(run: str | Path) -> None:
    """Refuse links out of a run, which somebody else may have made: training would read or replace what they point to.

    A checkpoint may be on another disk: `last.ckpt` may be a link to a file of that ending.
    """
    last = Path(run, LAST)
    names = [name for name in NAMES if name != LAST or not os.path.realpath(last).endswith(".ckpt")]
    check_links(run, [*names, *DRAFTS, "checkpoints"])


def resumed_config(run: str | Path) -> Path:
    """The config of a run to resume."""
    check_run_links(run)
    if (Path(run) / checkpoint.CARD).is_file():
        raise InputError(f"{run}: a trained model, not a run; --init_from {run} starts a new run from its weights")
    file = Path(run) / CONFIG
    if not file.is_file():
        raise FileNotFoundError(f"{run}: no run to resume; it has no config.yaml")
    return file


def is_finished(run: str | Path) -> bool:
    """Whether a run is trained and tested; its model is written last."""
    return (Path(run) / "model").is_dir()


def check_free(run: str | Path) -> None:
    """Refuse a folder that holds a run, or anything under a name of a run's files, which would be overwritten."""
    found = [name for name in NAMES if os.path.lexists(Path(run) / name)]
    if not found:
        check_run_links(run)
        return
    if not (Path(run) / CONFIG).is_file():  # after the others: a run that starts just now writes it first
        raise FileExistsError(f"{run}: has {found[0]}, a name that a run writes to; name another folder, or move it")
    raise FileExistsError(f"{run}: holds a run already; continue it with --resume {run}, or name another folder")


def start(
    run: str | None, configs: Sequence[Path], config: str, origin: dict[str, Any], lock: RunLock | None = None
) -> Path:
    """Start a new run in the folder `run`, or in the next free number under `runs/CONFIG/`.

    Of several runs that start at the same time, one gets a folder, and the others get another one or are refused.

    Args:
        run: The folder that the user names, or `None`.
        configs: The configs that the command line names; the first one, `configs/cifar10/vit.yaml`, names the run,
            `cifar10-vit`.
        config: The resolved config.
        origin: The `provenance` of this start, and the checksums of the weights that it learns from.
        lock: Holds the folder from here on.
    """
    if run is None:
        first = Path(configs[0] if configs else "run.yaml").resolve()
        folder = next_folder(Path("runs", f"{first.parent.name}-{first.stem}"))
    else:
        folder = Path(run)
        folder.mkdir(parents=True, exist_ok=True)
    if lock is not None:
        lock.acquire(folder)
    check_free(folder)
    try:
        file = (folder / CONFIG).open("x", encoding="utf-8")  # one process only can create it
    except FileExistsError:
        check_free(folder)
        raise
    try:
        with file:
            file.write(config)
    except BaseException:  # a full disk or Ctrl-C: an empty config would block the folder
        (folder / CONFIG).unlink()
        raise
    write_json(with_start(None, origin), folder / "run.json")
    return folder


def resume(folder: Path, config: str, origin: dict[str, Any]) -> None:
    """Write the resolved config, which the command line may have changed, and add the `provenance` of this start.

    Drafts that were being written when the run was killed are removed.
    """
    for draft in folder.glob(".*.draft"):  # of files; a model's is a folder, which saving it replaces
        if draft.is_file():
            draft.unlink()
    write_text(config, folder / CONFIG)
    file = folder / "run.json"
    write_json(with_start(read_json(file) if file.exists() else None, origin), file)


def check_learned_from(run: str | Path, sums: dict[str, Any]) -> None:
    """Refuse a run that would go on with other weights than it began with, of its teachers or of its start.

    Args:
        run: The folder of the run.
        sums: Their present checksums, by the keys of run.json; without those of the start if there is a checkpoint.
    """
    file = Path(run, "run.json")
    before = read_json(file) if file.exists() else {}
    kinds = {"starts_from_sha256": "the model that it starts from has", "teachers_sha256": "its teachers have"}
    for key, kind in kinds.items():
        if key in sums and before.get(key, sums[key]) != sums[key]:
            raise InputError(f"{run}: {kind} other weights than when the run began; start a new run")


def discard(folder: Path) -> None:
    """Remove the files of a run that could not start, and the folder if nothing else is in it.

    They are the run's own, see `check_free`. A run with a checkpoint remains.
    """
    if any((folder / name).exists() for name in (LAST, PREVIOUS)):
        return
    for name in STARTED:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "logs", ignore_errors=True)
    with suppress(OSError):  # it holds files of the user's
        folder.rmdir()


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


def write_results(
    run: Path, network: nn.Module, model: dict[str, Any], data: DataModule, report: Report, minutes: float
) -> Path:
    """Write curves, the errors on the test set, and the released model, which finishes the run.

    Args:
        run: Folder of the run.
        network: The network to save.
        model: The `model` of a config that describes it; see `Task.trained_model`.
        data: What it was trained on.
        report: Its errors on the test set.
        minutes: How long it was trained.

    Returns:
        The file with the errors on the test set.
    """
    config = read_yaml(run / CONFIG)
    teachers = (config["model"]["init_args"].get("distillation") or {}).get("teachers", [])
    teachers = [teachers] if isinstance(teachers, str) else teachers
    card = {
        "name": model_name(str(run)),
        "data": test_set(config["data"]),
        "split": "test",
        **({"splits": split_checksums(names)} if (names := data.item_names()) else {}),
        **({} if (heard := getattr(data, "heard_words", None)) is None else {"heard_words": heard}),
        "metrics": report.metrics,
        **({"starts_from": model_name(config["init_from"])} if config.get("init_from") else {}),
        **({"teachers": [model_name(folder) for folder in teachers]} if teachers else {}),
        **({"weights_from": found} if (found := weights_from(network)) else {}),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        **getattr(network, "context_ms", {}),
        "seeds": [config["seed_everything"]],
        "minutes": round(minutes, 1),
        **read_json(run / "run.json"),
    }
    draw_learning_curves(read_metrics((run / METRICS).read_text("utf-8")), run / "learning_curves.png")
    errors = report.write(run)
    names, network_config = list(data.labels), model["init_args"].get("network")
    saved = checkpoint.Model(network, names, data.preprocessing, card, network_config, task=model["class_path"])
    (run / PREVIOUS).unlink(missing_ok=True)
    checkpoint.save(saved, run / "model", own_manifests(data))
    return errors


def weights_from(network: nn.Module) -> list[dict[str, str]]:
    """The files of installed packages whose weights a network reads and does not save, as `SpeechEmbedding` does."""
    return [module.weights_from for module in network.modules() if isinstance(module, SpeechEmbedding)]


def model_name(folder: str) -> str:
    """`flowers` for checkpoints/flowers, and for the runs runs/flowers and runs/flowers/0; a name on the hub stays."""
    if folder.startswith(HUB):
        return folder
    path = Path(folder).resolve()
    path = path.parent if path.name == "model" else path
    return path.parent.name if path.name.isdigit() else path.name


def test_set(data: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a data set without what matters only in training, and without folders of this machine."""
    arguments = {
        name: test_set(value) if isinstance(value, dict) and "class_path" in value else without_folders(value)
        for name, value in (data.get("init_args") or {}).items()
        if name not in TRAINING_ONLY and not (isinstance(value, str) and is_place(name, value))
    }
    return {"class_path": data["class_path"], "init_args": arguments}


def is_place(name: str, value: str) -> bool:
    """Whether an argument of data names a folder or file of this machine; `path` may be a name on the hub."""
    return Path(value).is_absolute() or (name == "path" and Path(value).exists())
