"""Truncated attention against the dense mask in float64: values, and gradients of everything that has one.

Shapes: B up to 3 sequences, H up to 3 heads, T up to 100 tokens (blocks of 2 to 32), K = 3, V = 5.
"""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitspeech.attention import (
    MultiHeadAttention,
    RelativePositions,
    padding_mask,
    truncated_attention,
    window_mask,
)
from vitspeech.attention.dense import attend, attend_pairs
from vitspeech.attention.kernels import Kernel, choose_kernel
from vitspeech.attention.scores import NORMALIZERS, SCORES
from vitspeech.attention.windowed import blocks, blockwise, truncated
from vitspeech.attention.windowed.blocks import pieces

CONTEXTS = st.none() | st.integers(0, 9) | st.integers(0, 140)


@pytest.fixture(autouse=True)
def by_blocks(monkeypatch):
    """Never the dense way that short sequences would take, nor the fused one of a whole past."""

    def chosen(request):
        if request.relative and not request.linear:
            return Kernel.PAIRWISE
        return Kernel.BLOCKWISE if request.keys else Kernel.EXPLICIT

    monkeypatch.setattr(truncated, "choose_kernel", chosen)


def drawn(batch, heads, tokens, *widths, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(batch, heads, tokens, width, generator=generator, dtype=torch.float64) for width in widths)
    return [tensor.to(dtype).requires_grad_() for tensor in made]


def dense(query, key, value, left, right, padding=None, score=None, normalizer="softmax", relative=None):
    """The same with a mask of T x T."""
    score = SCORES["scaled_dot"](query.shape[1], query.shape[3]) if score is None else score
    mask = window_mask(query.shape[2], query.shape[2], left, right)
    mask = mask if padding is None else mask & padding[:, None, None]
    if relative is not None and not score.linear_in_key:
        return attend_pairs(query, key, value, mask, score=score, normalizer=normalizer, relative=relative)[0]
    options = {"additive_vector": score.additive_vector, "normalizer": normalizer, "relative": relative}
    return attend(*score.prepare(query, key), value, mask, scale=score.scale, **options)[0]


def assert_same(ours, theirs, inputs):
    """Equal values and equal gradients of a random combination of them."""
    assert_close(ours, theirs)
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(9), dtype=ours.dtype)
    gradients = [torch.autograd.grad(result, inputs, upstream, allow_unused=True) for result in (ours, theirs)]
    for our, their in zip(*gradients, strict=True):
        # A gradient that the one calls none and the other zero is the same.
        assert_close(torch.zeros(()) if our is None else our, our * 0 if their is None else their)


