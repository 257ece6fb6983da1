"""The hint about a precision in which a CPU is slower; the times are made up, since CPUs differ."""

import shutil

import pytest
import torch
from tiny import TINY

from vitspeech.training import precision
from vitspeech.training.cli import TrainingCLI
from vitspeech.training.precision import precision_hint, product_seconds

CPU = torch.device("cpu")


@pytest.fixture
def times(monkeypatch):
    """Seconds of a product in each precision, to be set by a test."""
    times = {torch.float32: 1.0, torch.bfloat16: 1.0}
    monkeypatch.setattr(precision, "product_seconds", times.__getitem__)
    return times


def test_a_cpu_that_is_slower_in_bf16_gets_a_hint(times):
    times[torch.bfloat16] = 1.25
    hint = precision_hint("bf16-mixed", CPU)
    assert "in bf16 take 1.2 times as long" in hint and "--trainer.precision 32-true" in hint


@pytest.mark.parametrize("bf16", [0.2, 1.0, 1.15])
def test_a_cpu_that_is_as_fast_gets_none(times, bf16):
    times[torch.bfloat16] = bf16
    assert precision_hint("bf16-mixed", CPU) == ""


def test_another_precision_and_a_gpu_get_none(times):
    times[torch.bfloat16] = 10.0
    assert precision_hint("32-true", CPU) == ""
    assert precision_hint("bf16-mixed", torch.device("cuda")) == ""


def test_training_prints_the_hint_and_a_resumed_run_does_not(times, tmp_path, capsys):
    times[torch.bfloat16] = 3.0
    once = [*TINY, "--trainer.precision=bf16-mixed", "--trainer.max_epochs=1", f"--run={tmp_path / 'run'}"]
    TrainingCLI(once).train()
    assert "in bf16 take 3.0 times as long" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "run" / "model")  # it is no longer finished
    TrainingCLI([f"--resume={tmp_path / 'run'}"]).train()
    assert "bf16" not in capsys.readouterr().out


def test_a_product_is_timed():
    assert 0 < product_seconds(torch.float32) < 1
