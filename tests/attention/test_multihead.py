"""Multi-head attention against nn.MultiheadAttention with the same weights and against dense float64 sums.

Shapes: B = 3 sequences, T = 11 queries, S = 13 keys, D = 35, H = 5, K = 7.
"""

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import MultiHeadAttention, causal_mask, multihead, padding_mask
from vitspeech.attention.kernels import Kernel
from vitspeech.attention.windowed import truncated
from vitspeech.errors import InputError

LENGTHS = torch.tensor([11, 7, 2])


def attention(dtype=torch.float64, width=35, heads=5, **options):
    """An attention with every weight and bias drawn at random."""
    torch.manual_seed(0)
    made = MultiHeadAttention(width, heads, **options).to(dtype)
    for projection in (made.query, made.key, made.value, made.output):
        nn.init.normal_(projection.bias)
    return made


def sequence(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)


def reference(ours):
    """PyTorch's own with copied weights."""
    theirs = nn.MultiheadAttention(ours.query.in_features, ours.heads, batch_first=True, dtype=torch.float64)
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    return theirs


def dense(ours, x):
    """Truncated self-attention by its definition, in numpy: each query sums over the keys of its window."""
    weight = {name: value.detach().numpy() for name, value in ours.state_dict().items()}
    x = x.detach().numpy()
    batch, tokens, width = x.shape
    parts = ("query", "key", "value")
    query, key, value = (x @ weight[f"{part}.weight"].T + weight[f"{part}.bias"] for part in parts)
    joined, size = numpy.zeros_like(x), width // ours.heads
    for b, h, t in numpy.ndindex(batch, ours.heads, tokens):
        first = 0 if ours.left is None else max(t - ours.left, 0)
        past = tokens if ours.right is None else min(t + ours.right + 1, tokens)
        head = slice(h * size, (h + 1) * size)
        scores = numpy.exp(key[b, first:past, head] @ query[b, t, head] / math.sqrt(size))
        joined[b, t, head] = scores @ value[b, first:past, head] / scores.sum()
    return torch.from_numpy(joined @ weight["output.weight"].T + weight["output.bias"])


CASES = {
    "self": (11, {}, {}),
    "padding": (11, {"padding": padding_mask(LENGTHS, 11)}, {"key_padding_mask": ~padding_mask(LENGTHS, 11)}),
    "causal": (11, {"mask": causal_mask(11)}, {"attn_mask": ~causal_mask(11)}),
    "cross": (13, {}, {}),
    "cross padding": (
        13,
        {"padding": padding_mask(LENGTHS, 13)},
        {"key_padding_mask": ~padding_mask(LENGTHS, 13)},
    ),
    "both": (
        11,
        {"padding": padding_mask(LENGTHS, 11), "mask": causal_mask(11)},
        {"key_padding_mask": ~padding_mask(LENGTHS, 11), "attn_mask": ~causal_mask(11)},
    ),
}


@pytest.mark.parametrize("fused", [False, True], ids=["explicit", "fused"])
@pytest.mark.parametrize("case", CASES)
def test_equals_pytorch_in_values_gradients_and_weights(case, fused, monkeypatch):
    kernel = Kernel.FUSED if fused else Kernel.EXPLICIT
    monkeypatch.setattr(multihead, "choose_dense", lambda request: kernel)
    monkeypatch.setattr(truncated, "choose_kernel", lambda request: kernel)
    keys, our_masks, their_masks = CASES[case]
    ours, x = attention(), sequence(3, 11, 35)
    theirs = reference(ours)
    source = sequence(3, keys, 35, seed=2) if case.startswith("cross") else None
    seen = x if source is None else source
    result = ours(x, source, **our_masks)
    expected, weights = theirs(x, seen, seen, average_attn_weights=False, **their_masks)
    assert_close(result, expected)
    assert_close(ours.weights(x, source, **our_masks), weights)
    given = [x] if source is None else [x, source]
    for ours_of, theirs_of in zip(
        torch.autograd.grad(result.square().sum(), given, retain_graph=True),
        torch.autograd.grad(expected.square().sum(), given, retain_graph=True),
        strict=True,
    ):
        assert_close(ours_of, theirs_of)
    result.square().sum().backward()
    expected.square().sum().backward()
    parts = (ours.query, ours.key, ours.value)
    assert_close(torch.cat([part.weight.grad for part in parts]), theirs.in_proj_weight.grad)
    assert_close(torch.cat([part.bias.grad for part in parts]), theirs.in_proj_bias.grad)
    assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad)
    assert_close(ours.output.bias.grad, theirs.out_proj.bias.grad)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}, {"dropout": 0.3}])
