"""Relative positions with every score against Shaw et al.'s definition, a vector for each pair.

Shapes: B = 2 sequences, H = 2 heads, T = 13 tokens, K = 6, distances clipped at C = 3.
"""

import itertools

import pytest
import torch
from operations import Operations
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.attention import (
    Encoder,
    EncoderConfig,
    MultiHeadAttention,
    RelativePositions,
    Score,
    padding_mask,
    truncated_attention,
)
from vitspeech.attention.scores import NORMALIZERS, SCORES, Dot, General
from vitspeech.attention.streaming import EncoderStream
from vitspeech.attention.windowed import pairwise


class Squashed(Score):
    """A score of a user's own that is not linear in the key."""

    def prepare(self, query, key):
        return query, key.tanh()


class Doubled(Score):
    """A score of a user's own that is, and says so."""

    keeps_keys = True

    def prepare(self, query, key):
        return 2 * query, key


SCORED = {**SCORES, "squashed": Squashed, "doubled": Doubled}
# By the papers, for one query (K,), one key (K,) and head h.
DEFINED = {
    "scaled_dot": lambda score, h, q, k: q @ k / 6**0.5,
    "dot": lambda score, h, q, k: q @ k,
    "general": lambda score, h, q, k: q @ score.weight[h] @ k,
    "additive": lambda s, h, q, k: s.additive_vector[h] @ (q @ s.query_weight[h] + k @ s.key_weight[h]).tanh(),
    "cosine": lambda score, h, q, k: F.cosine_similarity(q, k, 0) / score.log_temperature[h, 0, 0].exp(),
    "squashed": lambda score, h, q, k: q @ k.tanh(),
    "doubled": lambda score, h, q, k: 2 * q @ k,
}
WINDOWS = [(None, None), (4, 2), (None, 0), (0, 0)]


def drawn(tokens=13, dtype=torch.float64):
    torch.manual_seed(0)
    relative = RelativePositions(6, 3).to(dtype)
    for table in relative.parameters():
        nn.init.normal_(table)
    return relative, [torch.randn(2, 2, tokens, 6, dtype=dtype, requires_grad=True) for _ in range(3)]


def by_definition(name, score, relative, query, key, value, left, right, padding, normalizer="softmax"):
    """Shaw et al.'s equations 2 to 5, a pair at a time: the vector of the distance is added to key and value."""
    outputs = []
    for b, h, t in torch.cartesian_prod(*(torch.arange(size) for size in query.shape[:3])).tolist():
        low = 0 if left is None else max(t - left, 0)
        high = key.shape[2] if right is None else min(t + right + 1, key.shape[2])
        seen = [s for s in range(low, high) if padding[b, s]]
        rows = [max(-3, min(3, s - t)) + 3 for s in seen]
        pairs = zip(seen, rows, strict=True)
        energies = [DEFINED[name](score, h, query[b, h, t], key[b, h, s] + relative.key[row]) for s, row in pairs]
        if not seen:
            outputs.append(torch.zeros_like(value[0, 0, 0]))
            continue
        energies = torch.stack(energies)
        weights = energies.softmax(0) if normalizer == "softmax" else energies.relu() / len(seen)
        outputs.append(weights @ (value[b, h, seen] + relative.value[rows]))
    return torch.stack(outputs).view(*query.shape[:3], -1)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("name", SCORED)
def test_every_score_compares_with_the_key_that_the_position_moved(name, normalizer, window, monkeypatch):
    monkeypatch.setattr(pairwise, "PAIRS_AT_ONCE", 24 * 30)  # several blocks
    relative, inputs = drawn()
    score = SCORED[name](2, 6).double()
    padding = padding_mask(torch.tensor([13, 7]), 13)
    expected = by_definition(name, score, relative, *inputs, *window, padding, normalizer)
    options = {"padding": padding, "score": score, "normalizer": normalizer, "relative": relative}
    found = truncated_attention(*inputs, *window, **options)
    assert_close(found, expected)
    leaves = [*inputs, *score.parameters(), *relative.parameters()]
    for our, their in zip(*(torch.autograd.grad(o.square().sum(), leaves) for o in (found, expected)), strict=True):
        assert_close(our, their)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", SCORED)
