"""Theoretical fields: against the closed formula, and against where exact gradients are not zero.

The formula is Araujo, Norris and Sim 2019 (doi:10.23915/distill.00021), eqs. 2 and 5, from the first layer to the last;
the code goes backward_order. In double precision with positive weights no path can cancel another.

Shapes: B = 1 batch, C channels, R rows, W columns, T tokens.
"""

from math import inf, prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from vitspeech.attention import ConvolutionModule, MultiHeadAttention
from vitspeech.frontends import LinearPatches
from vitspeech.frontends.frames import StackedFrames
from vitspeech.receptive.fields.theoretical import GraphReader, Span, read_graph


def closed_form(layers, place):
    """First and last place that a unit sees along an axis; layers are (kernel, stride, padding, dilation)."""
    strides = [prod(stride for _, stride, _, _ in layers[:number]) for number in range(len(layers) + 1)]
    size = 1 + sum(gap * (kernel - 1) * jump for (kernel, _, _, gap), jump in zip(layers, strides, strict=False))
    first = place * strides[-1] - sum(layer[2] * jump for layer, jump in zip(layers, strides, strict=False))
    return first, first + size - 1


@st.composite
def convolution(draw, most_stride=2, most_dilation=2):
    kernel = draw(st.integers(1, 4))
    return (
        kernel,
        draw(st.integers(1, most_stride)),
        draw(st.integers(0, kernel - 1)),
        draw(st.integers(1, most_dilation)),
    )


