"""The progress of training: the time remaining of the whole run, and one line per epoch in a log file."""

import re

import lightning
import pytest
import torch
from torch import nn

from vitspeech.training.callbacks import Progress


class Nothing(lightning.LightningModule):
    """Learns nothing, and reports what a task reports."""

    monitor = "val_accuracy"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def training_step(self, batch, number):
        self.log("train_loss", 0.25, on_step=True, on_epoch=True, prog_bar=True, batch_size=1)
        return self.weight.sum()

    def validation_step(self, batch, number):
        self.log("val_accuracy", 0.9, batch_size=1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def train(progress, **options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(callbacks=[progress], **quiet, **options)
    trainer.fit(Nothing(), [0, 1], [0])


@pytest.mark.filterwarnings("ignore")  # Lightning's, of a loader without workers
def test_without_a_terminal_there_is_one_line_per_epoch(capsys):
    train(Progress(), max_epochs=3, check_val_every_n_epoch=2)
    output = capsys.readouterr()
    assert output.err == "" and "\r" not in output.out
    assert re.sub(r"\d:\d\d:\d\d", "TIME", output.out).splitlines() == [
        "epoch 1 of 3: train_loss 0.25, TIME left",
        "epoch 2 of 3: train_loss 0.25, val_accuracy 0.9, TIME left",
        "epoch 3 of 3: train_loss 0.25, TIME left",
    ]
    assert output.out.rstrip().endswith("0:00:00 left")


@pytest.mark.filterwarnings("ignore")
def test_in_a_terminal_a_bar_shows_the_time_remaining_of_the_run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    train(Progress(lines=False), max_epochs=2)
    output = capsys.readouterr().out
    assert "epoch 2 of 2: 100%" in output and "train_loss_epoch=0.250" in output
    assert re.search(r"left=\d:\d\d:\d\d", output) and "v_num" not in output and "<" not in output


@pytest.mark.parametrize(("first", "seconds"), [(0, "0:01:30"), (10, "0:03:00")])
def test_the_time_remaining_follows_from_the_steps_since_this_start(monkeypatch, first, seconds):
    """After 20 of 50 steps and 60 s: 30 steps at 3 s, or at 6 s if the first 10 were those of an earlier start."""

    class Trainer:
        global_step, estimated_stepping_batches = 20, 50

    progress = Progress(lines=True)
    progress.started, progress.first_step = 100.0, first
    monkeypatch.setattr("time.monotonic", lambda: 160.0)
    assert progress.remaining(Trainer()) == seconds
