"""Effective fields: against exact Jacobians, the theory of deep stacks, and networks whose fields are known by hand.

Shapes: B inputs, C channels, R rows, W columns, T moments, M mel bins, L layers.
"""

import itertools
from dataclasses import replace
from math import inf

import numpy
import pytest
import torch
from receptive_networks import MEL, Applied
from torch import nn
from torch.testing import assert_close

from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier
from vitspeech.receptive.fields import effective
from vitspeech.receptive.fields.effective import central_units, effective_fields, iterate_fields, symmetric
from vitspeech.receptive.fields.layers import INPUT, Layer
from vitspeech.receptive.fields.measures import extent


class Residual(nn.Module):
    """x + what a branch makes of it, times a factor."""

    def __init__(self, branch, factor=1.0):
        super().__init__()
        self.branch, self.factor = branch, factor

    def forward(self, x):
        return x + self.branch(x) * self.factor


def stack(*modules):
    return nn.Sequential(*modules).eval().requires_grad_(False)


def pictures(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def picking(kernel, stride, place):
    """A convolution that hands on the pixel at one place of its kernel."""
    convolution = nn.Conv2d(1, 1, kernel, stride, bias=False)
    nn.init.zeros_(convolution.weight)
    convolution.weight.data[0, 0, place[0], place[1]] = 1
    return convolution


def energy_by_offset(field):
    """Where there is any energy, of all inputs together: (row's offset, column's offset) -> energy."""
    return {
        (float(field.rows[i]), float(field.columns[j])): float(field.energy.sum(0)[i, j])
        for i, j in field.energy.sum(0).nonzero().tolist()
    }


# What is estimated.


def test_the_mean_over_all_signs_is_the_squared_norm_of_the_exact_jacobian(monkeypatch):
    torch.manual_seed(0)
    network = stack(nn.Conv2d(2, 5, 3, padding=1), nn.GELU(), nn.Conv2d(5, 3, 3, padding=1), nn.Tanh()).double()
    inputs = pictures(2, 2, 7, 11, dtype=torch.float64)
    signs = torch.tensor(list(itertools.product((0, 1), repeat=3))).repeat_interleave(2, 0)  # each for both inputs
    monkeypatch.setattr(torch, "randint", lambda low, high, shape, generator: signs)
    field = effective_fields(network, inputs.repeat(8, 1, 1, 1), [Layer("3")], probe_units=1)[0].cumulative
    (row, column) = field.probe_units[0]
    assert (row, column) == (3, 5)
    jacobian = torch.autograd.functional.jacobian(lambda x: network(x)[:, :, row, column], inputs)  # (B, 3, B, 2, R, W)
    exact = torch.stack([jacobian[b, :, b].square().sum((0, 1)) for b in range(2)])
    mean = field.energy.unflatten(0, (8, 2)).mean(0)
    assert_close(mean[:, 6 - 3 : 13 - 3, 10 - 5 : 21 - 5], exact.float())
    assert_close(mean.sum(), exact.sum().float())


def test_the_field_is_the_mean_over_units_each_around_its_own_center():
    network = stack(picking(3, 1, (0, 1)), Applied(lambda x: x * x))
    inputs = pictures(3, 1, 9, 9).requires_grad_(False)
    field = effective_fields(network, inputs, [Layer("1")], probe_units=4)[0].cumulative
    assert field.probe_units == [(1, 1), (1, 5), (5, 1), (5, 5)]  # centered at 2 and 6 of 9 px
    seen = torch.stack([inputs[:, 0, row, column + 1] for row, column in field.probe_units])
    # d(x²)/dx = 2x at the pixel above the unit's center.
    assert energy_by_offset(field) == {(-1, 0): pytest.approx(float((2 * seen).square().mean(0).sum()), rel=1e-5)}


@pytest.mark.parametrize(
    "kernel, stride, place, offset",
    [
        (1, 1, (0, 0), (0, 0)),
        (3, 1, (2, 0), (1, -1)),
        (2, 1, (0, 1), (-0.5, 0.5)),  # the 2×2 whitening
        (2, 2, (1, 0), (0.5, -0.5)),  # pixel (2r + 1, 2c)
        (3, 2, (1, 2), (0, 1)),
        (3, 3, (0, 2), (-1, 1)),
        (4, 4, (3, 0), (1.5, -1.5)),  # patches of 4
        (5, 4, (4, 2), (2, 0)),
    ],
)
def test_fields_are_centered_for_even_and_odd_kernels_and_strides(kernel, stride, place, offset):
    inputs = torch.ones(2, 1, 23 * stride + kernel - stride, 23 * stride + kernel - stride)
    field = effective_fields(stack(picking(kernel, stride, place)), inputs, [Layer("0")])[0]
    assert field.stride == stride and field.grid == (23, 23)
    assert energy_by_offset(field.cumulative) == {offset: pytest.approx(2)}
    half = (kernel - 1) / 2
    assert [(span.low, span.high, span.center) for span in field.cumulative.theoretical] == [(-half, half, 0)] * 2
    row, column = field.cumulative.probe_units[0]
    assert field.cumulative.center == (row * stride + half, column * stride + half)


def test_places_merged_by_reshaping_are_centered_by_their_grid():
    pick = nn.Conv2d(4, 1, 1, bias=False)
    pick.weight.data = torch.tensor([0.0, 0, 1, 0]).reshape(1, 4, 1, 1)  # of a square's four pixels the lower left
    fields = effective_fields(stack(nn.PixelUnshuffle(2), pick), torch.ones(2, 1, 22, 22), [Layer("1")])[0]
    assert fields.stride == 2 and energy_by_offset(fields.cumulative) == {(0.5, -0.5): pytest.approx(2)}
    assert all(span.size == inf for span in fields.cumulative.theoretical)
    assert fields.cumulative.outside == 0 and not fields.cumulative.known


@pytest.mark.parametrize(
    "layers, share, squared", [(5, 0.66, 0.488), (10, 0.49, 0.355), (20, 0.36, 0.254), (40, 0.26, 0.181)]
)
def test_effective_width_grows_as_the_square_root_of_depth(layers, share, squared):
    network = stack(*(nn.Conv2d(1, 1, 3, padding=1, bias=False) for _ in range(layers)))
    for convolution in network:
        nn.init.constant_(convolution.weight, 1 / 9)
    field = effective_fields(network, pictures(2, 1, *[2 * layers + 7] * 2), [Layer(str(layers - 1))], probe_units=1)[
        0
    ].cumulative
    assert field.theoretical[0].size == 2 * layers + 1
    of_gradient = extent(replace(field, energy=field.energy.sqrt()))["of_theoretical"].value
    # Each layer adds the variance 2/3 of a uniform step of three pixels.
    assert of_gradient == pytest.approx(4 * (2 * layers / 3) ** 0.5 / (2 * layers + 1), rel=1e-4)
    assert of_gradient == pytest.approx(share, abs=0.006)
    walk = numpy.ones(1)
    for _ in range(layers):
        walk = numpy.convolve(walk, numpy.ones(3) / 3)
    walk = walk**2 / (walk**2).sum()
    deviation = (walk @ numpy.arange(-layers, layers + 1) ** 2) ** 0.5
    of_energy = extent(field)["of_theoretical"].value
    assert of_energy == pytest.approx(4 * deviation / (2 * layers + 1), rel=1e-4)
    assert of_energy == pytest.approx(squared, abs=0.0006) == pytest.approx(of_gradient / 2**0.5, rel=0.05)


# What numbers of it do not depend on.


class LaidOut(nn.Module):
    """Two convolutions whose results are handed on in some layout, by way of two modules that can be measured."""

    def __init__(self, there, back):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(2, 3, 3, 2, 1), nn.Conv2d(3, 5, 3, 1, 1)
        self.a, self.b, self.back = Applied(there), Applied(there), back

    def forward(self, x):
        return self.b(self.second(self.back(self.a(self.first(x).tanh()))))


def with_tokens_before(count):
    def there(x):
        return torch.cat((x.new_ones(len(x), count, x.shape[1]), x.flatten(2).transpose(1, 2)), 1)

    return there, lambda x: x[:, count:].transpose(1, 2).unflatten(2, (7, 7))


@pytest.mark.parametrize(
    "layout, class_tokens, there, back",
    [
        ("NHWC", 0, lambda x: x.movedim(1, -1), lambda x: x.movedim(-1, 1)),
        ("tokens", 0, *with_tokens_before(0)),
        ("tokens", 1, *with_tokens_before(1)),
        ("tokens", 2, *with_tokens_before(2)),
    ],
    ids=["NHWC", "tokens", "class token", "two class tokens"],
)
def test_pictures_laid_out_differently_have_the_same_fields(layout, class_tokens, there, back):
    inputs = pictures(3, 2, 14, 14)
    networks = [LaidOut(lambda x: x, lambda x: x), LaidOut(there, back)]
    layers = [[Layer(name) for name in "ab"], [Layer(name, layout, class_tokens) for name in "ab"]]
    plain, other = (effective_fields(n.eval(), inputs, some) for n, some in zip(networks, layers, strict=True))
    for ours, theirs in zip(plain, other, strict=True):
        assert (ours.grid, ours.stride, ours.block_stride) == (theirs.grid, theirs.stride, theirs.block_stride)
        for kind in ("cumulative", "block"):
            mine, its = getattr(ours, kind), getattr(theirs, kind)
            assert_close(mine.energy, its.energy)
            assert torch.equal(mine.rows, its.rows) and torch.equal(mine.columns, its.columns)
            assert mine.theoretical == its.theoretical and mine.probe_units == its.probe_units


def test_inputs_in_several_batches_have_the_fields_of_one(monkeypatch):
    torch.manual_seed(0)
    network = stack(nn.Conv2d(2, 3, 3), nn.GELU(), nn.Conv2d(3, 1, 3))  # of one channel signs do not matter
    inputs = pictures(5, 2, 11, 11)
    whole = effective_fields(network, inputs, [Layer("2")])[0].cumulative
    monkeypatch.setattr(effective, "BATCH_VALUES", 2 * inputs[0].numel())
    parts = effective_fields(network, inputs, [Layer("2")])[0].cumulative
    assert_close(parts.energy, whole.energy)
    assert parts.theoretical == whole.theoretical
    assert parts.outside == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("cumulative_only", [False, True])
def test_layers_held_in_memory_one_by_one_have_the_same_fields_and_their_progress_is_complete(
    monkeypatch, cumulative_only
):
    torch.manual_seed(0)
    residual = Residual(nn.Conv2d(1, 1, 3, padding=1))  # of one channel signs do not matter
    network = stack(nn.Conv2d(2, 1, 3, 2), residual, nn.Conv2d(1, 1, 3))
    inputs, layers, done = pictures(5, 2, 15, 15), [Layer(str(number)) for number in range(3)], []
    whole = effective_fields(network, inputs, layers, cumulative_only=cumulative_only)
    monkeypatch.setattr(effective, "GROUP_VALUES", 1)
    monkeypatch.setattr(effective, "BATCH_VALUES", 2 * inputs[0].numel())
    options = {"cumulative_only": cumulative_only, "progress": done.append}
    parts = list(iterate_fields(network, inputs, layers, Layer(INPUT), **options))
    for one, other in zip(whole, parts, strict=True):
        assert (one.stride, one.block_stride) == (other.stride, other.block_stride)
        for kind in ("cumulative", "cumulative_cut", "block", "block_cut"):
            first, second = getattr(one, kind), getattr(other, kind)
            assert (first is None) == (second is None)
            if first is not None:
                assert_close(first.energy, second.energy)
    assert sum(done) == pytest.approx(1) and len(done) == 9


# Paths, cut and whole, from the input and from the layer before.


def test_a_cut_field_is_that_of_the_branch_alone():
    torch.manual_seed(0)
    branch, inputs = nn.Conv2d(1, 1, (3, 5), padding=(1, 2)), pictures(3, 1, 11, 11)  # one channel: signs don't matter
    whole = effective_fields(stack(Residual(branch)), inputs, [Layer("0")])[0]
    alone = effective_fields(stack(branch), inputs, [Layer("0")])[0]
    assert alone.cumulative_cut is None and alone.block_cut is None  # there is nothing to cut
    alone = alone.cumulative
    assert_close(whole.cumulative_cut.energy, alone.energy)
    assert torch.equal(whole.block_cut.energy, whole.cumulative_cut.energy)
    off_center = torch.ones(21, 21, dtype=torch.bool)
    off_center[10, 10] = False
    assert_close(whole.cumulative.energy[:, off_center], alone.energy[:, off_center])
    own = (1 + branch.weight[0, 0, 1, 2]) ** 2
    assert_close(whole.cumulative.energy[:, 10, 10], own.expand(3))


def test_a_branch_that_is_multiplied_by_zero_leaves_no_cut_field():
    fields = effective_fields(stack(Residual(nn.Conv2d(3, 3, 3, padding=1), 0.0)), pictures(3, 3, 9, 9), [Layer("0")])
    assert fields[0].cumulative_cut is None and extent(fields[0].cumulative)["effective_pixels"].value == 1


def test_block_fields_are_measured_from_the_layer_before():
    torch.manual_seed(0)
    network = stack(nn.Conv2d(2, 3, 5, 2, 2), nn.GELU(), nn.Conv2d(3, 1, 3, 1, 1), Residual(nn.Conv2d(1, 1, 3, 1, 1)))
    fields = effective_fields(network, pictures(3, 2, 26, 26), [Layer("0"), Layer("2"), Layer("3")])
    assert [field.stride for field in fields] == [2, 2, 2] and [field.block_stride for field in fields] == [1, 2, 2]
    assert [field.block.theoretical[0].size for field in fields] == [5, 3, 3]
    assert [field.cumulative.theoretical[0].size for field in fields] == [5, 9, 13]
    assert torch.equal(fields[0].block.energy, fields[0].cumulative.energy)
    assert [field.cumulative_cut is None for field in fields] == [True, True, False]
    # What a block mixes does not depend on what lies before it, in one channel with no activation.
    last = stack(Residual(network[3].branch))
    alone = effective_fields(last, pictures(3, 1, 13, 13), [Layer("0")])[0]
    assert_close(fields[2].block.energy, alone.cumulative.energy)
    assert_close(fields[2].block_cut.energy, alone.cumulative_cut.energy)


def test_the_network_is_left_as_it_was():
    torch.manual_seed(0)
    network = stack(Residual(nn.Conv2d(1, 1, 3, padding=1)), nn.Conv2d(1, 1, 3))
    inputs = pictures(3, 1, 9, 9)
    before = network(inputs)
    effective_fields(network, inputs, [Layer("0"), Layer("1")])
    assert torch.equal(network(inputs), before) and not inputs.requires_grad
    assert all(not module._forward_hooks for module in network.modules())


# Speech: truncated attention.


def recognizer(left, right, *, stem="convolutional", stride=2, depth=3):
    torch.manual_seed(0)
    tokens = SpeechFrontend(8, mels=5, stem=stem, stride=stride)
    return (
        SpeechClassifier(3, tokens, encoder={"depth": depth, "heads": 2, "left": left, "right": right})
        .eval()
        .requires_grad_(False)
    )


@pytest.mark.parametrize("stem, center", [("convolutional", 3), ("stacked", 0.5)])
def test_the_field_of_a_truncated_encoder_is_its_windows_and_stem(stem, center):
    left, right = [2, 1, 3], [1, 0, 2]
    network = recognizer(left, right, stem=stem)
    layers = [Layer("tokens.frames", "frames"), *(Layer(f"encoder.blocks.{n}", "frames") for n in range(3))]
    fields = effective_fields(network, 0.1 * pictures(3, 16000), layers, source=MEL, probe_units=5)
    for number, field in enumerate(fields):
        low, high = -2 * sum(left[:number]) - center, 2 * sum(right[:number]) + center
        assert (field.cumulative.theoretical[0].low, field.cumulative.theoretical[0].high) == (low, high)
        rows, energy = field.cumulative.rows, field.cumulative.energy.sum((0, 2))
        outside = (rows < low) | (rows > high)
        assert not energy[outside].any() and (energy[~outside] > 0).all()
        assert field.stride == 2 and field.cumulative.known and field.cumulative.energy.shape == (3, 195, 5)
        if number:
            block = field.block.theoretical[0]
            assert (block.low, block.high) == (-left[number - 1], right[number - 1]) and field.block_stride == 2
            inside = (field.block.rows >= block.low) & (field.block.rows <= block.high)
            assert torch.equal(field.block.energy.sum((0, 2)) > 0, inside)


# What the theoretical field does not hold is noticed.


def test_mixing_that_is_not_read_is_seen_in_the_share_outside():
    network = stack(Applied(lambda x: x + 0.5 * x.flip(3)))
    fields = effective_fields(network, pictures(3, 1, 12, 12), [Layer("0")])[0]
    assert len(fields.cumulative.probe_units) == 4
    assert fields.cumulative.outside == pytest.approx(0.25 / 1.25, rel=1e-5) and not fields.cumulative.known
    assert "of_theoretical" not in extent(fields.cumulative)
    known = effective_fields(stack(nn.Conv2d(1, 1, 3)), pictures(3, 1, 12, 12), [Layer("0")])[0].cumulative
    assert known.known and "of_theoretical" in extent(known)


def test_a_field_on_its_source_lies_where_the_unit_looked():
    torch.manual_seed(0)
    network, inputs = stack(nn.Conv2d(2, 1, 3, 2, 1), nn.Tanh()), pictures(2, 2, 10, 14)
    field = effective_fields(network, inputs, [Layer("1")], probe_units=1)[0].cumulative
    row, column = field.probe_units[0]
    exact = torch.autograd.functional.jacobian(lambda x: network(x)[:, 0, row, column].sum(), inputs)
    assert_close(field.on_source(), exact.square().sum(1))


# What is refused.


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"inputs": torch.zeros(1, 2, 9, 9)}, "1 input: an estimate with an interval needs at least 2"),
        ({"layers": [Layer("nowhere")]}, "no layer 'nowhere'"),
        ({"layers": [Layer("0", "tokens")]}, r"layer '0' gives \(3, 3, 9, 9\), which is not laid out as tokens"),
        ({"layers": [Layer("1"), Layer("0")]}, "layer '0' does not depend on 1: no gradient"),
        ({"layers": [Layer("3")]}, "layer '3' does not depend on the input: no gradient"),
    ],
)
def test_what_cannot_be_measured_is_named(arguments, message):
    constant, cut = Applied(torch.ones_like), Applied(lambda x: x * 0)
    network = stack(nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 3, 3), constant, cut)
    arguments = {"inputs": pictures(3, 2, 9, 9), "layers": [Layer("0")]} | arguments
    with pytest.raises(ValueError, match=message):
        effective_fields(network, **arguments)


