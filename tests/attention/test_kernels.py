"""Which kernel is chosen, as a table; CUDA's rows need no CUDA device."""

import dataclasses

import pytest
import torch

from vitspeech.attention import (
    RelativePositions,
    truncated_attention,
)
from vitspeech.attention.kernels import Kernel, Request, choose_dense, choose_kernel, request_for
from vitspeech.attention.scores import SCORES
from vitspeech.attention.windowed.blocks import BLOCK

EXPLICIT, FUSED, FUSED_CAUSAL, BLOCKWISE, FLEX, PAIRWISE = Kernel
HALF = {"dtype": torch.bfloat16}
CUDA = {"device": "cuda"}
RELU, RELATIVE, ADDITIVE = {"softmax": False}, {"relative": True}, {"dot_product": False}
NONLINEAR = {"linear": False}
WINDOW = {"window": (8, 2)}

TABLE = [
    # Full attention on CPU.
    ({"keys": 64}, FUSED),
    ({"keys": 64, **HALF}, EXPLICIT),
    ({"keys": 1024, **HALF}, FUSED),
    ({"keys": 1025, **RELU}, BLOCKWISE),
    ({"keys": 1025, **RELATIVE}, BLOCKWISE),
    ({"keys": 64, **ADDITIVE}, BLOCKWISE),
    ({"keys": 64, **RELATIVE, **NONLINEAR}, PAIRWISE),
    # A window on CPU.
    ({"keys": 8 + 2 + BLOCK, **WINDOW}, EXPLICIT),
    ({"keys": 8 + 2 + BLOCK + 1, **WINDOW}, BLOCKWISE),
    ({"keys": 8 + 2 + BLOCK, **WINDOW, **ADDITIVE}, BLOCKWISE),
    ({"keys": 4096, "window": (None, 0), **ADDITIVE, **RELATIVE, **NONLINEAR}, PAIRWISE),
    ({"keys": 0, **WINDOW}, EXPLICIT),
    # An unlimited past without look-ahead.
    ({"keys": 1023, "window": (None, 0)}, EXPLICIT),
    ({"keys": 1024, "window": (None, 0)}, FUSED_CAUSAL),
    ({"keys": 1024, "window": (1023, 0)}, FUSED_CAUSAL),
    ({"keys": 1025, "window": (1023, 0)}, BLOCKWISE),
    ({"keys": 4096, "window": (None, 0), "padding": True}, BLOCKWISE),
    ({"keys": 4096, "window": (None, 0), "dropout": True}, BLOCKWISE),
    # CUDA.
    ({"keys": 5, **CUDA}, FUSED),
    ({"keys": 5, **CUDA, **WINDOW}, FLEX),
    ({"keys": 4096, **CUDA, **WINDOW, **HALF, "padding": True}, FLEX),
    ({"keys": 4096, **CUDA, "window": (None, 0)}, FUSED_CAUSAL),
    ({"keys": 5, **CUDA, "window": (4, 0)}, FUSED_CAUSAL),
    ({"keys": 0, **CUDA, "window": (None, 0)}, FLEX),
    ({"keys": 4096, **CUDA, "window": (None, 0), "padding": True}, FLEX),
    ({"keys": 4096, **CUDA, "window": (None, 0), "dropout": True}, BLOCKWISE),
    ({"keys": 4096, **CUDA, **WINDOW, "width": 15}, BLOCKWISE),
    ({"keys": 4096, **CUDA, **WINDOW, "dtype": torch.float64}, BLOCKWISE),
    ({"keys": 4096, **CUDA, **WINDOW, **RELATIVE}, BLOCKWISE),
    ({"keys": 4096, **CUDA, **WINDOW, **RELATIVE, **NONLINEAR}, PAIRWISE),
]


@pytest.mark.parametrize(("request_", "kernel"), [(Request(**row), kernel) for row, kernel in TABLE])
def test_each_request_has_its_kernel(request_, kernel):
    assert choose_kernel(request_) is kernel


def test_with_a_mask_or_another_sequence_every_pair_is_computed():
    assert choose_dense(Request(64, **WINDOW)) is FUSED
    assert choose_dense(Request(2048, **RELU)) is choose_dense(Request(2048, **RELATIVE, **WINDOW)) is EXPLICIT


def test_the_table_has_every_kernel():
    assert {kernel for _, kernel in TABLE} == set(Kernel)


def test_a_request_describes_the_tensors():
    key, value = torch.empty(2, 3, 11, 8), torch.empty(2, 3, 11, 5, dtype=torch.bfloat16)
    options = {"window": (4, None), "padding": True}
    options |= {"relative": RelativePositions(8), "dropout": 0.1}
    stated = request_for(key, value, SCORES["additive"](3, 8), normalizer="relu", **options)
    expected = Request(11, 5, "cpu", torch.bfloat16, False, False, True, False, True, (4, None), True)
    assert dataclasses.asdict(stated) == dataclasses.asdict(expected)
    plain = request_for(key, key, SCORES["cosine"](3, 8), normalizer="softmax", relative=None, dropout=0.0)
    assert plain == Request(11, 8, linear=False)


def test_truncated_attention_of_short_sequences_has_dropout():
    torch.manual_seed(0)
    tokens = torch.randn(2, 3, 20, 4)
    outputs = [truncated_attention(tokens, tokens, tokens, 3, 3, dropout=dropout) for dropout in (0.0, 0.0, 0.5, 0.5)]
    assert torch.equal(*outputs[:2]) and not torch.equal(*outputs[1:3]) and not torch.equal(*outputs[2:])
