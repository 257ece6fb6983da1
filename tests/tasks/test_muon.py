"""The precision in which Muon orthogonalizes its updates."""

import pytest
import timm.optim
import torch
from timm.optim import muon
from tiny import TINY
from torch import nn

from vitspeech.tasks.optimizer import match_precision
from vitspeech.training.train import TrainingCLI

TIMMS = muon.zeropower_via_newtonschulz
A, B, C = 3.4445, -4.7750, 2.0315  # of the iterations (https://kellerjordan.github.io/posts/muon/)


def first_update(precision, dtype=torch.float32):
    """The first update of a square weight, and its gradient."""
    weight = nn.Parameter(torch.zeros(16, 16, dtype=dtype))
    weight.grad = torch.randn(16, 16, dtype=dtype, generator=torch.Generator().manual_seed(0))
    optimizer = timm.optim.Muon([weight], lr=1.0, ns_coefficients="original", adjust_lr_fn="original")
    match_precision(optimizer, precision)
    optimizer.step()
    return -weight.detach().double(), weight.grad.double()


def orthogonalized(gradient):
    """Five iterations in double precision."""
    x = gradient / gradient.norm()
    for _ in range(5):
        square = x @ x.T
        x = A * x + (B * square + C * square @ square) @ x
    return x


@pytest.mark.parametrize(
    ("precision", "dtype", "least", "most"),
    [
        ("32-true", torch.float32, 0.0, 1e-5),
        ("64-true", torch.float64, 0.0, 1e-13),
        ("bf16-mixed", torch.float32, 1e-3, 0.1),
    ],
)
def test_updates_have_the_precision_of_training(precision, dtype, least, most):
    update, gradient = first_update(precision, dtype)
    assert least <= (update - orthogonalized(gradient)).abs().max() < most
    assert muon.zeropower_via_newtonschulz is TIMMS


def test_training_has_them_too_under_timms_name(monkeypatch, tmp_path):
    dtypes = set()

    def record(*args, dtype=None, **options):
        dtypes.add(dtype)
        return TIMMS(*args, **options)

    monkeypatch.setattr(muon, "zeropower_via_newtonschulz", record)
    run = tmp_path / "run"
    TrainingCLI([*TINY, "--trainer.max_epochs=1", "--trainer.log_every_n_steps=1", f"--run={run}"]).train()
    assert dtypes == {torch.float32}
    assert "lr-Muon/pg1" in (run / "metrics.csv").read_text()


def test_a_step_returns_the_loss_of_its_closure_which_has_gradients():
    weight = nn.Parameter(torch.ones(16, 16))
    optimizer = timm.optim.Muon([weight], lr=0.1)
    match_precision(optimizer, "32-true")

    def closure():
        loss = weight.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 256
    assert (weight < 1).all()


def test_hooks_run_once_after_a_state_was_loaded():
    weight = nn.Parameter(torch.zeros(16, 16))
    weight.grad = torch.ones(16, 16)
    optimizer = timm.optim.Muon([weight])
    match_precision(optimizer, "32-true")
    optimizer.load_state_dict(optimizer.state_dict())
    calls = []
    optimizer.register_step_pre_hook(lambda *args: calls.append("before"))
    optimizer.register_step_post_hook(lambda *args: calls.append("after"))
    optimizer.step()
    assert calls == ["before", "after"]