@torch.no_grad()
def test_the_layer_its_weights_its_mask_and_a_stream_agree(name, window):
    torch.manual_seed(0)
    left, right = window
    config = EncoderConfig(depth=1, heads=2, left=left, right=right, score=SCORED[name])
    relative, _ = drawn()
    encoder, x = Encoder(12, config, positions=relative).double().eval(), torch.randn(2, 13, 12, dtype=torch.float64)
    layer = encoder.blocks[0].attention
    everything, padding = torch.ones(13, 13, dtype=torch.bool), torch.ones(2, 13, dtype=torch.bool)
    projected = layer.project(x, None)
    expected = layer.output(
        layer.merge_heads(by_definition(name, layer.score, layer.relative, *projected, left, right, padding))
    )
    assert_close(layer(x), expected)
    assert_close(layer(x, mask=everything), expected)
    value = projected[2]
    rows = torch.arange(13) - torch.arange(13)[:, None]
    moved = value[:, :, None] + layer.relative.value[rows.clamp(-3, 3) + 3]
    assert_close(layer.output(layer.merge_heads((layer.weights(x)[..., None] * moved).sum(3))), expected)
    if right is not None:
        stream = EncoderStream(encoder)
        assert_close(torch.cat((stream.push(x[:, :5]), stream.push(x[:, 5:]), stream.flush(x)), 1), encoder(x))


@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
@pytest.mark.parametrize("name", SCORED)
def test_parameters_have_gradients_without_tokens_as_with_them(name, positions):
    for (left, right), normalizer, padded in itertools.product(WINDOWS, NORMALIZERS, [False, True]):
        options = {"score": SCORED[name], "positions": positions, "left": left, "right": right}
        layer, having = MultiHeadAttention(12, 2, normalizer=normalizer, **options), {}
        for tokens in (7, 0):
            layer.zero_grad()
            padding = torch.ones(2, tokens, dtype=torch.bool) if padded else None
            layer(torch.randn(2, tokens, 12), padding=padding).sum().backward()
            having[tokens] = {key for key, parameter in layer.named_parameters() if parameter.grad is not None}
        assert having[0] == having[7]  # distributed training waits for the gradient of each
        assert all((layer.get_parameter(key).grad == 0).all() for key in having[0])


@pytest.mark.parametrize("name", ["additive", "cosine"])
def test_memory_is_linear_in_the_length(name):
    relative, inputs = drawn(1500, torch.float32)
    score = SCORES[name](2, 6)
    with Operations() as operations:
        truncated_attention(*inputs, 8, 2, score=score, relative=relative).sum().backward()
    assert operations.largest <= 2 * 2 * 1500 * 6


def test_dropout_is_the_same_in_both_passes():
    relative, inputs = drawn(4)
    score = SCORES["cosine"](2, 6).double()

    def dropping(*inputs):
        torch.manual_seed(5)
        return truncated_attention(*inputs, 4, 2, score=score, relative=relative, dropout=0.3)

    plain = truncated_attention(*inputs, 4, 2, score=score, relative=relative)
    assert not torch.allclose(dropping(*inputs), plain)
    assert torch.autograd.gradcheck(dropping, inputs)


def test_a_score_is_linear_in_the_key_only_if_it_says_so():
    class Mixed(Dot, General):
        pass

    class Changed(General):
        def prepare(self, query, key):
            return query, 2 * key

    class Mixin:
        def prepare(self, query, key):
            return query, key.tanh()

    class Inherited(Mixin, Dot):
        pass

    known = {name: SCORED[name](2, 6).linear_in_key for name in SCORED}
    assert known == {name: name not in ("additive", "cosine", "squashed") for name in SCORED}
    assert Mixed(2, 6).linear_in_key and not Changed(2, 6).linear_in_key and not Inherited(2, 6).linear_in_key
