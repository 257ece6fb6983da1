"""The encoder against nn.TransformerEncoder with the same weights; stochastic depth; padding.

Shapes: B = 3 sequences, T = 11 tokens, D = 35, H = 5.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
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


def copy_block(ours, theirs):
    """Our block's weights into an nn.TransformerEncoderLayer."""
    attention, mlp = ours.attention, ours.mlp
    parts = (attention.query, attention.key, attention.value)
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    for source, target in (
        (attention.output, theirs.self_attn.out_proj),
        (ours.attention_norm, theirs.norm1),
        (ours.mlp_norm, theirs.norm2),
        (mlp[0], theirs.linear1),
        (mlp[3], theirs.linear2),
    ):
        target.load_state_dict(source.state_dict())


def reference(ours, hidden):
    """nn.TransformerEncoder, pre-norm, with the weights of our encoder."""
    options = {
        "dropout": 0.0,
        "activation": F.gelu,
        "batch_first": True,
        "norm_first": True,
        "dtype": torch.float64,
    }
    layer = nn.TransformerEncoderLayer(35, 5, hidden, **options)
    norm = nn.LayerNorm(35, dtype=torch.float64)
    theirs = nn.TransformerEncoder(layer, len(ours.blocks), norm, enable_nested_tensor=False)
    for block, their_block in zip(ours.blocks, theirs.layers, strict=True):
        copy_block(block, their_block)
    norm.load_state_dict(ours.norm.state_dict())
    return theirs


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_encoder_equals_pytorch_in_values_and_gradients(padded):
    ours, x = (
        randomized(Encoder(35, EncoderConfig(depth=3, heads=5, mlp_ratio=2))),
        sequence(3, 11, 35).requires_grad_(),
    )
    padding = padding_mask(LENGTHS, 11) if padded else None
    result = ours(x, padding)
    expected = reference(ours, 70)(x, src_key_padding_mask=~padding if padded else None)
    assert_close(result, expected)
    assert_close(*(torch.autograd.grad(output.square().sum(), x)[0] for output in (result, expected)))


def test_block_adds_attention_then_mlp_each_of_the_normed_sum():
    ours, x = randomized(EncoderBlock(35, EncoderConfig(heads=5, left=2, right=1))), sequence(3, 11, 35)
    theirs = nn.TransformerEncoderLayer(35, 5, 140, dropout=0.0, batch_first=True, dtype=torch.float64)
    copy_block(ours, theirs)
    offset = torch.arange(11) - torch.arange(11)[:, None]
    normed = F.layer_norm(x, (35,), ours.attention_norm.weight, ours.attention_norm.bias)
    summed = x + theirs.self_attn(normed, normed, normed, attn_mask=(offset < -2) | (offset > 1))[0]
    normed = F.layer_norm(summed, (35,), ours.mlp_norm.weight, ours.mlp_norm.bias)
    hidden = F.gelu(F.linear(normed, ours.mlp[0].weight, ours.mlp[0].bias))
    assert_close(ours(x), summed + F.linear(hidden, ours.mlp[3].weight, ours.mlp[3].bias))


def test_valid_outputs_do_not_depend_on_padding_values():
    ours, x, padding = (
        randomized(Encoder(35, EncoderConfig(depth=3, heads=5))),
        sequence(3, 11, 35),
        padding_mask(LENGTHS, 11),
    )
    other = torch.where(padding[..., None], x, sequence(3, 11, 35, seed=2))
    assert not torch.equal(ours(x)[padding], ours(other)[padding])
    assert torch.equal(ours(x, padding)[padding], ours(other, padding)[padding])


def test_padded_sequence_is_encoded_as_the_shorter_one():
    ours, x = randomized(Encoder(35, EncoderConfig(depth=3, heads=5))), sequence(3, 11, 35)
    encoded = ours(x, padding_mask(LENGTHS, 11))
    for b, length in enumerate(LENGTHS):
        assert_close(encoded[b, :length], ours(x[b : b + 1, :length])[0])


def test_reach_grows_by_the_window_with_every_block():
    ours, x = (
        randomized(Encoder(35, EncoderConfig(depth=3, heads=5, left=2, right=1))),
        sequence(1, 19, 35).requires_grad_(),
    )
    ours(x)[0, 8].square().sum().backward()
    seen = x.grad[0].abs().sum(-1).nonzero().flatten().tolist()
    assert seen == list(range(8 - 3 * 2, 8 + 3 * 1 + 1))


def test_dropout_acts_in_training_only():
    dropping, plain, x = (
        randomized(Encoder(35, EncoderConfig(depth=2, heads=5, dropout=0.4))),
        randomized(Encoder(35, EncoderConfig(depth=2, heads=5))),
        sequence(3, 11, 35),
    )
    assert not torch.allclose(dropping.train()(x), dropping(x))
    assert_close(dropping.eval()(x), plain(x))


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


def test_drop_path_keeps_the_precision_of_its_branch():
    assert DropPath(0.5).train()(torch.ones(3, 2, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_skipped_branches_leave_the_block_the_identity_for_those_sequences():
    torch.manual_seed(0)
    block, x = randomized(EncoderBlock(35, EncoderConfig(heads=5, drop_path=0.6))).train(), sequence(101, 2, 35)
    untouched = (block(x) == x).all(-1)
    assert torch.equal(untouched.all(1), untouched.any(1))
    assert 0.2 < untouched.all(1).double().mean() < 0.55  # 0.6 twice: 0.36


def test_drop_path_grows_linearly_over_the_depth():
    shares = [block.drop_path.prob for block in Encoder(35, EncoderConfig(depth=5, heads=5, drop_path=0.2)).blocks]
    assert shares == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])


@pytest.mark.parametrize("depth", [0, -1])
def test_depth_below_one_is_an_error(depth):
    with pytest.raises(ValueError, match=f"depth={depth}"):
        Encoder(35, EncoderConfig(depth=depth, heads=5))


def test_contexts_may_differ_from_block_to_block():
    encoder = Encoder(12, EncoderConfig(depth=3, heads=2, left=[1, None, 4], right=[0, 2, 1]))
    assert [(block.attention.left, block.attention.right) for block in encoder.blocks] == [(1, 0), (None, 2), (4, 1)]
    assert encoder.receptive_field == (None, 3)
    assert Encoder(12, EncoderConfig(depth=3, heads=2, left=5, right=1)).receptive_field == (15, 3)


def test_contexts_that_are_not_one_for_each_block_are_refused():
    with pytest.raises(ValueError, match=r"left=\[1, 2\] has 2 entries, but there are depth=3 blocks"):
        Encoder(12, EncoderConfig(depth=3, heads=2, left=[1, 2]))
