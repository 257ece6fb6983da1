"""A run that stops within an epoch goes on at the next batch, and ends as one that did not stop."""

import io
from pathlib import Path

import datasets
import numpy
import pytest
import soundfile
import torch
from PIL import Image
from running import weights
from tiny import TINY, TINY_SEQUENCES

from vitspeech.data.images.shapes import Shapes
from vitspeech.data.keywords.items import KeywordItems
from vitspeech.errors import InputError
from vitspeech.training.checkpoints import ASK_EVERY, LastCheckpoint
from vitspeech.training.train import TrainingCLI

RUN = [
    *TINY,
    "--every_steps=1",
    "--data.init_args.augment.cutout=5",
    "--data.init_args.augment.mixup=0.5",
    "--model.network.init_args.encoder.dropout=0.1",
    "--model.network.init_args.encoder.depth=1",
    "--trainer.log_every_n_steps=2",
]  # two epochs of five steps
AVERAGED = [
    "--trainer.callbacks+=lightning.pytorch.callbacks.EMAWeightAveraging",
    "--trainer.callbacks.decay=0.5",
]
ACCUMULATED = ["--trainer.accumulate_grad_batches=2"]


class Stopped(Exception):
    """Stops a run as a kill does: nothing is saved."""


def same_end(one: Path, other: Path) -> None:
    """Two runs have the same weights bit for bit, and the same losses and metrics at each step."""
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(other)[name]), name
    assert (one / "metrics.csv").read_text() == (other / "metrics.csv").read_text()


