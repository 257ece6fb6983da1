"""Numbers of fields that are written down by hand, and their bootstrap intervals.

Shapes: B inputs, I rows, J columns of offsets around the unit.
"""

from dataclasses import replace
from functools import partial
from math import inf, nan, sqrt

import pytest
import torch

from vitspeech.metrics.intervals import Estimate, resampling_weights
from vitspeech.receptive.differences import difference
from vitspeech.receptive.fields.measures import (
    Field,
    extent,
    extent_in_frequency,
    extent_in_time,
    mean_of,
    measure_frequency,
    measure_image,
    measure_time,
    resampled,
)
from vitspeech.receptive.fields.theoretical import Span
from vitspeech.receptive.plan import Plan


def around(places, *, half=5, apart=0.0, side=inf):
    """A field over pictures that holds this energy at these offsets (down, across): two equal inputs."""
    offsets = torch.arange(-half, half + 1) + apart
    energy = torch.zeros(len(offsets), len(offsets))
    for (down, across), share in places.items():
        energy[round(down - apart) + half, round(across - apart) + half] = share
    span = Span(-(side - 1) / 2, (side - 1) / 2, 0)
    seen = torch.ones_like(energy)
    return Field(energy.expand(2, -1, -1), seen, offsets, offsets, (span, span), [(0, 0)], (0.0, 0.0), 0.0)


def in_time(shares, bins=(1.0,), apart=0.0, low=-inf, high=inf):
    """A field over 9 moments and some mel bins, offsets -8 .. 8: two equal inputs."""
    rows = torch.arange(-8, 9) + apart
    energy = torch.zeros(len(rows))
    for offset, share in shares.items():
        energy[round(offset - apart) + 8] = share
    energy = energy[:, None] * torch.tensor(bins)
    columns = torch.arange(len(bins))
    seen, spans = torch.ones_like(energy), (Span(low, high, 0),) * 2
    return Field(energy.expand(2, -1, -1), seen, rows, columns, spans, [(0, 0)], (0.0, 0.0), 0.0)


def values(numbers):
    return {name: number.value for name, number in numbers.items()}


def approximately(numbers, **expected):
    found = values(numbers)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6, abs=1e-6)


def square(side):
    """An even square of that side, around a pixel or between four of them."""
    offsets = [place - (side - 1) / 2 for place in range(side)]
    return around({(a, b): 1.0 for a in offsets for b in offsets}, apart=0.0 if side % 2 else 0.5)


def test_one_place_has_no_extent():
    approximately(
        extent(around({(0, 0): 7.0}, side=9)),
        side_20=0.2,
        side_50=0.5,
        side_90=0.9,
        radius_50=0,
        radius_90=0,
        width=0,
        effective_pixels=1,
        of_theoretical=0,
    )


def test_two_places():
    approximately(
        extent(around({(0, 0): 0.6, (3, -4): 0.4}, half=8, side=9)),
        side_20=0.2 / 0.6,  # squares of sides 0, 1, 3, 5, 7 and 9 hold 0, 0.6, …, 0.6 and 1
        side_30=0.5,
        side_50=0.5 / 0.6,
        side_90=7 + 2 * 0.3 / 0.4,
        side_99=7 + 2 * 0.39 / 0.4,
        radius_50=0,
        radius_90=sqrt(20) + (5 - sqrt(20)) * 0.3 / 0.4,  # next below 5 is the distance of (2, 4)
        width=4 * sqrt(0.6 * 0.4 * (9 + 16) / 2),
        effective_pixels=1 / (0.36 + 0.16),
        of_theoretical=4 * sqrt(3) / 9,
    )


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5, 8])
def test_an_even_square(side):
    inner = max(side - 2, 0)
    approximately(
        extent(square(side)),
        width=4 * sqrt((side**2 - 1) / 12),
        effective_pixels=side**2,
        side_99=inner + (side - inner) * (0.99 - (inner / side) ** 2) / (1 - (inner / side) ** 2),
    )


def test_lengths_are_in_cells_and_areas_in_their_squares():
    one, four = values(extent(square(5))), values(extent(square(5), cell=4))
    assert four.pop("effective_pixels") == 16 * one.pop("effective_pixels")
    assert four.pop("of_theoretical") == one.pop("of_theoretical")
    assert four == pytest.approx({name: 4 * number for name, number in one.items()})
    assert {*one} == {"side_20", "side_30", "side_50", "side_90", "side_99", "radius_50", "radius_90", "width"}


