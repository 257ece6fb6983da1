"""Runs of several processes on the CPU (gloo): they end as one process does, and stop, go on and fail together."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from lightning.pytorch.plugins import TorchCheckpointIO
from lightning.pytorch.plugins.environments import SLURMEnvironment
from running import weights
from tiny import ROOT, TINY, TINY_SEQUENCES

from vitspeech.errors import InputError
from vitspeech.training.config import after_restart
from vitspeech.training.train import TrainingCLI
from vitspeech.training.trainer import Trainer

ALIKE = [
    *TINY,
    "--data.init_args.count=255",
    "--data.init_args.batch=48",
    "--model.network.init_args.stem=linear",
    "--data.init_args.augment.flip=false",
    "--data.init_args.augment.translate=0",
    "--model.optimizer=torch.optim.SGD",
    "--model.optimizer.lr=0.1",
    "--trainer.log_every_n_steps=1",
]  # five steps an epoch, 51 items for validation and test; nothing depends on the process (batch norm, draws)
CPU = "--trainer.accelerator=cpu"
HOOKS = """
import os, signal
from pathlib import Path
import lightning, torch

class KeepWeights(lightning.Callback):
    \"\"\"Each process keeps its weights at the end.\"\"\"

    def __init__(self, folder: str):
        self.folder = folder

    def on_train_end(self, trainer, task):
        torch.save(task.network.state_dict(), Path(self.folder) / f"rank{trainer.global_rank}.pt")

