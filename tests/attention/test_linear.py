"""The linear layer by both ways.

Shapes: up to N = 1,100 tokens, D = 7, E = 11.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.attention.linear import CONVOLVE_FROM_TOKENS, Linear, grid_columns


def pair():
    torch.manual_seed(0)
    ours, theirs = Linear(7, 11), nn.Linear(7, 11)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize(
    "shape", [(7,), (5, 7), (3, 13, 7), (0, 7), (1100, 7), (11, 101, 7), (25, 41, 7), (2, 2, 271, 7)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equals_pytorch_in_values_and_gradients(shape, dtype):
    ours, theirs = (layer.to(dtype) for layer in pair())
    x = torch.randn(shape).to(dtype).requires_grad_()
    upstream = torch.randn(*shape[:-1], 11).to(dtype)
    results = [layer(x) for layer in (ours, theirs)]
    assert results[0].dtype == dtype
    assert_close(*results)
    gradients = [
        torch.autograd.grad(result, (x, layer.weight, layer.bias), upstream)
        for result, layer in zip(results, (ours, theirs), strict=True)
    ]
    for our, their in zip(*gradients, strict=True):
        assert_close(
            our, their, atol=None if dtype != torch.float32 else 1e-4, rtol=None if dtype != torch.float32 else 1e-4
        )


def test_input_of_any_layout_is_read_right():
    ours, theirs = pair()
    x = torch.randn(7, 1104).T
    assert_close(ours(x), theirs(x))


def test_long_single_precision_on_cpu_is_convolved_and_nothing_else_is(monkeypatch):
    long = torch.randn(CONVOLVE_FROM_TOKENS, 7)
    assert grid_columns(long) == 8
    assert grid_columns(torch.randn(1031, 7)) is None  # a prime makes no grid
    assert grid_columns(long[1:1025].double()) is None
    assert grid_columns(long[:-8]) is None
    assert grid_columns(long.to("meta")) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert grid_columns(long) is None
        assert pair()[0](long).dtype == torch.bfloat16
    taken = []
    convolve = F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda *given: taken.append(given) or convolve(*given))
    pair()[0](long)
    assert len(taken) == 1


def test_weights_are_those_of_a_linear_layer():
    assert {name: tuple(value.shape) for name, value in Linear(7, 11).state_dict().items()} == {
        "weight": (11, 7),
        "bias": (11,),
    }
