"""The precision `auto`, and the hint about one in which a CPU is slower; the times are made up, since CPUs differ."""

import shutil

import pytest
import torch
import yaml
from jsonargparse import Namespace
from tiny import TINY

from vitspeech.checkpoint.multi_seed import OF_AUTO
from vitspeech.training import trainer as precision
from vitspeech.training.train import TrainingCLI
from vitspeech.training.trainer import fill_precision, product_seconds


@pytest.fixture
def times(monkeypatch):
    """Seconds of a product in each precision, to be set by a test, on a machine without an accelerator."""
    times = {torch.float32: 1.0, torch.bfloat16: 1.0}
    monkeypatch.setattr(precision, "product_seconds", times.__getitem__)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    return times


def trainer(given, accelerator="auto", devices=1, num_nodes=1) -> Namespace:
    return Namespace(precision=given, accelerator=accelerator, devices=devices, num_nodes=num_nodes)


def auto(**options) -> tuple[str, str]:
    """What `auto` becomes, always one of the precisions in which seeds may differ, and the line for the user."""
    config = trainer("auto", **options)
    line = fill_precision(config)
    assert config.precision in OF_AUTO
    return config.precision, line


@pytest.mark.parametrize("accelerator", ["auto", "cpu"])
def test_auto_on_a_cpu_is_the_faster_precision(times, accelerator):
    assert auto(accelerator=accelerator)[0] == "bf16-mixed"
    times[torch.bfloat16] = 0.5
    assert auto(accelerator=accelerator)[1].endswith("products in bf16 are 2.0 times as fast as in fp32 on this CPU")
    times[torch.bfloat16] = 3.0
    chosen, line = auto(accelerator=accelerator)
    assert chosen == "32-true"
    assert line == ("precision auto is 32-true: matrix products in bf16 take 3.0 times as long as in fp32 on this CPU")


@pytest.mark.parametrize("options", [{"devices": 2}, {"devices": "auto"}, {"num_nodes": 2}], ids=str)
def test_auto_is_the_same_in_several_processes_on_a_cpu(times, options):
    assert auto(**options) == ("32-true", "precision auto is 32-true")


@pytest.mark.parametrize(
    ("kind", "has_bf16", "chosen"), [("cuda", True, "bf16-mixed"), ("cuda", False, "32-true"), ("mps", True, "32-true")]
)
def test_auto_on_a_gpu_is_bf16_if_it_has_that(times, monkeypatch, kind, has_bf16, chosen):
    times[torch.bfloat16] = 10.0
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device(kind))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    assert auto(devices=4) == (chosen, f"precision auto is {chosen}")
    assert fill_precision(trainer("bf16-mixed")) == ""
    assert auto(accelerator="cpu")[0] == "32-true"


def test_a_cpu_that_is_slower_in_bf16_gets_a_hint(times):
    times[torch.bfloat16] = 1.25
    config = trainer("bf16-mixed")
    hint = fill_precision(config)
    assert "in bf16 take 1.2 times as long" in hint and "--trainer.precision 32-true" in hint
    assert config.precision == "bf16-mixed"


@pytest.mark.parametrize(("bf16", "given"), [(1.15, "bf16-mixed"), (10.0, "32-true"), (10.0, None)])
def test_a_cpu_that_is_as_fast_or_in_another_precision_gets_none(times, bf16, given):
    times[torch.bfloat16] = bf16
    assert fill_precision(trainer(given)) == ""


def test_a_run_keeps_the_precision_that_it_was_started_in(times, tmp_path, capsys):
    times[torch.bfloat16] = 3.0
    run = tmp_path / "run"
    TrainingCLI([*TINY, "--trainer.precision=auto", "--trainer.max_epochs=1", f"--run={run}"]).train()
    assert "precision auto is 32-true" in capsys.readouterr().out
    assert yaml.safe_load((run / "config.yaml").read_text())["trainer"]["precision"] == "32-true"
    shutil.rmtree(run / "model")
    times[torch.bfloat16] = 0.2
    cli = TrainingCLI([f"--resume={run}"])
    assert cli.trainer.precision == "32-true"
    cli.train()
    assert "precision auto" not in capsys.readouterr().out


def test_a_product_is_timed():
    assert 0 < product_seconds(torch.float32) < 1