class Spoil(lightning.Callback):
    \"\"\"After a step, the last process gets inputs that are NaN, or is killed, the first time.\"\"\"

    def __init__(self, step: int, how: str, once: str):
        self.step, self.how, self.once = step, how, Path(once)

    def on_train_batch_start(self, trainer, task, batch, number):
        if trainer.global_step != self.step or trainer.global_rank != trainer.world_size - 1 or self.once.exists():
            return
        self.once.touch()
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        batch[0].fill_(float("nan"))
"""


def processes(
    count: int,
    arguments: list[str],
    folder: Path,
    *options: str,
    strategy: Sequence[str] = ("--trainer.strategy=ddp",),
    **environment: str,
) -> subprocess.CompletedProcess:
    """Train in several processes that torchrun starts, in a folder of their own."""
    (folder / "hooks.py").write_text(HOOKS)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", *options]
    together = [CPU, f"--trainer.devices={count}", *strategy]
    return subprocess.run(
        [*launcher, "--", ROOT / "scripts/train.py", *arguments, *together],
        timeout=280,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
    )


def alone(folder: Path, *options: str) -> Path:
    """The run of one process."""
    TrainingCLI([*ALIKE, *options, CPU, f"--run={folder / 'one'}"]).train()
    return folder / "one"


def same_end(one: Path, other: Path) -> None:
    """Weights, and the metrics of training, validation and test are the same but for rounding."""
    for name, tensor in weights(one).items():
        assert torch.allclose(weights(other)[name], tensor, atol=1e-5), name
    tables = [list(csv.DictReader((run / "metrics.csv").read_text().splitlines())) for run in (one, other)]
    assert len(tables[0]) == len(tables[1])
    for rows in zip(*tables, strict=True):
        for name in ("epoch", "step", "val_loss", "val_accuracy", "train_loss_epoch"):
            first, second = (row[name] for row in rows)
            assert first == second or float(first) == pytest.approx(float(second), rel=1e-4), (name, rows)
    cards = [json.loads((run / "model/card.json").read_text())["metrics"] for run in (one, other)]
    assert cards[0] == cards[1]


def test_two_processes_end_as_one(tmp_path):
    kept = ["--trust=hooks", "--trainer.callbacks+=hooks.KeepWeights", f"--trainer.callbacks.folder={tmp_path}"]
    result = processes(2, [*ALIKE, *kept, f"--run={tmp_path / 'pair'}"], tmp_path)
    assert result.returncode == 0, result.stderr
    ranks = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]
    one = alone(tmp_path)
    same_end(one, tmp_path / "pair")
    start = TrainingCLI(ALIKE).model.network.state_dict()
    assert all(torch.equal(ranks[0][name], ranks[1][name]) for name in start)
    assert any((weights(one)[name] - start[name]).abs().max() > 1e-2 for name in start)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "options"), [(4, []), (2, ["--trainer.accumulate_grad_batches=3"])])
def test_more_processes_and_accumulated_batches_end_as_one(tmp_path, count, options):
    result = processes(count, [*ALIKE, *options, f"--run={tmp_path / 'many'}"], tmp_path)
    assert result.returncode == 0, result.stderr
    same_end(alone(tmp_path), tmp_path / "many")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1), (2, 4)])
def test_a_run_stopped_within_an_epoch_goes_on_with_another_number_of_processes(tmp_path, first, then):
    stop = ["--trust=hooks", "--trainer.callbacks+=hooks.Spoil", "--trainer.callbacks.step=7"]
    stop += ["--trainer.callbacks.how=kill", f"--trainer.callbacks.once={tmp_path / 'killed'}"]
    run = tmp_path / "changed"
    result = processes(first, [*ALIKE, *stop, "--every_steps=1", f"--run={run}"], tmp_path)
    assert result.returncode != 0
    result = processes(then, [f"--resume={run}", "--trust=hooks"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert "resuming after 1 of 2 epochs and 2 batches of the next" in result.stdout
    same_end(alone(tmp_path), run)


SHARDED = ["--trainer.strategy=lightning.pytorch.strategies.ModelParallelStrategy"]
SHARDED += ["--trainer.strategy.data_parallel_size=2", "--trainer.strategy.tensor_parallel_size=1"]
SHARDED += ["--trainer.strategy.save_distributed_checkpoint=false"]


@pytest.mark.slow
def test_processes_that_divide_the_weights_end_as_one_also_after_a_kill(tmp_path):
    stop = ["--trust=hooks", "--trainer.callbacks+=hooks.Spoil", "--trainer.callbacks.step=7", "--every_steps=1"]
    stop += ["--trainer.callbacks.how=kill", f"--trainer.callbacks.once={tmp_path / 'killed'}"]
    run = tmp_path / "sharded"
    momentum = "--model.optimizer.momentum=0.9"  # Lightning cannot restore an optimizer without a state
    result = processes(2, [*ALIKE, momentum, *stop, f"--run={run}"], tmp_path, strategy=SHARDED)
    assert result.returncode != 0
    result = processes(2, [f"--resume={run}", "--trust=hooks"], tmp_path, strategy=())
    assert result.returncode == 0, result.stderr
    assert "resuming after 1 of 2 epochs and 2 batches of the next" in result.stdout
    same_end(alone(tmp_path, momentum), run)


@pytest.mark.slow
def test_a_killed_process_is_started_again_by_torchrun_and_the_run_goes_on(tmp_path):
    stop = ["--trust=hooks", "--trainer.callbacks+=hooks.Spoil", "--trainer.callbacks.step=7", "--every_steps=1"]
    stop += ["--trainer.callbacks.how=kill", f"--trainer.callbacks.once={tmp_path / 'killed'}"]
    run = tmp_path / "restarted"
    shared = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # otherwise the new processes meet in the store of the old
    result = processes(2, [*ALIKE, *stop, f"--run={run}"], tmp_path, "--max-restarts=1", **shared)
    assert result.returncode == 0, result.stderr
    assert "resuming after 1 of 2 epochs and 2 batches of the next" in result.stdout
    same_end(alone(tmp_path), run)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_in_one_process_ends_all_with_one_message(tmp_path):
    spoil = ["--trust=hooks", "--trainer.callbacks+=hooks.Spoil", "--trainer.callbacks.step=2"]
    spoil += ["--trainer.callbacks.how=nan", f"--trainer.callbacks.once={tmp_path / 'spoiled'}"]
    result = processes(2, [*ALIKE, *spoil, f"--run={tmp_path / 'run'}"], tmp_path)
    assert result.returncode == 1
    assert result.stderr.count("training loss is infinite or NaN") == 1


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [TINY, TINY_SEQUENCES], ids=["images", "utterances"])
def test_processes_that_torchrun_starts_share_one_folder(tmp_path, arguments):
    """Without `--run` each of them would choose a number of its own."""
    result = processes(2, [*arguments, "--trainer.max_epochs=1"], tmp_path)
    assert result.returncode == 0, result.stderr
    (folder,) = tmp_path.glob("runs/*/*")
    assert folder.name == "0" and (folder / "model/card.json").exists() and (folder / "last.ckpt").exists()


@pytest.mark.slow
def test_tasks_of_slurm_train_one_run(tmp_path):
    """As `srun` starts them: each process has its number in the variables of SLURM, and none starts others."""
    command = [sys.executable, ROOT / "scripts/train.py", *TINY, CPU, "--trainer.devices=2", "--trainer.strategy=ddp"]
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2"}
    slurm |= {"SLURM_NODELIST": "127.0.0.1", "SLURM_NNODES": "1", "SLURM_NODEID": "0", "MASTER_PORT": "29583"}
    slurm |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    tasks = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env=os.environ | slurm | {"SLURM_PROCID": rank, "SLURM_LOCALID": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ("0", "1")
    ]
    outputs = [task.communicate(timeout=280)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], outputs
    (folder,) = tmp_path.glob("runs/*/*")
    assert (folder / "model/card.json").exists() and sum("test set, final weights" in text for text in outputs) == 1


@pytest.mark.parametrize(
    "starter, count", [("torchrun", "TORCHELASTIC_RESTART_COUNT"), ("SLURM", "SLURM_RESTART_COUNT")]
)
def test_a_restart_resumes_the_run_that_the_command_names(tmp_path, monkeypatch, starter, count):
    new = ["--config=shapes/vit", f"--run={tmp_path}", "--trust=mine", "--trainer.max_epochs=3"]
    assert after_restart(new) == new
    monkeypatch.setenv(count, "1")
    assert after_restart(new) == new  # nothing has been written yet
    (tmp_path / "config.yaml").touch()
    assert after_restart(new) == ["--resume", str(tmp_path), "--trust=mine"]
    assert after_restart([f"--resume={tmp_path}"]) == [f"--resume={tmp_path}"]
    with pytest.raises(InputError, match=f"{starter} has .*without --run it cannot be found"):
        after_restart(["--config=shapes/vit"])


@pytest.mark.parametrize("plugins", [None, TorchCheckpointIO(), [TorchCheckpointIO()]])
def test_lightning_does_not_requeue_jobs_of_slurm(monkeypatch, plugins):
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NTASKS": "2"}
    slurm |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NODELIST": "127.0.0.1"}
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    options = {"accelerator": "cpu", "devices": 2, "strategy": "ddp", "logger": False}
    environment = Trainer(**options, plugins=plugins).strategy.cluster_environment
    assert isinstance(environment, SLURMEnvironment) and not environment.auto_requeue
