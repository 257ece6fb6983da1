"""A run: what it keeps, and that an interrupted one ends as an uninterrupted one."""

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import lightning
import pytest
import torch
import yaml
from running import weights
from tiny import ROOT, TINY, TINY_SPEECH
from torch import nn

from vitspeech.errors import InputError
from vitspeech.training.checkpoints import checkpoints
from vitspeech.training.run_folder import start
from vitspeech.training.train import TrainingCLI, train

SOURCES_OF_CHANCE = [
    "--data.init_args.augment.cutout=5",
    "--data.init_args.augment.mixup=0.5",
    "--model.network.init_args.encoder.dropout=0.1",
    "--model.network.init_args.encoder.drop_path=0.1",
    "--trainer.max_epochs=4",
]
AVERAGED = [
    "--trainer.callbacks+=lightning.pytorch.callbacks.EMAWeightAveraging",
    "--trainer.callbacks.decay=0.9",
]
STOPPED = [
    "--trainer.callbacks+=lightning.pytorch.callbacks.EarlyStopping",
    "--trainer.callbacks.monitor=val_loss",
    "--trainer.callbacks.min_delta=100",  # nothing is better than the first epoch
    "--trainer.callbacks.patience=1",
    "--trainer.max_epochs=5",
]


def test_a_run_keeps_everything(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    assert names >= {"config.yaml", "run.json", "logs", "last.ckpt", "best.ckpt", "model", "metrics.csv"}
    assert names >= {"learning_curves.png", "confusion_matrix.png"}
    assert not names & {"previous.ckpt", ".lock"} and not [name for name in names if name.endswith(".draft")]
    assert list((finished_run / "logs/0").glob("events.out.tfevents*"))
    config = yaml.safe_load((finished_run / "config.yaml").read_text())
    assert config["model"]["class_path"] == "vitspeech.Classification"
    assert config["model"]["init_args"]["network"]["class_path"] == "vitspeech.ViT"
    assert config["model"]["init_args"]["network"]["init_args"]["classes"] == 10  # from the data
    assert config["data"]["class_path"] == "vitspeech.Shapes"
    record = json.loads((finished_run / "run.json").read_text())
    assert record.keys() == {"commit", "hardware", "versions", "precision"} and record["precision"] == "32-true"


def test_a_run_from_the_kept_config_ends_with_the_same_weights(finished_run, tmp_path):
    again = tmp_path / "again"
    TrainingCLI([f"--config={finished_run}/config.yaml", f"--run={again}"]).train()
    for name, tensor in weights(finished_run).items():
        assert torch.equal(tensor, weights(again)[name]), name


def test_a_speech_run_is_a_function_of_its_seed_and_states_its_context(finished_speech_run, tmp_path):
    again = tmp_path / "again"
    TrainingCLI([*TINY_SPEECH, f"--run={again}"]).train()
    for name, tensor in weights(finished_speech_run).items():
        assert torch.equal(tensor, weights(again)[name]), name
    config, card = (again / "config.yaml").read_text(), json.loads((again / "model/card.json").read_text())
    assert card["name"] == "again"
    # Two blocks of 8 and 2 tokens of 40 ms; a token is made of 85 ms.
    for name, milliseconds in (("look_back_ms", 640), ("look_ahead_ms", 160), ("delay_ms", 245)):
        assert f"# {name}: {float(milliseconds)}" in config and card[name] == milliseconds
    assert card["metrics"]["word_clips"] == 20 and card["metrics"]["clips"] == 24
    assert 0 <= card["metrics"]["word_accuracy"] <= 1


@pytest.mark.parametrize(
    ("fixture", "task", "first", "shown", "judged_by", "best"),
    [
        ("finished_recognizer_run", "Recognition", "word_error_rate", "errors.txt", "val_error_rate", min),
        ("finished_transcriber_run", "Transcription", "word_error_rate", "errors.txt", "val_error_rate", min),
        ("finished_labeler_run", "Labeling", "frame_accuracy", "confusion_matrix.png", "val_accuracy", max),
    ],
)
def test_a_run_over_utterances_keeps_what_its_task_has_to_show(request, fixture, task, first, shown, judged_by, best):
    run = request.getfixturevalue(fixture)
    names = {path.name for path in run.iterdir()}
    assert names >= {"config.yaml", "run.json", "logs", "last.ckpt", "best.ckpt", "model", "metrics.csv"}
    assert names & {"learning_curves.png", "errors.txt", "confusion_matrix.png"} == {"learning_curves.png", shown}
    assert yaml.safe_load((run / "config.yaml").read_text())["model"]["class_path"] == f"vitspeech.{task}"
    assert yaml.safe_load((run / "model/config.yaml").read_text())["task"] == f"vitspeech.{task}"
    card = json.loads((run / "model/card.json").read_text())
    assert next(iter(card["metrics"])) == first and card["metrics"]["test_set"] == "drawn"
    rows = csv.DictReader((run / "metrics.csv").read_text().splitlines())
    values = [float(row[judged_by]) for row in rows if row[judged_by]]
    kept = torch.load(run / "best.ckpt", weights_only=True)
    scores = [state["best_model_score"] for state in kept["callbacks"].values() if "best_model_score" in state]
    assert len(values) == 2 and pytest.approx(best(values)) in [float(score) for score in scores if score is not None]


def killed_in_epoch(arguments: list[str], run: Path, epoch: int) -> None:
    """Start a run in a process of its own and kill it somewhere in that epoch, without a word."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts/train.py", *arguments, f"--run={run}"],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )
    log = run / "metrics.csv"
    deadline = time.monotonic() + 240
    try:
        while not (log.exists() and any(line.startswith(f"{epoch - 1},") for line in log.read_text().splitlines())):
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline, "the run did not get that far"
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()


def test_a_run_killed_and_resumed_ends_with_the_same_weights_bit_for_bit(tmp_path):
    arguments = [*TINY, *SOURCES_OF_CHANCE, *AVERAGED, "--trainer.log_every_n_steps=1"]
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    TrainingCLI([*arguments, f"--run={alone}"]).train()
    killed_in_epoch([*arguments, "--data.init_args.count=250"], killed, epoch=2)
    assert not (killed / "model").exists()
    TrainingCLI([f"--resume={killed}"]).train()
    assert weights(alone).keys() == weights(killed).keys()
    for name, tensor in weights(alone).items():
        assert torch.equal(tensor, weights(killed)[name]), name
    assert (killed / "metrics.csv").read_text() == (alone / "metrics.csv").read_text()
    rows = [line.split(",") for line in (killed / "metrics.csv").read_text().splitlines()]
    assert [row[1] for row in rows[1:]] == [str(step) for step in range(20)]  # each step once
    for name, epochs in (("val_loss", 4), ("train_loss_epoch", 4), ("train_loss_step", 20), ("lr-Muon/pg1", 20)):
        assert sum(bool(row[rows[0].index(name)]) for row in rows[1:]) == epochs, name


def test_a_run_killed_after_its_last_epoch_is_not_trained_on_and_still_tests_the_averaged_weights(tmp_path):
    run = tmp_path / "late"
    TrainingCLI([*TINY, *AVERAGED, *STOPPED, f"--run={run}"]).train()
    before, metrics = weights(run), (run / "metrics.csv").read_text()
    assert max(int(row["epoch"]) for row in csv.DictReader(metrics.splitlines())) == 1  # two of five epochs
    shutil.rmtree(run / "model")
    origin = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(origin | {"commit": "c0ffee"}))
    TrainingCLI([f"--resume={run}"]).train()
    card = json.loads((run / "model/card.json").read_text())
    assert card["commit"] == "c0ffee" and card["resumed"] == [origin]
    assert (run / "metrics.csv").read_text() == metrics
    for name, tensor in before.items():
        assert torch.equal(tensor, weights(run)[name]), name


def test_resuming_a_model_is_refused(finished_run):
    with pytest.raises(InputError, match=r"a trained model, not a run; --init_from .*model"):
        train(["--resume", str(finished_run / "model")])


def test_runs_are_numbered_under_their_configs_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(12):
        assert str(start(None, [Path("configs/cifar10/vit.yaml")], "seed: 0", {})) == f"runs/cifar10-vit/{number}"
    assert sorted(int(folder.name) for folder in start_together(None, 8)) == list(range(12, 20))


def start_together(run, count):
    """What each of several runs gets that start at the same time: its folder, or the error."""
    barrier = Barrier(count)

    def start_one(number):
        barrier.wait()
        try:
            return start(run, [Path("configs/cifar10/vit.yaml")], f"seed: {number}", {})
        except FileExistsError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start_one, range(count)))


def test_one_of_several_runs_that_start_together_in_one_folder_gets_it(tmp_path):
    for attempt in range(10):
        run = tmp_path / str(attempt)
        results = start_together(run, 8)
        (number,) = [number for number, result in enumerate(results) if result == run]
        assert (run / "config.yaml").read_text() == f"seed: {number}"
        assert all("--resume" in str(result) for result in results if result != run)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.filterwarnings("ignore")  # Lightning's, of its own use of torch and of a loader without workers
def test_the_best_checkpoint_of_a_resumed_run_is_the_best_of_all_epochs(tmp_path, moved):
    class Scores(lightning.LightningModule):
        """Reports a given accuracy after each epoch."""

        def __init__(self, scores):
            super().__init__()
            self.weight, self.scores = nn.Parameter(torch.zeros(1)), scores

        def training_step(self, batch):
            return self.weight.sum()

        def validation_step(self, batch):
            self.log("accuracy", self.scores[self.current_epoch], batch_size=1)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def fit(epochs, run, resumed=None):
        saving = checkpoints("accuracy", "max")
        for callback in saving:
            callback.dirpath = str(run)
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
        trainer = lightning.Trainer(max_epochs=epochs, callbacks=saving, num_sanity_val_steps=0, **quiet)
        trainer.fit(Scores([0.5, 0.9, 0.7, 0.6, 0.95]), [0], [0], ckpt_path=resumed, weights_only=True)

    run = tmp_path / "run"
    fit(2, run)
    if moved:
        run = shutil.copytree(run, tmp_path / "elsewhere")
    fit(4, run, run / "last.ckpt")
    assert torch.load(run / "best.ckpt", weights_only=True)["epoch"] == 1
    fit(5, run, run / "last.ckpt")
    assert {file.name: torch.load(file, weights_only=True)["epoch"] for file in run.iterdir()} == {
        "best.ckpt": 4,
        "last.ckpt": 4,
    }
    assert not moved or torch.load(tmp_path / "run/best.ckpt", weights_only=True)["epoch"] == 1


def test_resuming_a_finished_run_says_so_and_changes_nothing(finished_run, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}
    train(["--resume", str(finished_run)])
    assert capsys.readouterr().out == f"{finished_run} is finished; there is nothing to resume\n"
    assert {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")} == before


def test_a_run_is_not_resumed_in_another_folder(finished_run, tmp_path):
    again = shutil.copytree(finished_run, tmp_path / "again", ignore=shutil.ignore_patterns("model"))
    with pytest.raises(ValueError, match=r"resumed in its own folder, .*again; leave out --run"):
        TrainingCLI([f"--resume={again}", f"--run={tmp_path / 'other'}"])
    TrainingCLI([f"--resume={again}", f"--run={again}"])


@pytest.mark.gpu
def test_a_run_on_a_gpu_in_bf16_and_compiled_comes_to_its_end(tmp_path):
    run = tmp_path / "gpu"
    TrainingCLI([*TINY, f"--config={ROOT}/configs/trainer/gpu.yaml", "--trainer.max_epochs=2", f"--run={run}"]).train()
    assert (run / "model" / "card.json").exists()


def test_loggers_and_checkpoints_of_the_users_own_are_written_too(tmp_path, capsys):
    run, own = tmp_path / "run", tmp_path / "own"
    logger = {"class_path": "lightning.pytorch.loggers.CSVLogger", "init_args": {"save_dir": str(own)}}
    callback = {"class_path": "lightning.pytorch.callbacks.ModelCheckpoint", "init_args": {"filename": "mine"}}
    parts = [f"--trainer.logger={json.dumps(logger)}", f"--trainer.callbacks={json.dumps([callback])}"]
    TrainingCLI([*TINY, "--trainer.max_epochs=1", *parts, f"--run={run}"]).train()
    assert "val_accuracy" in next(own.rglob("metrics.csv")).read_text()
    said = [line for line in capsys.readouterr().out.splitlines() if "outside of the run" in line]
    assert said == [f"trainer.logger.init_args.save_dir: {own} is outside of the run's folder, and is written to"]
    assert (run / "metrics.csv").exists() and (run / "checkpoints/mine.ckpt").exists()
