"""The encoder beyond what `test_classic` compares with PyTorch: stochastic depth, padding and contexts.

Shapes: B = 3 sequences, T = 11 tokens, D = 35, H = 5.
"""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import DropPath, Encoder, EncoderBlock, EncoderConfig, padding_mask

LENGTHS = torch.tensor([11, 7, 2])


def sequence(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def randomized(module):
    """In float64, every parameter drawn at random (norms and biases too, which start out neutral)."""
    torch.manual_seed(0)
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


def test_padded_sequence_is_encoded_as_the_shorter_one():
    ours, x = randomized(Encoder(35, EncoderConfig(depth=3, heads=5))), sequence(3, 11, 35)
    encoded = ours(x, padding_mask(LENGTHS, 11))
    for b, length in enumerate(LENGTHS):
        assert_close(encoded[b, :length], ours(x[b : b + 1, :length])[0])


def test_reach_grows_by_the_window_with_every_block():
    ours = randomized(Encoder(35, EncoderConfig(depth=3, heads=5, left=2, right=1)))
    x = sequence(1, 19, 35).requires_grad_()
    ours(x)[0, 8].square().sum().backward()
    seen = x.grad[0].abs().sum(-1).nonzero().flatten().tolist()
    assert seen == list(range(8 - 3 * 2, 8 + 3 * 1 + 1))


def test_drop_path_is_the_identity_in_evaluation_and_at_zero():
    x = sequence(3, 11, 35)
    assert torch.equal(DropPath(0.7).eval()(x), x)
    assert torch.equal(DropPath(0.0).train()(x), x)


def test_drop_path_drops_or_scales_whole_samples_and_keeps_the_expectation():
    torch.manual_seed(0)
    branch = 1 + torch.rand(20_011, 2, 3)
    dropped = DropPath(0.3).train()(branch)
    gone = (dropped == 0).all(-1).all(-1)
    assert_close(dropped[~gone], branch[~gone] / 0.7)
    assert abs(gone.float().mean() - 0.3) < 0.015
    assert_close(dropped.mean(0), branch.mean(0), atol=0.05, rtol=0)


def test_skipped_branches_leave_the_block_the_identity_for_those_sequences():
    torch.manual_seed(0)
    block, x = randomized(EncoderBlock(35, EncoderConfig(heads=5, drop_path=0.6))).train(), sequence(101, 2, 35)
    untouched = (block(x) == x).all(-1)
    assert torch.equal(untouched.all(1), untouched.any(1))
    assert 0.2 < untouched.all(1).double().mean() < 0.55  # 0.6 twice: 0.36


def test_contexts_may_differ_from_block_to_block():
    encoder = Encoder(12, EncoderConfig(depth=3, heads=2, left=[1, None, 4], right=[0, 2, 1]))
    assert [(block.attention.left, block.attention.right) for block in encoder.blocks] == [(1, 0), (None, 2), (4, 1)]
    assert encoder.receptive_field == (None, 3)
    assert Encoder(12, EncoderConfig(depth=3, heads=2, left=5, right=1)).receptive_field == (15, 3)


def test_contexts_that_are_not_one_for_each_block_are_refused():
    with pytest.raises(ValueError, match=r"left=\[1, 2\] has 2 entries, but there are depth=3 blocks"):
        Encoder(12, EncoderConfig(depth=3, heads=2, left=[1, 2]))