@st.composite
def pooling(draw):
    kernel = draw(st.integers(1, 4))
    return kernel, draw(st.integers(1, 2)), draw(st.integers(0, kernel // 2)), 1


@st.composite
def layer(draw):
    """A layer's kind, and its numbers along the rows and along the columns."""
    kind = draw(st.sampled_from(["convolution", "average", "maximum"]))
    numbers = convolution() if kind == "convolution" else pooling()
    return kind, draw(numbers), draw(numbers)


def made(kind, rows, columns):
    kernel, stride, padding, dilation = zip(rows, columns, strict=True)
    if kind == "average":
        return nn.AvgPool2d(kernel, stride, padding)
    if kind == "maximum":
        return nn.MaxPool2d(kernel, stride, padding)
    convolution = nn.Conv2d(1, 1, kernel, stride, padding, dilation).double()
    nn.init.uniform_(convolution.weight, 0.5, 1)
    return convolution


def support(output, source, place):
    """Bounding box of the places on which the unit depends: first and last row, first and last column."""
    gradient = torch.autograd.grad(output[0, :, place[0], place[1]].sum(), source, retain_graph=True)[0]
    found = gradient[0].abs().sum(0).nonzero()
    return [(int(axis.min()), int(axis.max())) for axis in found.unbind(1)]


def boxes(spans):
    return [(span.low, span.high) for span in spans]


@settings(deadline=None, max_examples=120)
@given(st.lists(layer(), min_size=1, max_size=4), st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_a_stacks_field_is_that_of_the_formula_and_of_the_gradient(layers, extra):
    # The unit nearest to the corner that sees nothing but the picture, of which its field is the end, or nearly so.
    place, box = [], []
    for axis in (1, 2):
        along = [layer[axis] for layer in layers]
        place.append(next(unit for unit in range(99) if closed_form(along, unit)[0] >= 0))
        box.append(closed_form(along, place[-1]))
    source = torch.rand(1, 1, *(high + 1 + more for (_, high), more in zip(box, extra, strict=True)))
    source = source.double().requires_grad_()
    output = nn.Sequential(*(made(*layer) for layer in layers))(source)
    found = GraphReader().field(output, source, tuple(place))
    assert boxes(found) == box
    assert [span.center for span in found] == [(low + high) / 2 for low, high in box]
    inside = support(output, source, place)
    if any(kind == "maximum" for kind, *_ in layers):
        assert all(low >= box[axis][0] and high <= box[axis][1] for axis, (low, high) in enumerate(inside))
    else:
        assert inside == box


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(convolution(1, 1), convolution(1, 1)), min_size=1, max_size=4),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_a_unit_at_a_border_sees_the_field_clipped_to_the_picture(layers, place):
    source = torch.rand(1, 1, 17, 19, dtype=torch.float64, requires_grad=True)
    output = nn.Sequential(*(made("convolution", *layer) for layer in layers))(source)
    place = tuple(round(share * (size - 1)) for share, size in zip(place, output.shape[2:], strict=True))
    found = boxes(GraphReader().field(output, source, place))
    clipped = [(max(low, 0), min(high, size - 1)) for (low, high), size in zip(found, (17, 19), strict=True)]
    assert support(output, source, place) == clipped


def test_max_pooling_could_take_any_place_of_its_kernel():
    source = torch.eye(35, dtype=torch.float64).reshape(35, 1, 5, 7).requires_grad_()  # each place once the largest
    output = nn.MaxPool2d((2, 3), (2, 1), (0, 1))(source)
    gradient = torch.autograd.grad(output[:, :, 1, 2].sum(), source)[0]
    reached = (gradient[:, 0] * source[:, 0]).sum(0).nonzero()
    low, high = reached.amin(0).tolist(), reached.amax(0).tolist()
    assert boxes(GraphReader().field(output, source, (1, 2))) == list(zip(low, high, strict=True)) == [(2, 3), (1, 3)]


def test_convolutions_over_time_see_moments_and_all_mel_bins():
    source = torch.rand(1, 5, 61, dtype=torch.float64, requires_grad=True)
    stack = nn.Sequential(nn.Conv1d(5, 3, 5, 2), nn.GELU(), nn.Conv1d(3, 3, 3, 1, 1, 2)).double()
    output = stack(source)
    rows, columns = GraphReader().field(output, source, (11, 0))
    assert (rows.low, rows.high) == closed_form([(5, 2, 0, 1), (3, 1, 1, 2)], 11) == (20, 32)
    assert (columns.low, columns.high) == (-inf, inf)
    gradient = torch.autograd.grad(output[0, :, 11].sum(), source)[0].abs().sum(1)[0].nonzero()
    assert (int(gradient.min()), int(gradient.max())) == (20, 32)


def test_paths_that_meet_have_the_union_of_their_fields():
    source = torch.rand(1, 1, 23, 29, dtype=torch.float64, requires_grad=True)
    above, below = made("convolution", (2, 1, 1, 1), (3, 1, 1, 1)), made("convolution", (4, 1, 0, 1), (1, 1, 0, 1))
    left = above(source)[:, :, :20]
    right = below(source)[:, :, :20]
    for output in (left + right, right + left, torch.cat((left, right), 1), left * right):
        assert boxes(GraphReader().field(output, source, (9, 11))) == [(8, 12), (10, 12)]
        assert support(output, source, (9, 11)) == [(8, 12), (10, 12)]


@pytest.mark.parametrize(
    "mix",
    [
        nn.GroupNorm(1, 4),
        nn.AdaptiveAvgPool2d(3),
        nn.AdaptiveMaxPool2d(1),
        lambda x: x.mean((2, 3), keepdim=True) * x,
        lambda x: x.mean((-1, -2), keepdim=True) + x,
        lambda x: x.roll(1, 2),
        lambda x: x.flatten(2).softmax(-1).unflatten(2, (5, 5)),
        lambda x: F.scaled_dot_product_attention(x, x, x),
    ],
    ids=["group", "adaptive mean", "adaptive max", "mean", "mean from the end", "roll", "softmax", "attention"],
)
def test_operations_across_all_positions_have_an_unlimited_field(mix):
    source = torch.rand(1, 4, 5, 5, requires_grad=True)
    assert boxes(GraphReader().field(mix(source), source, (0, 0))) == [(-inf, inf), (-inf, inf)]


@pytest.mark.parametrize(
    "apart",
    [
        nn.ReLU(),
        nn.BatchNorm2d(4).eval(),
        lambda x: x.mean(1, keepdim=True),
        lambda x: x.mean(-3, keepdim=True),
        lambda x: nn.LayerNorm(4)(x.movedim(1, -1)).movedim(-1, 1),
        lambda x: nn.Linear(4, 3)(x.flatten(2).transpose(1, 2)).mean(-1),
    ],
    ids=["relu", "batch norm", "channels", "channels from the end", "layer norm", "linear"],
)
def test_pointwise_operations_have_a_field_of_one_position(apart):
    source = torch.rand(1, 4, 5, 5, requires_grad=True)
    assert boxes(GraphReader().field(apart(source), source, (1, 3))) == [(1, 1), (3, 3)]


class Windowed(nn.Module):
    """Two layers of windowed attention, the second of which is added to its input."""

    def __init__(self):
        super().__init__()
        self.first = MultiHeadAttention(6, 2, left=3, right=1)
        self.second = MultiHeadAttention(6, 2, left=2, right=0)

    def forward(self, x):
        x = self.first(x)
        return x + self.second(x)


def test_windows_of_attention_add_up():
    network, source = Windowed().double(), torch.rand(1, 31, 6, dtype=torch.float64, requires_grad=True)
    with read_graph(network) as reader:
        output = network(source)
    assert boxes(reader.field(output, source, (17, 0)))[0] == (17 - 5, 17 + 1)
    gradient = torch.autograd.grad(output[0, 17].sum(), source)[0][0].abs().sum(1).nonzero()
    assert (int(gradient.min()), int(gradient.max())) == (12, 18)


@pytest.mark.parametrize("left, right", [(None, 0), (4, None), (None, None), (4, 0)])
def test_a_side_without_a_limit_is_infinite(left, right):
    network, source = MultiHeadAttention(6, 2, left=left, right=right), torch.rand(1, 31, 6, requires_grad=True)
    with read_graph(network) as reader:
        output = network(source)
    low, high = boxes(reader.field(output, source, (17, 0)))[0]
    assert low == (-inf if left is None else 17 - left)
    assert high == (inf if right is None else 17 + right)


def test_a_convolution_module_sees_its_tokens_before_and_after():
    network, source = ConvolutionModule(6, 5, right=1), torch.rand(1, 31, 6, requires_grad=True)
    with read_graph(network) as reader:
        output = network(source)
    assert boxes(reader.field(output, source, (17, 0)))[0] == (17 - 3, 17 + 1)


def test_patches_and_stacked_frames_see_what_they_are_cut_from():
    pictures, frames = torch.rand(1, 3, 20, 20, requires_grad=True), torch.rand(1, 17, 5, requires_grad=True)
    patches, stacked = LinearPatches(20, 4, 7), StackedFrames(5, 7, 3)
    with read_graph(patches) as reader:
        output = patches(pictures)
    assert reader.field(output, pictures, (2, 3)) == (Span(8, 11, 9.5), Span(12, 15, 13.5))
    with read_graph(stacked) as reader:
        output = stacked(frames)
    rows, columns = reader.field(output, frames, (2, 0))
    assert rows == Span(6, 8, 7) and (columns.low, columns.high) == (-inf, inf)


@pytest.mark.parametrize("kind", [nn.MaxPool1d, nn.AvgPool1d])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 0), (3, 2, 1)])
def test_pooling_in_time_moves_in_time(kind, kernel, stride, padding):
    frames = torch.rand(1, 4, 12, requires_grad=True)
    rows, columns = GraphReader().field(kind(kernel, stride, padding)(frames), frames, (3, 0))
    low = 3 * stride - padding
    assert (rows.low, rows.high) == (low, low + kernel - 1) and (columns.low, columns.high) == (-inf, inf)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
def test_padding_shifts_the_field(mode):
    class Padded(nn.Module):
        def forward(self, x):
            return F.pad(x, (5, 1, 2, 7), mode=mode)

    x = torch.randn(1, 1, 11, 13, requires_grad=True)
    network = Padded()
    with read_graph(network) as reader:
        output = network(x)
    assert support(output, x, (6, 9)) == [(4, 4), (4, 4)]
    assert [(span.low, span.high, span.center) for span in reader.field(output, x, (6, 9))] == [(4, 4, 4)] * 2
