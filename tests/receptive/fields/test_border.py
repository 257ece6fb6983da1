"""The border of an input does not make a field look narrow: known fields are recovered from small inputs.

Shapes: B inputs, N image side, F log-mel frames, M mel bins.
"""

import itertools
from functools import partial
from math import inf

import pytest
import torch
from receptive_networks import Applied
from torch import nn
from torch.testing import assert_close

from vitspeech.receptive.fields.effective import central_units, effective_fields
from vitspeech.receptive.fields.layers import INPUT, Layer
from vitspeech.receptive.fields.measures import (
    LEAST_COVERAGE,
    Field,
    extent,
    extent_in_time,
    mean_of,
    measure_image,
    measure_time,
    uniform,
)
from vitspeech.receptive.fields.theoretical import Span

SIDE, FRAMES = 32, 98  # of CIFAR-10, and of a second of sound


def bell(reach, width, mean=0.0):
    """Gaussian weights, whose squares have the standard deviation `width`."""
    offsets = torch.arange(-reach, reach + 1.0)
    return torch.exp(-(offsets - mean).square() / (4 * width**2))


def decay(reach, before, after):
    """Weights that decay exponentially, at different rates to both sides."""
    offsets = torch.arange(-reach, reach + 1.0)
    return torch.where(offsets < 0, torch.exp(offsets / before), torch.exp(-offsets / after))


class Gain(nn.Module):
    """Multiplies each input by a number of its own, which differs by orders of magnitude."""

    def forward(self, x):
        return x * 10 ** (3 * x.flatten(1).mean(1).detach().sign()).reshape(-1, *[1] * (x.ndim - 1))


def numbers_of(field, measure):
    """The numbers of the mean field, without intervals."""
    return {name: float(value) for name, value in measure(field, mean_of(field)).items()}


def known(energy, *, rows, columns):
    """The field with this energy at these offsets, as an unlimited input would show it."""
    span = Span(-inf, inf, 0)
    return Field(energy[None], torch.ones_like(energy), rows, columns, (span, span), [(0, 0)], (0.0, 0.0), 0.0)


KINDS = {
    "narrow": (bell(25, 2), bell(25, 2)),
    "wide": (bell(25, 6), bell(25, 6)),
    "wide in one axis": (bell(25, 6), bell(25, 2)),
    "off center": (bell(25, 5, 3.0), bell(25, 5, -2.0)),
    "peaked": (decay(25, 9, 9), decay(25, 9, 9)),
    "one-sided": (decay(25, 12, 3), decay(25, 6, 6)),
}
CASES = [(kind, 1, 4) for kind in KINDS] + [("wide", 2, 4), ("wide", 4, 4), ("peaked", 1, 9), ("peaked", 1, 16)]