def test_a_layer_of_pytorch_becomes_one_with_the_same_outputs(options):
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(35, 5, dtype=torch.float64, **options).eval()
    for name, parameter in theirs.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    ours, x, source = MultiHeadAttention.from_torch(theirs), sequence(3, 11, 35), sequence(3, 13, 35, seed=2)
    assert (ours.dropout, ours.training) == (theirs.dropout, False)

    def expected(x, source, **masks):
        inputs = x, source, source
        if not theirs.batch_first:
            inputs = [each.transpose(0, 1) for each in inputs]
        output, weights = theirs(*inputs, average_attn_weights=False, **masks)
        return output if theirs.batch_first else output.transpose(0, 1), weights

    ignored, forbidden = ~padding_mask(LENGTHS, 11), ~causal_mask(11)
    output, weights = expected(x, x, key_padding_mask=ignored, attn_mask=forbidden)
    assert_close(ours(x, padding=~ignored, mask=~forbidden), output)
    assert_close(ours.weights(x, padding=~ignored, mask=~forbidden), weights)
    of_heads = torch.rand(15, 11, 11, generator=torch.Generator().manual_seed(3)) > 0.7
    output, _ = expected(x, x, attn_mask=of_heads)
    assert_close(ours(x, mask=~of_heads.unflatten(0, (3, 5))), output)
    assert_close(ours(x, source), expected(x, source)[0])
    with torch.no_grad():
        theirs.out_proj.weight.zero_()
    assert ours.output.weight.abs().min() > 0


@pytest.mark.parametrize("options", [{"kdim": 7}, {"vdim": 7}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_a_layer_of_pytorch_without_a_counterpart_is_refused(options):
    with pytest.raises(InputError, match="has no counterpart here"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(35, 5, **options))
    with pytest.raises(InputError, match=r"^Linear is not a torch\.nn\.MultiheadAttention$"):
        MultiHeadAttention.from_torch(nn.Linear(35, 35))


def test_a_call_as_of_pytorchs_layer_is_answered_with_ours():
    x = sequence(3, 11, 6)
    for tensors in ((x, x, x), (x[0],)):
        with pytest.raises(InputError, match=r"x and one source .*\(batch, tokens, width\)"):
            attention(width=6, heads=2)(*tensors)


@settings(deadline=None, max_examples=60)
@given(tokens=st.integers(1, 13), left=st.none() | st.integers(0, 17), right=st.none() | st.integers(0, 17))
def test_window_equals_dense_sum_over_its_keys(tokens, left, right):
    ours, x = attention(width=6, heads=2, left=left, right=right), sequence(2, tokens, 6)
    assert_close(ours(x), dense(ours, x))


def test_window_and_padding_and_mask_all_apply():
    mask = torch.rand(3, 5, 11, 11, generator=torch.Generator().manual_seed(3)) > 0.3
    padding = padding_mask(LENGTHS, 11)
    weights = attention(left=2, right=1).weights(sequence(3, 11, 35), padding=padding, mask=mask)
    for b, h, t, s in numpy.ndindex(*weights.shape):
        allowed = mask[b, h, t, s] and s < LENGTHS[b] and t - 2 <= s <= t + 1
        assert (weights[b, h, t, s] > 0).item() == bool(allowed)


def test_query_that_may_attend_to_nothing_gets_the_output_bias():
    ours, x = attention(), sequence(3, 11, 35)
    mask = torch.ones(11, 11, dtype=torch.bool)
    mask[4] = False
    padding = padding_mask(torch.tensor([11, 7, 0]), 11)
    result = ours(x, padding=padding, mask=mask)
    bias = ours.output.bias.detach()
    assert torch.equal(result[:2, 4].detach(), bias.expand(2, -1))
    assert torch.equal(result[2].detach(), bias.expand(11, -1))
    result.square().sum().backward()
    assert result.isfinite().all() and x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in ours.parameters())


def test_dropout_is_active_in_training_only():
    plain, dropping, x = attention(), attention(dropout=0.4), sequence(3, 11, 35)
    assert not torch.allclose(dropping.train()(x), dropping(x))
    assert_close(dropping.weights(x), plain.weights(x))
    assert_close(dropping.eval()(x), plain(x))


@pytest.mark.parametrize("shape", [(), (11,), (1, 11), (11, 1), (5, 1, 11), (3, 1, 1, 11), (3, 5, 11, 11)])
def test_mask_of_any_shape_that_broadcasts_equals_the_expanded_one(shape):
    ours, x = attention(), sequence(3, 11, 35)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(5)) > 0.3
    expanded = ~mask.expand(3, 5, 11, 11).flatten(0, 1)
    expected = reference(ours)(x, x, x, attn_mask=expanded)[0]
    nothing = expanded.unflatten(0, (3, 5)).all(-1).any(1)  # NaN in PyTorch's
    assert not nothing.all()
    assert_close(ours(x, mask=mask)[~nothing], expected[~nothing])


def test_heads_that_do_not_divide_the_width_are_an_error():
    with pytest.raises(ValueError, match=r"^heads=5 does not divide width=192$"):
        MultiHeadAttention(192, 5)
    with pytest.raises(ValueError, match=r"^heads=0 does not divide width=192$"):
        MultiHeadAttention(192, 0)


@pytest.mark.parametrize("name, shape", [("padding", (3, 11)), ("mask", (11, 11))])
def test_mask_that_is_not_boolean_is_an_error(name, shape):
    with pytest.raises(ValueError, match="has dtype"):
        attention()(sequence(3, 11, 35), **{name: torch.ones(shape)})
