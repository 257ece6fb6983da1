"""The decoder against nn.TransformerDecoder with the same weights; steps against the whole sequence at once.

Shapes: B = 3 sequences, T = 11 tokens, S = 13 source tokens, D = 10, H = 5, K = 2.
"""

import copy
from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.attention import DecoderConfig, RelativePositions, padding_mask
from vitspeech.attention.decoder import Decoder, DecoderBlock
from vitspeech.attention.scores import NORMALIZERS, SCORES

LENGTHS = torch.tensor([11, 7, 2])
SOURCE_PADDING = padding_mask(torch.tensor([5, 13, 1]), 13)
# Clipped within the sequence, so that near and far differ.
POSITIONS = {"none": None, "rotary": "rotary", "relative": RelativePositions(2, clip=3)}


def sequence(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tokens_and_source():
    return sequence(3, 11, 10), sequence(3, 13, 10, seed=2)


def decoder(depth=2, positions=None, **options):
    """In float64, every parameter drawn at random (norms and biases too, which start out neutral)."""
    torch.manual_seed(0)
    made = Decoder(10, DecoderConfig(depth=depth, heads=5, **options), positions=positions).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def stepped(ours, x, source, source_padding=None, lengths=(1,) * 11):
    """The outputs of the decoder, given so many tokens at a time."""
    cache, outputs = ours.start(source, source_padding), []
    for first, last in pairwise(accumulate(lengths, initial=0)):
        y, cache = ours.step(x[:, first:last], cache)
        outputs.append(y)
    assert cache.tokens == x.shape[1]
    return torch.cat(outputs, dim=1)


def matched(ours, theirs):
    """Our parameters, joined as PyTorch joins them, beside its own."""
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        for attention, their_attention in (
            (block.attention, layer.self_attn),
            (block.cross_attention, layer.multihead_attn),
        ):
            parts = (attention.query, attention.key, attention.value)
            yield [part.weight for part in parts], their_attention.in_proj_weight
            yield [part.bias for part in parts], their_attention.in_proj_bias
        for module, their_module in (
            (block.attention.output, layer.self_attn.out_proj),
            (block.cross_attention.output, layer.multihead_attn.out_proj),
            (block.attention_norm, layer.norm1),
            (block.cross_norm, layer.norm2),
            (block.mlp_norm, layer.norm3),
            (block.mlp[0], layer.linear1),
            (block.mlp[3], layer.linear2),
        ):
            yield [module.weight], their_module.weight
            yield [module.bias], their_module.bias
    yield [ours.norm.weight], theirs.norm.weight
    yield [ours.norm.bias], theirs.norm.bias


def reference(ours, hidden):
    """nn.TransformerDecoder, pre-norm, with the weights of our decoder."""
    layer = nn.TransformerDecoderLayer(
        10, 5, hidden, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True, dtype=torch.float64
    )
    theirs = nn.TransformerDecoder(layer, len(ours.blocks), nn.LayerNorm(10, dtype=torch.float64))
    with torch.no_grad():
        for parts, whole in matched(ours, theirs):
            whole.copy_(torch.cat(parts))
    return theirs


@pytest.mark.parametrize("padded, left", [(False, None), (False, 3), (True, None)])
def test_decoder_equals_pytorch_in_values_and_gradients(padded, left):
    ours, given = decoder(3, mlp_ratio=2, left=left), [part.requires_grad_() for part in tokens_and_source()]
    theirs, padding = reference(ours, 20), padding_mask(LENGTHS, 11)
    offset = torch.arange(11) - torch.arange(11)[:, None]
    hidden = (offset > 0) | (offset < -(11 if left is None else left))
    masks = {"tgt_key_padding_mask": ~padding, "memory_key_padding_mask": ~SOURCE_PADDING} if padded else {}
    result = ours(*given, *((padding, SOURCE_PADDING) if padded else ()))
    expected = theirs(*given, tgt_mask=hidden, **masks)
    assert_close(result, expected)
    ours_of, theirs_of = (torch.autograd.grad(y.square().sum(), given, retain_graph=True) for y in (result, expected))
    assert_close(ours_of, theirs_of)
    result.square().sum().backward()
    expected.square().sum().backward()
    for parts, whole in matched(ours, theirs):
        assert_close(torch.cat([part.grad for part in parts]), whole.grad)


@pytest.mark.parametrize("left", [None, 0, 4])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_steps_equal_the_whole_sequence(score, normalizer, positions, left):
    ours = decoder(score=score, normalizer=normalizer, positions=POSITIONS[positions], left=left)
    x, source = tokens_and_source()
    whole = ours(x, source, source_padding=SOURCE_PADDING)
    for lengths in ((1,) * 11, (3, 1, 7)):
        steps = stepped(ours, x, source, SOURCE_PADDING, lengths)
        assert_close(steps, whole, atol=1e-12, rtol=1e-12)


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    left=st.none() | st.integers(0, 17),
    positions=st.sampled_from(list(POSITIONS)),
    depth=st.integers(1, 3),
    padded=st.booleans(),
)
@torch.no_grad()
def test_steps_of_any_lengths_equal_the_whole_sequence(lengths, left, positions, depth, padded):
    ours, source = decoder(depth, left=left, positions=POSITIONS[positions]), sequence(3, 13, 10, seed=2)
    x, padding = sequence(3, sum(lengths), 10), SOURCE_PADDING if padded else None
    whole = ours(x, source, source_padding=padding)
    assert_close(stepped(ours, x, source, padding, lengths), whole, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_steps_in_single_precision_are_close_to_the_whole_sequence_in_double(positions):
    ours, (x, source) = decoder(left=4, positions=POSITIONS[positions]), tokens_and_source()
    single = stepped(copy.deepcopy(ours).float(), x.float(), source.float(), SOURCE_PADDING)
    assert single.dtype == torch.float32
    assert_close(single.double(), ours(x, source, source_padding=SOURCE_PADDING), atol=1e-5, rtol=1e-5)


def test_steps_have_the_gradients_of_the_whole_sequence():
    ours, given = decoder(left=4, positions="rotary"), [part.requires_grad_() for part in tokens_and_source()]
    outputs = ours(*given), stepped(ours, *given, lengths=(3, 1, 7))
    whole, steps = (torch.autograd.grad(output.square().sum(), given) for output in outputs)
    assert_close(steps, whole)


@torch.no_grad()
def test_half_precision_steps_keep_half_precision_keys():
    ours, (x, source) = decoder().float(), tokens_and_source()
    with torch.autocast("cpu", torch.bfloat16):
        _, cache = ours.step(x[:, :3].float(), ours.start(source.float()))
        _, cache = ours.step(x[:, 3:5].float(), cache)
    assert {part.dtype for part in (cache.blocks[1].key, cache.blocks[1].source_value)} == {torch.bfloat16}


@pytest.mark.parametrize("left, kept", [(None, [3, 4, 11]), (4, [3, 4, 4]), (0, [0, 0, 0])])
@torch.no_grad()
def test_cache_keeps_the_past_that_the_window_reaches(left, kept):
    ours, (x, source) = decoder(left=left), tokens_and_source()
    cache = ours.start(source)
    for part, past in zip(x.split((3, 1, 7), dim=1), kept, strict=True):
        _, cache = ours.step(part, cache)
        for block in cache.blocks:
            assert block.key.shape == block.value.shape == (3, 5, past, 2)


@torch.no_grad()
def test_source_is_projected_once():
    ours, (x, source) = decoder(1), tokens_and_source()
    projected = []
    attention = ours.blocks[0].cross_attention
    for projection in (attention.key, attention.value):
        projection.register_forward_hook(lambda module, given, result: projected.append(result.shape[1]))
    stepped(ours, x, source)
    assert [tokens for tokens in projected if tokens] == [13, 13]


@torch.no_grad()
def test_selected_sequences_go_on_as_they_would_have():
    ours, (x, source) = decoder(left=4, positions="relative"), tokens_and_source()
    indices = torch.tensor([2, 0, 2, 1, 2])
    _, cache = ours.step(x[:, :6], ours.start(source, SOURCE_PADDING))
    selected, _ = ours.step(x[indices, 6:], cache.select(indices))
    assert_close(selected, ours(x, source, source_padding=SOURCE_PADDING)[indices, 6:])
    assert_close(ours.step(x[indices, :6], ours.start(source).select(indices))[0], ours(x, source)[indices, :6])


@torch.no_grad()
def test_step_leaves_its_cache_as_it_was():
    ours, (x, source) = decoder(left=4), tokens_and_source()
    _, cache = ours.step(x[:, :3], ours.start(source))
    once, _ = ours.step(x[:, 3:], cache)
    assert torch.equal(ours.step(x[:, 3:], cache)[0], once)


@torch.no_grad()
def test_outputs_do_not_know_later_tokens_but_the_whole_source():
    ours, (x, source) = decoder(), tokens_and_source()
    changed = torch.cat((x[:, :6], sequence(3, 5, 10, seed=4)), dim=1)
    before, after = ours(x, source), ours(changed, source)
    assert torch.equal(before[:, :6], after[:, :6]) and not torch.isclose(before[:, 6:], after[:, 6:]).all(-1).any()
    source[:, -1] += 1
    assert not torch.isclose(ours(x, source), before).all(-1).any()


@torch.no_grad()
def test_outputs_do_not_depend_on_padding_values():
    ours, (x, source), padding = decoder(), tokens_and_source(), padding_mask(LENGTHS, 11)
    other = torch.where(padding[..., None], x, sequence(3, 11, 10, seed=3))
    other_source = torch.where(SOURCE_PADDING[..., None], source, sequence(3, 13, 10, seed=4))
    before, after = ours(x, source, padding, SOURCE_PADDING), ours(other, other_source, padding, SOURCE_PADDING)
    assert torch.equal(before[padding], after[padding])


def test_reach_grows_by_the_window_with_every_block():
    ours, x = decoder(3, left=2), sequence(1, 11, 10).requires_grad_()
    ours(x, sequence(1, 13, 10))[0, 8].square().sum().backward()
    assert x.grad[0].abs().sum(-1).nonzero().flatten().tolist() == list(range(8 - 3 * 2, 8 + 1))


def test_score_and_normalizer_hold_for_both_attentions_and_positions_for_one():
    block = DecoderBlock(10, DecoderConfig(heads=5, score="cosine", normalizer="relu"), positions="rotary")
    for attention in (block.attention, block.cross_attention):
        assert type(attention.score) is SCORES["cosine"] and attention.normalizer == "relu"
    assert block.attention.rotary is not None and block.cross_attention.rotary is None
    relative = DecoderBlock(10, DecoderConfig(heads=5), positions="relative")
    assert relative.attention.relative is not None and relative.cross_attention.relative is None


@torch.no_grad()
def test_dropout_acts_in_training_only():
    dropping, (x, source) = decoder(dropout=0.4), tokens_and_source()
    for way in (dropping, lambda *given: stepped(dropping, *given)):
        dropping.train()
        assert not torch.allclose(way(x, source), way(x, source))
        dropping.eval()
        assert_close(way(x, source), decoder()(x, source))