# Which units are measured.


def even_grid(count, size):
    """The centers of `count` cells that divide `size` positions evenly."""
    return [(number + 0.5) * size / count - 0.5 for number in range(count)]


def test_positions_are_symmetric_about_the_middle_and_within_the_middle_half():
    for size, count in itertools.product(range(1, 70), [2, 3, 4, 5, 9, 100]):
        places = symmetric(even_grid(size, 96), 96, count)
        assert [size - 1 - place for place in reversed(places)] == places and places == sorted(set(places))
        assert 1 <= len(places) <= count
        assert all(size / 4 <= place + 0.5 <= 3 * size / 4 for place in places)
        # The outermost positions of the middle half are among them, so the offsets reach far to both sides.
        assert size < 4 or (places[0] - 1 + 0.5) < size / 4


@pytest.mark.parametrize(
    "rows, columns, units, places",
    [
        (8, 8, 4, [(row, column) for row in (2, 5) for column in (2, 5)]),
        (8, 8, 9, [(row, column) for row in (2, 5) for column in (2, 5)]),  # an even grid has no middle
        (8, 8, 16, [(row, column) for row in (2, 3, 4, 5) for column in (2, 3, 4, 5)]),
        (3, 3, 9, [(1, 1)]),
        (9, 13, 9, [(row, column) for row in (2, 4, 6) for column in (3, 6, 9)]),
        (9, 13, 1, [(4, 6)]),
        (1, 1, 4, [(0, 0)]),
        (41, 1, 5, [(place, 0) for place in (10, 15, 20, 25, 30)]),  # times
        (23, 1, 4, [(place, 0) for place in (6, 9, 13, 16)]),
    ],
)
def test_units_are_spread_over_the_middle_half(rows, columns, units, places):
    centers = [even_grid(rows, 117), even_grid(columns, 117)]
    assert central_units(centers, [117, 117], units, in_time=columns == 1 < rows) == places


def test_units_of_a_grid_off_the_middle_are_those_in_the_middle_half_of_the_picture():
    # As in the released CNN: of 31 rows pooling leaves 15, 7 and 3, centered at 4, 12 and 20 of 32.
    network = nn.Sequential(nn.Conv2d(1, 1, 2), nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(2)).eval()
    (fields,) = effective_fields(network, torch.rand(2, 1, 32, 32), [Layer("3")])
    assert fields.grid == (3, 3) and fields.cumulative.center == (12, 12)
    assert (
        fields.cumulative.probe_units == [(1, 1), (1, 2), (2, 1), (2, 2)]
        and fields.cumulative.window == ((-20, 19),) * 2
    )