def test_the_theoretical_field_counts_as_far_as_the_picture_goes():
    width = 4 * sqrt(24 / 12)
    for side, base in ((5, 5), (6, 6), (7, 6), (inf, 6)):
        field = around({(a, b): 1.0 for a in range(-2, 3) for b in range(-2, 3)}, side=side)
        approximately(extent(field), of_theoretical=width / base)
    assert "of_theoretical" not in extent(replace(field, outside=0.5))


# Time and frequency.

SHARES = {-3: 0.2, -1: 0.3, 0: 0.1, 1: 0.15, 2: 0.25}


def test_past_and_future_are_told_apart():
    mean, square = -0.25, 0.2 * 9 + 0.3 + 0.15 + 0.25 * 4
    found = extent_in_time(in_time(SHARES, bins=(0.5, 0.25, 0.25), low=-4, high=2), cell_ms=10)
    approximately(
        found,
        # Up to offsets 0, 1, 2, 3 before lie 1/6, 4/6, 4/6 and all of 0.6; up to 0, 1, 2 after 2/10, 5/10, all of 0.5.
        back_50=10 * (1 / 2 - 1 / 6) / (3 / 6),
        back_90=10 * (2 + (0.9 - 4 / 6) / (2 / 6)),
        ahead_50=10.0,
        ahead_90=10 * (1 + 0.4 / 0.5),
        ahead_share=0.4 / 0.9,
        # Stretches of 1, 3, 5 and 7 frames hold 0.1, 0.55, 0.8 and 1.
        span_20=10 * (1 + 2 * 0.1 / 0.45),
        span_50=10 * (1 + 2 * 0.4 / 0.45),
        span_90=10 * (5 + 2 * 0.1 / 0.2),
        width=10 * 4 * sqrt(square - mean**2),
        effective_ms=10 / (0.04 + 0.09 + 0.01 + 0.0225 + 0.0625),
        of_theoretical=4 * sqrt(square - mean**2) / 7,
    )


def test_between_two_frames_each_half_counts_to_its_own_side():
    field = in_time({-1.5: 0.3, -0.5: 0.1, 0.5: 0.2, 1.5: 0.2, 2.5: 0.2}, apart=0.5)
    approximately(
        extent_in_time(field, cell_ms=10),
        back_50=10 * (0.5 + 0.25 / 0.75),
        back_90=10 * (0.5 + 0.65 / 0.75),
        ahead_50=10 * (0.5 + 1 / 2),
        ahead_share=0.4 / 0.7,
        span_30=20,
        span_50=10 * (2 + 2 * 0.2 / 0.5),
        of_theoretical=4 * sqrt(2.45 - 0.4**2) / 9,
    )


@pytest.mark.parametrize(
    "shares, back, ahead, ahead_share",
    [({0: 1.0}, 0, 0, 0.5), ({0: 0.5, -4: 0.5}, 38, 0, 0), ({-4: 1.0}, 39, 0, 0), ({0: 0.5, 3: 0.5}, 0, 28, 1)],
    ids=["itself", "causal", "the past alone", "the future"],
)
def test_a_side_without_energy_has_no_extent(shares, back, ahead, ahead_share):
    found = extent_in_time(in_time(shares), cell_ms=10)
    approximately(found, back_90=back, ahead_90=ahead, ahead_share=ahead_share)


def test_frequency_is_that_of_the_bins_share():
    centers = torch.tensor([100.0, 300, 700, 1500, 3100])
    shares = (0.02, 0.08, 0.5, 0.36, 0.04)
    found = extent_in_frequency(in_time(SHARES, bins=shares), centers)
    approximately(
        found,
        effective_bins=1 / sum(share**2 for share in shares),
        low_hz=200 + 300 * 0.03 / 0.08,
        high_hz=1100 + 1200 * 0.35 / 0.36,
    )
    alone = extent_in_frequency(in_time(SHARES, bins=(0.0, 0, 1, 0, 0)), centers)
    approximately(alone, effective_bins=1, low_hz=500 + 600 * 0.05, high_hz=500 + 600 * 0.95)
    even = extent_in_frequency(in_time(SHARES, bins=(1.0, 1, 1, 1, 1)), centers)
    approximately(even, effective_bins=5, low_hz=200 * 0.25, high_hz=2300 + 1600 * 0.75)
    centers[2] = nan  # a filter without an FFT bin, which lies between its neighbors
    alone = extent_in_frequency(in_time(SHARES, bins=(0.0, 0, 1, 0, 0)), centers)
    approximately(alone, effective_bins=1, low_hz=600 + 600 * 0.05, high_hz=600 + 600 * 0.95)