@pytest.mark.parametrize("kind, stride, units", CASES)
def test_a_known_field_is_recovered_from_a_small_picture(kind, stride, units):
    rows, columns = KINDS[kind]
    layer = nn.Conv2d(1, 1, 51, stride, 25, bias=False).requires_grad_(False)
    layer.weight[0, 0] = torch.outer(rows, columns)
    inputs = torch.randn(2, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    network = nn.Sequential(layer, Gain()).eval()
    field = effective_fields(network, inputs, [Layer("1")], cumulative_only=True, probe_units=units)[0].cumulative
    offsets, measure = torch.arange(-25.0, 26), partial(measure_image, cell=1.0)
    expected = numbers_of(known(torch.outer(rows, columns).square(), rows=offsets, columns=offsets), measure)
    found = numbers_of(field, measure)
    for name in ("side_50", "side_90", "radius_50", "radius_90"):
        assert found[name] == pytest.approx(expected[name], rel=0.02), name


@pytest.mark.parametrize("units", [4, 9])
@pytest.mark.parametrize(
    "weights",
    [bell(90, 18), decay(90, 24, 24), decay(90, 24, 6), bell(90, 12, -9)],
    ids=["wide", "peaked", "past", "off center"],
)
def test_a_known_field_is_recovered_from_a_short_clip(weights, units):
    layer = nn.Conv1d(3, 1, 181, padding=90, bias=False).requires_grad_(False)
    layer.weight[0] = weights
    turned = nn.Sequential(Applied(lambda x: x.transpose(1, 2)), layer, Gain()).eval()
    inputs = torch.randn(4, FRAMES, 3, generator=torch.Generator().manual_seed(1))
    source, measure = Layer(INPUT, "mel"), partial(measure_time, cell_ms=10)
    (fields,) = effective_fields(
        turned, inputs, [Layer("2", "NCT")], source=source, probe_units=units, cumulative_only=True
    )
    energy = weights.square()[:, None].expand(-1, 3)
    expected = numbers_of(known(energy, rows=torch.arange(-90.0, 91), columns=torch.arange(3.0)), measure)
    found = numbers_of(fields.cumulative, measure)
    for name in ("span_50", "span_90", "back_50", "back_90", "ahead_50", "ahead_90"):
        assert found[name] == pytest.approx(expected[name], rel=0.03, abs=1), name


@pytest.mark.parametrize("units", [1, 4, 9, 16])
@pytest.mark.parametrize("side", [5, 8, 13])
def test_each_offset_is_divided_by_the_units_that_could_see_it(side, units):
    inputs = torch.rand(2, 1, side, side, generator=torch.Generator().manual_seed(1))
    mix = nn.Sequential(Mixed(side)).eval()
    field = effective_fields(mix, inputs, [Layer("0")], probe_units=units)[0].cumulative
    places = central_units([range(side)] * 2, [side] * 2, units)
    middle = side - 1
    energy, count = torch.zeros(2 * side - 1, 2 * side - 1), torch.zeros(2 * side - 1, 2 * side - 1)
    for (row, column), i, j in itertools.product(places, range(side), range(side)):
        energy[middle + i - row, middle + j - column] += mix[0].weights[row, column, i, j].square()
        count[middle + i - row, middle + j - column] += 1
    assert_close(field.coverage, count / len(places))
    counts = count / len(places) >= LEAST_COVERAGE
    assert torch.equal(field.counted, counts)
    assert_close(field.energy[0], torch.where(counts, energy / count.clamp(min=1), 0.0))
    assert_close(field.mean.sum(), torch.tensor(1.0))


class Mixed(nn.Module):
    """Every unit depends on every pixel with a random weight of its own."""

    def __init__(self, side):
        super().__init__()
        self.weights = torch.rand(side, side, side, side, generator=torch.Generator().manual_seed(2))

    def forward(self, x):
        return torch.einsum("rcij,bkij->bkrc", self.weights, x)


def everywhere():
    """A network whose units depend on every position of the input alike."""
    return nn.Sequential(Applied(lambda x: x.mean((1, 2), keepdim=True).expand(-1, x.shape[1], 1)))


def everywhere_in_pictures():
    return nn.Sequential(Applied(lambda x: x.mean((2, 3), keepdim=True).expand_as(x)))


def test_a_uniform_field_has_the_numbers_of_the_reference():
    inputs = torch.rand(3, 1, 14, 14, generator=torch.Generator().manual_seed(1))
    field = effective_fields(everywhere_in_pictures(), inputs, [Layer("0")])[0].cumulative
    found, measure = extent(field), partial(measure_image, cell=1.0)
    assert uniform(field, measure) == pytest.approx({name: number.value for name, number in found.items()}, rel=1e-5)
    assert extent(field.uniform)["side_90"] == pytest.approx(found["side_90"], rel=1e-5)
    clips, source = torch.rand(3, 29, 5), Layer(INPUT, "mel")
    field = effective_fields(everywhere(), clips, [Layer("0", "frames")], source=source)[0].cumulative
    found, measure = extent_in_time(field, cell_ms=10), partial(measure_time, cell_ms=10)
    assert uniform(field, measure) == pytest.approx({name: number.value for name, number in found.items()}, rel=1e-5)


def test_a_field_within_the_window_of_a_narrower_one_has_the_same_extent():
    inputs = torch.rand(3, 1, 13, 13, generator=torch.Generator().manual_seed(1))
    wide, narrow = (
        effective_fields(everywhere_in_pictures(), inputs, [Layer("0")], probe_units=units)[0].cumulative
        for units in (4, 1)
    )
    assert wide.window == ((-9, 9), (-9, 9)) and narrow.window == ((-6, 6), (-6, 6))
    rounded = wide.within(((-5.9999, 5.9999), (-6, 6)))  # as after a conversion from ms
    assert rounded.window == wide.within(narrow.window).window == narrow.window
    measure = partial(measure_image, cell=1.0)
    assert uniform(wide.within(narrow.window), measure) == pytest.approx(uniform(narrow, measure))
    found = {name: number.value for name, number in extent(wide.within(narrow.window)).items()}
    assert found == pytest.approx({name: number.value for name, number in extent(narrow).items()}, rel=1e-5)
