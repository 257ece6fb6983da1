"""Parameter groups and schedules."""

import math

import pytest
import timm.optim
import torch
from torch import nn

from vitspeech.models import CNN, ViT
from vitspeech.tasks.optimizer import learning_rate, parameter_groups


def test_matrices_decay_and_norms_biases_tokens_and_positions_do_not():
    network = ViT(10, width=16, pooling="class", encoder={"depth": 2, "heads": 2})
    decayed, plain = parameter_groups(network)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    assert all("norm" not in names[id(p)] and p.ndim == 2 for p in decayed["params"])
    kept = {names[id(p)] for p in plain["params"]}
    assert {"positions.table", "pooling.token", "head.bias", "encoder.norm.weight"} <= kept
    assert len(decayed["params"]) + len(plain["params"]) == len(names)
    assert plain["weight_decay"] == 0


def test_frozen_parameters_are_left_out():
    groups = parameter_groups(CNN(10, widths=(4, 5, 7)))
    assert not any(parameter.shape == (24, 3, 2, 2) for group in groups for parameter in group["params"])


def test_muon_takes_matrices_and_falls_back_for_the_rest():
    network = nn.Linear(7, 5)
    before = network.weight.detach().clone()
    optimizer = timm.optim.Muon(parameter_groups(network), lr=0.1, weight_decay=0.0)
    network(torch.randn(11, 7)).square().sum().backward()
    optimizer.step()
    # Muon's step is an orthogonal matrix times a constant: all its singular values are about equal.
    singular = torch.linalg.svdvals(before - network.weight.detach())
    assert singular.min() > 0.5 * singular.max() > 0


def rates(decay: str, steps: int = 100, warmup_steps: int = 10) -> list[float]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = learning_rate(optimizer, steps=steps, warmup_steps=warmup_steps, decay=decay)
    seen = []
    for _ in range(steps + 1):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


def test_warmup_rises_evenly_to_the_full_rate():
    assert rates("linear")[:10] == pytest.approx([0.2 * step for step in range(1, 11)])


def test_each_decay_has_its_shape_and_ends_where_it_should():
    assert rates("linear")[10:] == pytest.approx([2 * (1 - step / 90) for step in range(91)])
    assert rates("cosine")[10:] == pytest.approx([1 + math.cos(math.pi * step / 90) for step in range(91)])
    assert rates("constant")[10:] == [2.0] * 91


def test_a_warmup_longer_than_the_run_is_refused():
    with pytest.raises(ValueError, match="warm-up of 11 steps does not fit a run of 10"):
        learning_rate(torch.optim.SGD([nn.Parameter(torch.zeros(1))]), steps=10, warmup_steps=11)
