"""Every query against every key, written out and by the fused kernel.

Shapes: B = 2 sequences, H = 3 heads, T = 5 queries, S = 11 keys, K = 7.
"""

import math

import numpy
import pytest
import torch
from torch.testing import assert_close

from vitspeech.attention.dense import attend, attend_fused

MASKS = [(5, 11), (5, 1), (1, 11), (3, 5, 11), (3, 1, 1), (2, 1, 1, 11), (2, 1, 5, 11), (2, 3, 5, 11)]


def written_out(*given, **options):
    return attend(*given, **options)[0]


def inputs(dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 7))
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return tuple(tensor.to(dtype).requires_grad_() for tensor in drawn)


def random_mask(shape, seed=1):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.4


def dense(query, key, value, mask):
    """softmax(QKᵀ/√K)V in numpy, one query at a time over its allowed keys alone; nothing allowed is zero."""
    query, key, value = (tensor.detach().double().numpy() for tensor in (query, key, value))
    mask = numpy.broadcast_to(mask.numpy(), (*query.shape[:3], key.shape[2]))
    result = numpy.zeros_like(query)
    for b, h, t in numpy.ndindex(*query.shape[:3]):
        allowed = mask[b, h, t]
        if allowed.any():
            weights = numpy.exp(key[b, h, allowed] @ query[b, h, t] / math.sqrt(query.shape[-1]))
            result[b, h, t] = weights @ value[b, h, allowed] / weights.sum()
    return torch.from_numpy(result)


@pytest.mark.parametrize("shape", MASKS)
def test_explicit_equals_dense(shape):
    query, key, value = inputs()
    attended, weights = attend(query, key, value, random_mask(shape))
    assert_close(attended, dense(query, key, value, random_mask(shape)))
    assert_close(weights @ value, attended)


@pytest.mark.parametrize("shape", [None, *MASKS])
def test_fused_equals_explicit_in_values_and_gradients(shape):
    mask = None if shape is None else random_mask(shape)
    explicit, fused = inputs(), inputs()
    attended, fused_attended = attend(*explicit, mask)[0], attend_fused(*fused, mask)
    assert_close(fused_attended, attended)
    for theirs, ours in zip(
        torch.autograd.grad(fused_attended.square().sum(), fused),
        torch.autograd.grad(attended.square().sum(), explicit),
        strict=True,
    ):
        assert_close(theirs, ours)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", [written_out, attend_fused], ids=["explicit", "fused"])
def test_query_that_may_attend_to_nothing_gets_zero_and_finite_gradients(way, dtype):
    query, key, value = inputs(dtype)
    mask = random_mask((2, 1, 5, 11))
    mask[0, 0, 2] = False
    attended = way(query, key, value, mask)
    assert (attended[0, :, 2] == 0).all()
    assert attended.isfinite().all() and (attended[1, :, 2] != 0).any()
    with torch.autograd.set_detect_anomaly(True):  # refuses NaN on the way, too
        gradients = torch.autograd.grad(attended.sum(), (query, key, value))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][0, :, 2] == 0).all()


@pytest.mark.parametrize("way", [written_out, attend_fused], ids=["explicit", "fused"])
def test_dropout_keeps_the_expectation_of_the_weighted_sum(way):
    torch.manual_seed(0)
    query, key = torch.zeros(1, 1, 4001, 2), torch.zeros(1, 1, 5, 2)
    value = torch.arange(10.0).reshape(1, 1, 5, 2)
    dropped = way(query, key, value, None, dropout=0.3)[0, 0]
    assert dropped.std(0).min() > 0.5
    assert_close(dropped.mean(0), value[0, 0].mean(0), atol=0.15, rtol=0)


@pytest.mark.gpu
def test_fused_equals_explicit_on_cuda():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 5, 67, 16, device="cuda").unbind()
    mask = torch.rand(2, 1, 67, 67, device="cuda") < 0.7
    explicit, _ = attend(query.double(), key.double(), value.double(), mask)
    torch.testing.assert_close(attend_fused(query, key, value, mask).double(), explicit, atol=1e-4, rtol=1e-4)