def check_dense_mask(tokens, left, right, batch, heads, block, at_once, data):
    lengths = data.draw(st.none() | st.lists(st.integers(0, tokens), min_size=batch, max_size=batch))
    padding = None if lengths is None else padding_mask(torch.tensor(lengths), tokens)
    inputs = drawn(batch, heads, tokens, 3, 3, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(truncated, "BLOCK", block)
        patch.setattr(blocks, "LONE_BLOCK", 4 * block)
        patch.setitem(blockwise.SCORES_AT_ONCE, "cpu", at_once)
        ours = truncated_attention(*inputs, left, right, padding=padding)
        assert_same(ours, dense(*inputs, left, right, padding), inputs)


INPUTS = given(
    tokens=st.integers(0, 100),
    left=CONTEXTS,
    right=CONTEXTS,
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    block=st.sampled_from([2, 3, 8, 32]),
    at_once=st.sampled_from([1, 300, 10**6]),
    data=st.data(),
)
test_equals_the_dense_mask_in_values_and_gradients = settings(deadline=None, max_examples=300)(INPUTS(check_dense_mask))
test_many_equal_the_dense_mask = pytest.mark.slow(settings(deadline=None, max_examples=1500)(INPUTS(check_dense_mask)))


@settings(deadline=None, max_examples=250)
@given(
    tokens=st.integers(0, 90),
    left=CONTEXTS,
    right=CONTEXTS,
    name=st.sampled_from(list(SCORES)),
    normalizer=st.sampled_from(NORMALIZERS),
    clip=st.none() | st.integers(0, 20),
    lengths=st.none() | st.tuples(st.integers(0, 90), st.integers(0, 90)),
)
def test_every_score_normalizer_and_relative_position_equals_the_dense_mask(
    tokens, left, right, name, normalizer, clip, lengths
):
    torch.manual_seed(0)
    score = SCORES[name](2, 3).double()
    relative = None if clip is None else RelativePositions(3, clip).double()
    padding = None if lengths is None else padding_mask(torch.tensor(lengths).clamp(max=tokens), tokens)
    inputs = drawn(2, 2, tokens, 3, 3, 3)
    given = (*inputs, left, right)
    options = {"padding": padding, "score": score, "normalizer": normalizer, "relative": relative}
    parameters = [*score.parameters(), *([] if relative is None else relative.parameters())]
    assert_same(truncated_attention(*given, **options), dense(*given, **options), inputs + parameters)


@settings(deadline=None, max_examples=300)
@given(
    tokens=st.integers(0, 300),
    left=st.integers(0, 299),
    right=st.integers(0, 299),
    block=st.sampled_from([1, 2, 8, 32]),
)
def test_pieces_hold_every_query_once_and_all_its_keys(tokens, left, right, block):
    left, right = (min(side, max(tokens - 1, 0)) for side in (left, right))
    seen = []
    for piece in pieces(tokens, left, right, block):
        for number in range(piece.blocks):
            query, key = piece.query + number * piece.queries, piece.key + number * piece.queries
            seen += range(query, query + piece.queries)
            assert key >= 0 and key + piece.keys <= tokens
            assert key <= max(query - left, 0)
            assert key + piece.keys >= min(query + piece.queries + right, tokens)
    assert sorted(seen) == list(range(tokens))


@pytest.mark.parametrize("dtype, close", [(torch.float32, 1e-5), (torch.bfloat16, 5e-2)])
def test_lower_precision_is_close_to_double(dtype, close):
    inputs = drawn(2, 3, 211, 7, 7, 7)
    lower = [tensor.detach().to(dtype).requires_grad_() for tensor in inputs]
    expected, result = dense(*inputs, 20, 9), truncated_attention(*lower, 20, 9)
    assert result.dtype == dtype
    assert_close(result.double(), expected, atol=close, rtol=close)
    for our, their in zip(
        torch.autograd.grad(result.square().sum(), lower),
        torch.autograd.grad(expected.square().sum(), inputs),
        strict=True,
    ):
        assert our.dtype == dtype
        assert_close(our.double(), their, atol=4 * close, rtol=4 * close)


@pytest.mark.parametrize("left, right", [(0, 0), (5, 3)])
@pytest.mark.parametrize("length", [200, 150])
@pytest.mark.parametrize("clip", [None, 2])
def test_products_beyond_half_precision_do_not_overflow(left, right, length, clip):
    torch.manual_seed(0)
    signs = torch.randn(1, 2, 200, 1).sign().expand(-1, -1, -1, 64)
    inputs = [tensor.half().requires_grad_() for tensor in (torch.full(signs.shape, 40.0), 40 * signs, signs)]
    padding = padding_mask(torch.tensor([length]), 200)
    relative = None if clip is None else RelativePositions(64, clip)
    if clip is not None:  # the scores of neighboring distances differ by 160; at 12,800, steps of half precision are 8
        relative.key.data = torch.arange(2 * clip + 1.0)[:, None].expand(-1, 64) / 2
    ours = truncated_attention(*inputs, left, right, padding=padding, relative=relative)
    gradients = torch.autograd.grad(ours.sum(), inputs)
    exact = None if relative is None else relative.double()
    expected = dense(*(tensor.double() for tensor in inputs), left, right, padding, relative=exact)
    assert_close(ours.double(), expected, atol=0.02, rtol=0)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(
    "normalizer, valid, padded", [*itertools.product(["softmax"], (-25.0, 25.0), (-25.0, 25.0)), ("relu", -25.0, 25.0)]
)
def test_large_scores_in_half_precision_leave_padding_without_weight(normalizer, valid, padded):
    torch.manual_seed(0)
    padding = torch.ones(1, 300, dtype=torch.bool)
    padding[:, 100:160] = False
    key = torch.where(padding[:, None, :, None], valid, padded).expand(-1, -1, -1, 64)  # scores of 40,000
    inputs = [tensor.half().requires_grad_() for tensor in (torch.full(key.shape, 25.0), key, torch.randn(key.shape))]
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    options = {"padding": padding, "score": SCORES["dot"](1, 64), "normalizer": normalizer}
    ours, theirs = truncated_attention(*inputs, 7, 3, **options), dense(*exact, 7, 3, **options)
    assert_close(ours.double(), theirs, atol=2e-3, rtol=2e-3)
    assert (ours[:, :, 107:157] == 0).all()
    gradients = [torch.autograd.grad(result.sum(), given) for result, given in ((ours, inputs), (theirs, exact))]
    for our, their in zip(*gradients, strict=True):
        assert_close(our.double(), their, atol=0.1, rtol=2e-3)
        assert (our[:, :, 107:157] == 0).all()


@pytest.mark.parametrize("hidden", [-40.0, 40.0])
@pytest.mark.parametrize("padded", [False, True])
def test_scores_that_overflow_outside_the_window_or_in_padding_count_for_nothing(padded, hidden):
    valid = torch.arange(300) < 150
    key = torch.where(valid, 1.0, hidden)[:, None].expand(1, 1, 300, 64)  # 40 · 40 · 64 is infinite
    seeing = torch.full((300,), 40.0)
    if not padded:
        seeing[147:] = 0  # those that would overflow rightly
    query = seeing[:, None].expand(key.shape)
    inputs = [tensor.half().requires_grad_() for tensor in (query, key, torch.ones(key.shape))]
    options = {"padding": valid[None] if padded else None, "score": SCORES["dot"](1, 64)}
    attended = truncated_attention(*inputs, 7, 3, **options)
    assert_close(attended[:, :, :147], torch.ones_like(attended[:, :, :147]), atol=2e-3, rtol=0)
    assert not padded or (attended[:, :, 157:] == 0).all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(attended.sum(), inputs))


