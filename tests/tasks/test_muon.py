"""The precision in which Muon orthogonalizes its updates."""

import pytest
import timm.optim
import torch
import yaml
from timm.optim import muon
from tiny import TINY
from torch import nn

from vitspeech.tasks.muon import Muon, use_precision
from vitspeech.training.cli import TrainingCLI

TIMMS = muon.zeropower_via_newtonschulz
A, B, C = 3.4445, -4.7750, 2.0315  # of the iterations (https://kellerjordan.github.io/posts/muon/)


def first_update(precision):
    """The first update of a square weight, and its gradient."""
    weight = nn.Parameter(torch.zeros(16, 16))
    weight.grad = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    optimizer = timm.optim.Muon([weight], lr=1.0, ns_coefficients="original", adjust_lr_fn="original")
    use_precision(optimizer, precision)
    optimizer.step()
    return -weight.detach().double(), weight.grad.double()


def orthogonalized(gradient):
    """Five iterations in double precision."""
    x = gradient / gradient.norm()
    for _ in range(5):
        square = x @ x.T
        x = A * x + (B * square + C * square @ square) @ x
    return x


@pytest.mark.parametrize(("precision", "least", "most"), [("32-true", 0.0, 1e-5), ("bf16-mixed", 1e-3, 0.1)])
def test_updates_have_the_precision_of_training(precision, least, most):
    update, gradient = first_update(precision)
    assert least <= (update - orthogonalized(gradient)).abs().max() < most
    assert muon.zeropower_via_newtonschulz is TIMMS


def test_a_step_that_fails_leaves_timms_function_in_place():
    optimizer = timm.optim.Muon([nn.Parameter(torch.zeros(2, 2))])
    use_precision(optimizer, "32-true")
    with pytest.raises(FloatingPointError):
        optimizer.step(lambda: (_ for _ in ()).throw(FloatingPointError))
    assert muon.zeropower_via_newtonschulz is TIMMS


def test_other_optimizers_stay_as_they_are():
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(2, 2))])
    use_precision(optimizer, "32-true")
    assert type(optimizer) is torch.optim.AdamW


@pytest.mark.parametrize(("precision", "expected"), [("32-true", Muon), ("bf16-mixed", timm.optim.Muon)])
def test_training_takes_it_by_the_trainers_precision(tmp_path, precision, expected):
    cli = TrainingCLI(
        [*TINY, f"--trainer.precision={precision}", "--trainer.max_epochs=1", f"--run={tmp_path / 'run'}"]
    )
    cli.train()
    (optimizer,) = cli.trainer.optimizers
    assert type(optimizer) is expected
    assert (
        yaml.safe_load((tmp_path / "run/config.yaml").read_text())["model"]["init_args"]["optimizer"]["class_path"]
        == "timm.optim.Muon"
    )
