"""The decoder: steps against the whole sequence at once (which `test_classic` compares with PyTorch), and its cache.

Shapes: B = 3 sequences, T = 11 tokens, S = 13 source tokens, D = 10, H = 5, K = 2.
"""

import copy
from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import DecoderConfig, RelativePositions, padding_mask
from vitspeech.attention.decoder import Decoder, DecoderBlock
from vitspeech.attention.scores import NORMALIZERS, SCORES

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


@settings(deadline=None, max_examples=120)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    left=st.none() | st.integers(0, 17),
    positions=st.sampled_from(list(POSITIONS)),
    depth=st.integers(1, 3),
    padded=st.booleans(),
    score=st.sampled_from(list(SCORES)),
    normalizer=st.sampled_from(list(NORMALIZERS)),
)
@torch.no_grad()
def test_steps_of_any_lengths_equal_the_whole_sequence(lengths, left, positions, depth, padded, score, normalizer):
    ours = decoder(depth, left=left, positions=POSITIONS[positions], score=score, normalizer=normalizer)
    source = sequence(3, 13, 10, seed=2)
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
def test_selected_sequences_go_on_as_they_would_have():
    ours, (x, source) = decoder(left=4, positions="relative"), tokens_and_source()
    indices = torch.tensor([2, 0, 2, 1, 2])
    _, cache = ours.step(x[:, :6], ours.start(source, SOURCE_PADDING))
    selected, _ = ours.step(x[indices, 6:], cache.select(indices))
    assert_close(selected, ours(x, source, source_padding=SOURCE_PADDING)[indices, 6:])
    assert_close(ours.step(x[indices, :6], ours.start(source).select(indices))[0], ours(x, source)[indices, :6])


@torch.no_grad()
def test_a_source_of_another_batch_is_an_error():
    x, source = tokens_and_source()
    with pytest.raises(ValueError, match="differ in batch"):
        decoder()(x, source[:1])


def test_step_leaves_its_cache_as_it_was():
    ours, (x, source) = decoder(left=4), tokens_and_source()
    _, cache = ours.step(x[:, :3], ours.start(source))
    once, _ = ours.step(x[:, 3:], cache)
    assert torch.equal(ours.step(x[:, 3:], cache)[0], once)


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
