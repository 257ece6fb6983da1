"""The block-sparse kernel: its masks against the dense one on CPU (forward), all of it on CUDA.

Shapes: B = 2 sequences, H = 3 heads, T = 5 to 300 tokens, K = 16.
"""

import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operations import Operations
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing import assert_close

from vitspeech.attention import padding_mask, truncated_attention, window_mask
from vitspeech.attention.dense import attend
from vitspeech.attention.windowed import flex

UNCOMPILED = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
PARTS = ("num_blocks", "indices")
NAMES = [f"{prefix}{side}_{part}" for prefix in ("", "full_") for side in ("kv", "q") for part in PARTS]
DRAWN = {"tokens": st.integers(1, 300), "left": st.integers(0, 300), "right": st.integers(0, 300)}


def drawn(tokens, device="cpu", dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(2, 3, tokens, 16, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]


def dense(inputs, left, right, padding):
    mask = window_mask(inputs[0].shape[2], inputs[0].shape[2], left, right, inputs[0].device)
    mask = mask if padding is None else mask & padding[:, None, None]
    return attend(*(tensor.double() for tensor in inputs), mask)[0]


@UNCOMPILED
@settings(deadline=None, max_examples=25)
@given(**DRAWN, padded=st.sampled_from(["nowhere", "at the end", "anywhere"]))
def test_kernel_equals_the_dense_mask(tokens, left, right, padded):
    inputs = [tensor.detach() for tensor in drawn(tokens)]
    padding = {
        "nowhere": None,
        "at the end": padding_mask(torch.tensor([tokens, tokens // 3]), tokens),
        "anywhere": torch.rand(2, tokens) > 0.6,
    }[padded]
    result = flex.attend(*inputs, left, right, padding, 16**-0.5)
    assert_close(result.double(), dense(inputs, left, right, padding), atol=1e-5, rtol=1e-4)


@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
def test_the_compiled_kernel_takes_several_windows(monkeypatch):
    compiled = torch.compile(flex_attention)
    monkeypatch.setattr(flex, "kernel", lambda device: compiled)
    for tokens, left, right, padded in [(140, 8, 2, False), (150, 16, 4, True)]:
        inputs = [tensor.detach() for tensor in drawn(tokens)]
        padding = padding_mask(torch.tensor([tokens, tokens // 3]), tokens) if padded else None
        result = flex.attend(*inputs, left, right, padding, 16**-0.5)
        assert_close(result.double(), dense(inputs, left, right, padding), atol=1e-5, rtol=1e-4)


@UNCOMPILED
def test_a_compiled_network_does_not_compile_the_mask(monkeypatch):
    def kernel(*inputs, **options):
        assert not torch.compiler.is_compiling()
        return flex_attention(*inputs, **options)

    monkeypatch.setattr(flex, "kernel", lambda device: kernel)
    inputs = [tensor.detach() for tensor in drawn(140)]
    twice = torch.compile(lambda *inputs: 2 * flex.attend(*inputs, 8, 2, None, 16**-0.5), backend="eager")
    assert_close(twice(*inputs).double(), 2 * dense(inputs, 8, 2, None), atol=1e-5, rtol=1e-4)


@settings(deadline=None, max_examples=100)
@given(
    tokens=st.integers(1, 1100),
    left=st.integers(0, 9) | st.integers(0, 1100),
    right=st.integers(0, 9) | st.integers(0, 1100),
    padded=st.booleans(),
)
def test_blocks_are_those_of_the_mask_of_all_pairs(tokens, left, right, padded):
    def allowed(batch, head, t, s):
        return (s - t >= -left) & (s - t <= right)

    padding = torch.ones(2, tokens, dtype=torch.bool) if padded else None
    made = flex.block_mask(torch.empty(2, 3, tokens, 16), left, right, padding)
    expected = create_block_mask(allowed, None, None, tokens, tokens, "cpu")
    assert made.seq_lengths == expected.seq_lengths and made.BLOCK_SIZE == expected.BLOCK_SIZE
    assert torch.equal(made.to_dense(), expected.to_dense())
    for name in NAMES:
        if not padded:
            assert torch.equal(getattr(made, name), getattr(expected, name))
        elif name in ("full_kv_num_blocks", "full_q_num_blocks"):
            assert not getattr(made, name).any()  # padding is masked pair by pair
    t, s = torch.arange(tokens)[:, None], torch.arange(tokens)
    assert torch.equal(made.mask_mod(0, 0, t, s), allowed(0, 0, t, s))


def test_layers_share_the_blocks_and_no_mask_of_all_pairs_is_made():
    flex.window_blocks.cache_clear()
    query, lengths = torch.empty(8, 1, 4096, 1), torch.arange(8) * 512
    first, again = Operations(), Operations()
    for made, padding in ((first, padding_mask(lengths, 4096)), (again, padding_mask(lengths + 1, 4096))):
        with made:
            flex.block_mask(query, 32, 32, padding)
    assert first.largest <= 8 * 4096 and again.count == 0


@pytest.mark.parametrize("padded", [False, True])
def test_blocks_first_made_in_inference_mode_can_be_saved_for_backward(padded):
    flex.window_blocks.cache_clear()
    query, padding = torch.empty(2, 3, 200, 16), torch.ones(2, 200, dtype=torch.bool) if padded else None
    with torch.inference_mode():
        flex.block_mask(query, 9, 4, padding)
    made = flex.block_mask(query, 9, 4, padding)
    assert not any(getattr(made, name).is_inference() for name in NAMES)


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