@pytest.mark.parametrize("layout", ["sliced", "transposed", "expanded"])
def test_inputs_of_any_layout_are_read_right(layout):
    joined = torch.randn(2, 101, 3, 5, 7, dtype=torch.float64)  # as a joined projection leaves them
    inputs = {
        "sliced": [part.transpose(1, 2) for part in joined.unbind(2)],
        "transposed": [torch.randn(2, 7, 101, 5, dtype=torch.float64).permute(0, 3, 2, 1) for _ in range(3)],
        "expanded": [torch.randn(2, 1, 101, 7, dtype=torch.float64).expand(-1, 5, -1, -1) for _ in range(3)],
    }[layout]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    assert_same(truncated_attention(*inputs, 9, 4), dense(*inputs, 9, 4), inputs)


def test_a_call_in_inference_mode_does_not_affect_training():
    inputs = drawn(2, 3, 149, 11, 11, 11, dtype=torch.float64)
    with torch.inference_mode():
        before = truncated_attention(*inputs, 13, 2)
    assert_same(truncated_attention(*inputs, 13, 2), dense(*inputs, 13, 2), inputs)
    assert_close(before.clone(), dense(*inputs, 13, 2).detach())


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
def test_dropout_gradient_matches_its_forward_pass(name, normalizer, monkeypatch):
    monkeypatch.setattr(truncated, "BLOCK", 4)
    monkeypatch.setattr(blocks, "LONE_BLOCK", 8)
    torch.manual_seed(0)
    score, relative = SCORES[name](2, 3).double(), RelativePositions(3, 4).double()
    inputs = drawn(1, 2, 19, 3, 3, 3)

    def dropping(*inputs):
        torch.manual_seed(5)
        options = {"score": score, "normalizer": normalizer, "relative": relative, "dropout": 0.3}
        return truncated_attention(*inputs, 5, 2, **options)

    assert not torch.allclose(dropping(*inputs), dense(*inputs, 5, 2, None, score, normalizer, relative))
    assert torch.autograd.gradcheck(dropping, inputs)


def test_dropout_drops_its_share_of_single_weights_and_keeps_the_expectation():
    torch.manual_seed(0)
    query = key = torch.zeros(1, 7, 4099, 2)
    value = torch.eye(5).repeat(1, 7, 820, 1)[:, :, :4099]  # tells by its column which of 5 keys was kept
    dropped = truncated_attention(query, key, value, 2, 2, dropout=0.3)[:, :, 2:-2]
    weights = dropped * 5 * 0.7
    assert_close(weights, weights.round(), atol=1e-5, rtol=0)
    assert abs((dropped == 0).float().mean() - 0.3) < 0.005
    assert_close(dropped.mean((0, 1, 2)), torch.full((5,), 0.2), atol=0.005, rtol=0)
    other = truncated_attention(query, key, value, 2, 2, dropout=0.3)[:, :, 2:-2]
    assert not torch.equal(dropped, other)
    assert not torch.equal(dropped[0, 0], dropped[0, 1])