def stopped_after(step: int, arguments: list[str], monkeypatch) -> None:
    """Train up to an optimizer step."""
    saving = LastCheckpoint.on_train_batch_end

    def save_and_stop(self, trainer, task, outputs, batch, batch_idx):
        saving(self, trainer, task, outputs, batch, batch_idx)
        if trainer.global_step == step and (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(LastCheckpoint, "on_train_batch_end", save_and_stop)
        with pytest.raises(Stopped):
            TrainingCLI(arguments).train()


VALIDATED = ["--trainer.val_check_interval=2"]  # so there is no checkpoint at the steps 2, 4, 7 and 9


@pytest.mark.parametrize(
    ("options", "steps", "workers"),
    [([*VALIDATED, *AVERAGED], [3, 8], 0), (ACCUMULATED, [4, 6], 0), ([], [1, 9], 2)],
    ids=["validated and averaged", "accumulated", "workers"],
)
def test_a_run_stopped_within_an_epoch_ends_bit_for_bit_as_one_left_alone(
    tmp_path, monkeypatch, capsys, options, steps, workers
):
    monkeypatch.setattr(Shapes, "workers", workers)
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    TrainingCLI([*RUN, *options, f"--run={alone}"]).train()
    stopped_after(steps[0], [*RUN, *options, f"--run={stopped}"], monkeypatch)
    for step in steps[1:]:
        stopped_after(step, [f"--resume={stopped}"], monkeypatch)
    capsys.readouterr()
    TrainingCLI([f"--resume={stopped}"]).train()
    micro_batches = 2 if options == ACCUMULATED else 1
    last, epochs = steps[-1] % 5 * micro_batches, steps[-1] // 5
    assert f"resuming after {epochs} of 2 epochs and {last} batch" in capsys.readouterr().out
    same_end(alone, stopped)


def test_a_run_on_utterances_goes_on_within_an_epoch(tmp_path, monkeypatch):
    arguments = [*TINY_SEQUENCES, "--every_steps=2", "--trainer.log_every_n_steps=1"]
    TrainingCLI([*arguments, f"--run={tmp_path / 'alone'}"]).train()
    stopped_after(2, [*arguments, f"--run={tmp_path / 'stopped'}"], monkeypatch)
    TrainingCLI([f"--resume={tmp_path / 'stopped'}"]).train()
    same_end(tmp_path / "alone", tmp_path / "stopped")


@pytest.fixture
def mining(tmp_path, monkeypatch):
    monkeypatch.setattr("vitspeech.data.audio.continuous.split_of_speaker", lambda speaker: "train")
    generator = numpy.random.default_rng(0)
    for word in ("go", "stop"):
        (tmp_path / "words" / word).mkdir(parents=True)
        for number in range(20):
            clip = generator.normal(0, 3000, 16_000).astype(numpy.int16)
            soundfile.write(tmp_path / "words" / word / f"{number}.wav", clip, 16_000)
    (tmp_path / "words" / "_speech_").mkdir()
    sound = generator.normal(0, 2000, 30 * 16_000).astype(numpy.int16)
    soundfile.write(tmp_path / "words" / "_speech_" / "reading.wav", sound, 16_000)
    encoder = {"depth": 1, "heads": 1, "left": 2, "right": 1}
    return [
        "--data=vitspeech.Keywords",
        "--data.words=[go,stop]",
        f"--data.root={tmp_path / 'words'}",
        "--data.mined=0.5",
        "--data.speech_cuts=1",
        "--data.batch=16",
        "--model=vitspeech.Spotting",
        "--model.network=vitspeech.SpeechClassifier",
        "--model.network.tokens=vitspeech.SpeechFrontend",
        "--model.network.tokens.width=8",
        "--model.network.tokens.mels=8",
        "--model.network.tokens.stride=8",
        f"--model.network.encoder={encoder}",
        "--trainer.max_epochs=4",
        "--trainer.accelerator=cpu",
        "--trainer.log_every_n_steps=1",
        "--every_steps=1",
    ]


def test_a_run_with_hard_negatives_goes_on_within_an_epoch(tmp_path, monkeypatch, mining):
    mined, mine = [], KeywordItems.mine
    monkeypatch.setattr(KeywordItems, "mine", lambda self, network: mined.append(1) or mine(self, network))
    TrainingCLI([*mining, f"--run={tmp_path / 'alone'}"]).train()
    assert len(mined) == 3
    stopped_after(4, [*mining, f"--run={tmp_path / 'stopped'}"], monkeypatch)
    TrainingCLI([f"--resume={tmp_path / 'stopped'}"]).train()
    same_end(tmp_path / "alone", tmp_path / "stopped")
    assert len(mined) == 6  # nothing is mined again within an epoch


def test_other_batches_are_refused_within_an_epoch(tmp_path, monkeypatch):
    run = tmp_path / "run"
    stopped_after(2, [*RUN, f"--run={run}"], monkeypatch)
    for option, message in (
        ("--data.init_args.batch=25", "was saved within an epoch with batch=50, not 25"),
        ("--trainer.accumulate_grad_batches=5", "was saved within an epoch with accumulate=1, not 5"),
        ("--data.init_args.count=300", "was saved within an epoch with items=250, not 300"),
        ("--seed_everything=3", "was saved with seed_everything=0, not 3"),
    ):
        with pytest.raises(InputError, match=message):
            TrainingCLI([f"--resume={run}", option]).train()


def test_a_stream_that_others_divide_is_refused_within_an_epoch(tmp_path, monkeypatch):
    file, label = io.BytesIO(), datasets.ClassLabel(names=["ape", "bee"])
    Image.new("RGB", (8, 8)).save(file, "png")
    rows = {"image": [{"bytes": file.getvalue(), "path": None}] * 40, "label": [0, 1] * 20}
    rows = datasets.Dataset.from_dict(rows, datasets.Features({"image": datasets.Image(), "label": label}))
    for split in ("train", "validation", "test"):
        rows.to_parquet(tmp_path / f"set/data/{split}-00000-of-00001.parquet")
    data = ["--data=vitspeech.HuggingFaceImages", f"--data.path={tmp_path / 'set'}", "--data.image=32"]
    stream = ["--data.storage=stream", "--data.epoch_items=40", "--data.batch=10", "--data.workers=0"]
    stopped_after(2, [*TINY, *data, *stream, "--every_steps=1", f"--run={tmp_path / 'run'}"], monkeypatch)
    for option, message in (
        ("--data.workers=2", "was saved within an epoch with workers=0, not 2"),
        ("--data.storage=files", "was saved within an epoch with storage=stream, not files"),
    ):
        with pytest.raises(InputError, match=message):
            TrainingCLI([f"--resume={tmp_path / 'run'}", option]).train()
    TrainingCLI([f"--resume={tmp_path / 'run'}", "--data.workers=1"]).train()  # one part, as without workers


def test_a_checkpoint_that_does_not_say_how_a_stream_was_divided_is_resumed(tmp_path, monkeypatch):
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    TrainingCLI([*RUN, f"--run={alone}"]).train()
    stopped_after(2, [*RUN, f"--run={stopped}"], monkeypatch)
    checkpoint = torch.load(stopped / "last.ckpt", weights_only=True)
    for name in ("storage", "processes", "workers"):
        del checkpoint["progress"][name]
    torch.save(checkpoint, stopped / "last.ckpt")
    TrainingCLI([f"--resume={stopped}"]).train()
    same_end(alone, stopped)


class Clocked:
    """A trainer of several processes whose first one answers for all."""

    def __init__(self, processes: int, step: int) -> None:
        self.world_size, self.global_step, self.strategy, self.asked = processes, step, self, 0

    def broadcast(self, answer: bool) -> bool:
        self.asked += 1
        return answer


def test_a_checkpoint_is_due_after_ten_minutes(monkeypatch):
    minutes = TrainingCLI([*TINY]).config["every_minutes"]
    last, trainer, now = LastCheckpoint(every_minutes=minutes), Clocked(1, 1), [5e6]
    monkeypatch.setattr("vitspeech.training.checkpoints.time.monotonic", lambda: now[0])
    last.restart_intervals(trainer)
    for seconds, is_due in ((0, False), (599, False), (600, True)):
        now[0] = 5e6 + seconds
        assert last.is_due(trainer) == is_due


@pytest.mark.parametrize(("processes", "step", "asked"), [(1, 1, 1), (2, 1, 0), (2, ASK_EVERY, 1)])
def test_processes_agree_on_the_time_now_and_then(processes, step, asked):
    last, trainer = LastCheckpoint(every_minutes=1e-9), Clocked(processes, step)
    assert last.is_due(trainer) == bool(asked) and trainer.asked == asked
    assert not LastCheckpoint(every_minutes=1e6).is_due(trainer)