# Intervals.


def test_of_two_inputs_the_interval_ends_at_each_alone():
    first, second = square(3).energy[0], square(5).energy[0]
    first, second = first / first.sum(), second / second.sum()
    found = extent(replace(square(5), energy=torch.stack((first, second))))["width"]
    both = 4 * sqrt((8 / 12 + 24 / 12) / 2)
    assert found == pytest.approx((both, 4 * sqrt(8 / 12), 4 * sqrt(24 / 12)))
    assert isinstance(found, Estimate)


def test_intervals_of_95_percent_contain_the_populations_number_as_often():
    inputs = Plan().inputs
    # The field of an input is one of these six bells; its gradients are larger or smaller by orders of magnitude.
    offsets = torch.arange(-20.0, 21)
    widths, chances = torch.tensor([1.0, 1.5, 2, 3, 5, 7]), torch.tensor([0.3, 0.25, 0.2, 0.15, 0.07, 0.03])
    bells = torch.exp(-(offsets / widths[:, None]).square() / 2)
    template = replace(in_time({0: 1.0}), coverage=torch.ones(41, 1), rows=offsets)
    population = (bells / bells.sum(1, keepdim=True) * chances[:, None]).sum(0)
    truth = values(extent_in_time(replace(template, energy=population[None, :, None]), cell_ms=1))
    generator, draws = torch.Generator().manual_seed(7), 200
    contained = dict.fromkeys(("span_50", "span_90", "back_90", "width"), 0)
    for _ in range(draws):
        kinds = chances.multinomial(inputs, replacement=True, generator=generator)
        gains = (3 * torch.randn(inputs, generator=generator)).exp() * (1 + 50 * (kinds >= 4))
        found = extent_in_time(replace(template, energy=(gains[:, None] * bells[kinds])[..., None]), cell_ms=1)
        for name in contained:
            contained[name] += found[name].low <= truth[name] <= found[name].high
    assert all(0.9 <= count / draws <= 0.98 for count in contained.values()), contained


@pytest.mark.parametrize("measured", ["picture", "time", "frequency"])
def test_resampled_numbers_are_those_of_the_weighted_means_of_the_inputs(measured):
    generator = torch.Generator().manual_seed(3)
    energy = torch.rand(6, 11, 11, generator=generator) ** 4
    energy[2] = 0  # an input without a gradient
    template = (
        around({(0, 0): 1.0}) if measured == "picture" else replace(around({(0, 0): 1.0}), columns=torch.arange(11))
    )
    field = replace(template, energy=energy)
    measure = {
        "picture": partial(measure_image, cell=2.0),
        "time": partial(measure_time, cell_ms=10.0),
        "frequency": partial(measure_frequency, centers_hz=torch.arange(11.0) * 100 + 50),
    }[measured]
    found = resampled(field, measure)
    for number, weights in enumerate(resampling_weights(6)[:20]):
        mean = (weights[:, None, None] * field.shares).sum(0)[None]
        for name, expected in measure(field, mean_of(replace(field, energy=mean))).items():
            assert float(found[name][number]) == pytest.approx(float(expected), rel=1e-6), name


def test_paired_differences_are_found_where_separate_intervals_overlap():
    generator = torch.Generator().manual_seed(7)
    offsets = torch.arange(-20.0, 21)
    widths = 2 + 6 * torch.rand(100, generator=generator)
    template = replace(in_time({0: 1.0}), coverage=torch.ones(41, 1), rows=offsets)
    first, second = (
        replace(template, energy=torch.exp(-(offsets / (factor * widths[:, None])).square() / 2)[..., None])
        for factor in (1.0, 1.06)
    )
    measure = partial(measure_time, cell_ms=1)
    narrow, wide = (resampled(field, measure)["span_50"] for field in (first, second))
    found = difference("span_50", wide, narrow)
    assert found.second.high > found.first.low and found.change.low > 0
    assert difference("span_50", narrow, wide).change.high < 0 and difference("span_50", wide, wide).change.low == 0
    assert found.ratio.value == pytest.approx(found.first.value / found.second.value)
    assert difference("keeps", narrow, narrow * 0).ratio is None
    assert difference("keeps", narrow * 0, narrow * 0).ratio.value == 1