def test_second_derivative_is_refused_rather_than_wrong():
    inputs = drawn(1, 1, 41, 3, 3, 3)
    gradient = torch.autograd.grad(truncated_attention(*inputs, 5, 2).square().sum(), inputs, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("left", [None, 1030, 5000])
def test_a_whole_past_of_a_long_sequence_is_the_fused_kernels(left, monkeypatch):
    monkeypatch.setattr(truncated, "choose_kernel", choose_kernel)
    inputs = drawn(1, 2, 1031, 3, 3, 3)
    assert_same(truncated_attention(*inputs, left, 0), dense(*inputs, None, 0), inputs)


@pytest.mark.parametrize(
    "shapes", [((2, 5, 3),) * 3, ((1, 2, 5, 3), (1, 2, 7, 3), (1, 2, 7, 3)), ((1, 2, 5, 3), (1, 2, 5, 3), (1, 3, 5, 3))]
)
def test_shapes_that_do_not_fit_are_an_error_that_names_them(shapes):
    with pytest.raises(ValueError) as error:
        truncated_attention(*(torch.zeros(shape) for shape in shapes), 1, 1)
    assert all(str(shape) in str(error.value) for shape in shapes)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, on its way to compile
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [{}, {"score": "cosine", "positions": "relative"}], ids=["plain", "pairwise"])
def test_compiled_module_has_the_same_values_and_gradients(backend, options):
    torch.manual_seed(0)
    ours = MultiHeadAttention(12, 2, left=9, right=4, **options)
    x = torch.randn(3, 101, 12, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend=backend)
    results = [attention(x) for attention in (ours, compiled)]
    gradients = [torch.autograd.grad(result.square().sum(), [x, *ours.parameters()]) for result in results]
    assert_close(*results)
    for eager, traced in zip(*gradients, strict=True):
        assert_close(traced, eager, atol=1e-4, rtol=1e-4)


def attentions():
    options = itertools.product(SCORES, NORMALIZERS, [None, "relative", "rotary"])
    return [
        {"score": score, "normalizer": normalizer, "positions": positions} for score, normalizer, positions in options
    ]


@pytest.mark.parametrize("options", attentions(), ids=lambda options: "-".join(map(str, options.values())))
def test_module_gives_the_same_by_blocks_as_with_its_dense_mask(options):
    torch.manual_seed(0)
    ours = MultiHeadAttention(12, 2, left=9, right=4, **options).double()
    x = torch.randn(3, 101, 12, dtype=torch.float64, requires_grad=True)
    padding = padding_mask(torch.tensor([101, 67, 0]), 101)
    everything = torch.ones(101, 101, dtype=torch.bool)  # a mask makes it look at every pair
    inputs = [x, *ours.parameters()]
    assert_same(ours(x, padding=padding), ours(x, padding=padding, mask=everything), inputs)


@pytest.mark.parametrize("kind", ["full", "truncated"])
def test_module_under_autocast_works_in_every_score(kind):
    for options in attentions():
        ours = MultiHeadAttention(12, 2, **({"left": 9, "right": 4} if kind == "truncated" else {}), **options)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = ours(torch.randn(2, 101, 12))
        result.float().square().sum().backward()
        assert result.dtype == torch.bfloat16
        assert all(p.grad is not None and p.grad.isfinite().all() for p in ours.parameters()), options


class Truncated(torch.nn.Module):
    """`truncated_attention` in a module of the user's own."""

    def __init__(self, score, relative):
        super().__init__()
        self.score, self.relative = score, relative

    def forward(self, query, key, value):
        return truncated_attention(query, key, value, 5, 2, score=self.score, relative=self.relative)


@pytest.mark.parametrize("is_relative", [False, True])
@pytest.mark.parametrize("name", SCORES)
def test_an_exported_graph_equals_the_dense_mask_at_any_length(name, is_relative, monkeypatch):
    monkeypatch.setattr(truncated, "choose_kernel", choose_kernel)
    torch.manual_seed(0)
    score, relative = SCORES[name](2, 3).double(), RelativePositions(3, 4).double() if is_relative else None
    length = torch.export.Dim("length", min=2, max=4096)
    inputs = [tensor.detach() for tensor in drawn(1, 2, 40, 3, 3, 3)]
    exported = torch.export.export(Truncated(score, relative), tuple(inputs), dynamic_shapes=[{2: length}] * 3)
    others = [tensor.detach() for tensor in drawn(1, 2, 70, 3, 3, 3, seed=1)]
    assert_close(exported.module()(*others), dense(*others, 5, 2, score=score, relative=relative))
