"""The block-sparse kernel: its masks against the dense one on CPU (not compiled, forward), all of it on CUDA.

Shapes: B = 2 sequences, H = 3 heads, T = 5 to 300 tokens, K = 16.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitspeech.attention import padding_mask, truncated_attention, window_mask
from vitspeech.attention.dense import attend
from vitspeech.attention.windowed import flex

UNCOMPILED = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
DRAWN = {"tokens": st.integers(1, 300), "left": st.integers(0, 300), "right": st.integers(0, 300)}


def drawn(tokens, device="cpu", dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(2, 3, tokens, 16, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]


def dense(inputs, left, right, padding):
    mask = window_mask(inputs[0].shape[2], inputs[0].shape[2], left, right, inputs[0].device)
    mask = mask if padding is None else mask & padding[:, None, None]
    return attend(*(tensor.double() for tensor in inputs), mask)[0]


@UNCOMPILED
@settings(deadline=None, max_examples=40)
@given(**DRAWN, padded=st.booleans())
def test_kernel_equals_the_dense_mask(tokens, left, right, padded):
    inputs = [tensor.detach() for tensor in drawn(tokens)]
    padding = padding_mask(torch.tensor([tokens, tokens // 3]), tokens) if padded else None
    result = flex.attend(*inputs, left, right, padding, 16**-0.5)
    assert_close(result.double(), dense(inputs, left, right, padding), atol=1e-5, rtol=1e-4)


def test_blocks_of_a_window_are_made_once_for_each_length():
    query = torch.empty(2, 3, 200, 16)
    made = flex.block_mask(query, 9, 4, None)
    assert flex.block_mask(query[:, :1], 9, 4, None) is made
    assert flex.block_mask(query, 9, 5, None) is not made


def test_no_token_needs_no_kernel():
    inputs = drawn(0)
    flex.attend(*inputs, 0, 0, None, 1.0).sum().backward()
    assert all(tensor.grad.shape == (2, 3, 0, 16) for tensor in inputs)


@pytest.mark.gpu
@pytest.mark.parametrize("tokens, left, right", [(1, 0, 0), (67, 3, 200), (1031, 32, 32), (4096, 127, 0)])
@pytest.mark.parametrize("padded", [False, True])
def test_cuda_equals_the_dense_mask_in_values_and_gradients(tokens, left, right, padded):
    inputs = drawn(tokens, "cuda")
    padding = padding_mask(torch.tensor([tokens, tokens // 3], device="cuda"), tokens) if padded else None
    result, expected = truncated_attention(*inputs, left, right, padding=padding), dense(inputs, left, right, padding)
    assert_close(result.double(), expected, atol=1e-3, rtol=1e-3)
    for our, their in zip(
        torch.autograd.grad(result.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
        strict=True,
    ):
        assert_close(our, their, atol=5e-3, rtol=5e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{"dropout": 0.0, "normalizer": "relu"}, {"dropout": 0.5}], ids=["relu", "dropout"])
def test_cuda_by_blocks_where_the_kernel_can_not(options):
    inputs = drawn(1031, "cuda")
    result = truncated_attention(*inputs, 32, 32, **options)
    result.square().sum().backward()
    assert result.isfinite().all() and all(tensor.grad.isfinite().all() for tensor in inputs)
    if not options["dropout"]:
        mask = window_mask(1031, 1031, 32, 32, torch.device("cuda"))
        expected = attend(*(tensor.double() for tensor in inputs), mask, normalizer="relu")[0]
        assert_close(result.double(), expected, atol=1e-3, rtol=1e-3)
