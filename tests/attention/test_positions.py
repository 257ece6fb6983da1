"""Positions against values worked by hand and against their definition.

Shapes: B = 3 sequences, T = 11 tokens, D = 14 (1-D) or 20 (2-D).
"""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import (
    Encoder,
    EncoderConfig,
    FixedPositions,
    LearnedPositions,
    MultiHeadAttention,
    RelativePositions,
    Rotary,
    Rotary2d,
    sinusoidal,
    sinusoidal_2d,
)
from vitspeech.attention.dense import attend
from vitspeech.attention.positions import distances, pages, skew, unskew


def test_columns_are_sine_and_cosine_in_turn():
    table = sinusoidal(11, 14)
    assert table.shape == (11, 14)
    for position in range(11):
        for pair in range(7):
            angle = position / 10_000 ** (2 * pair / 14)
            assert math.isclose(table[position, 2 * pair], math.sin(angle), abs_tol=1e-6)
            assert math.isclose(table[position, 2 * pair + 1], math.cos(angle), abs_tol=1e-6)


def test_far_positions_keep_their_precision():
    angle = 99_991 / 10_000 ** (2 / 14)
    assert math.isclose(sinusoidal(99_992, 14)[-1, 2], math.sin(angle), abs_tol=1e-6)


def test_first_half_tells_the_row_and_second_the_column_in_raster_order():
    table = sinusoidal_2d(3, 7, 20)
    assert table.shape == (21, 20)
    for row in range(3):
        for column in range(7):
            for pair in range(5):
                wavelength = 10_000 ** (2 * pair / 10)
                token = table[7 * row + column]
                assert math.isclose(token[2 * pair], math.sin(row / wavelength), abs_tol=1e-6)
                assert math.isclose(token[2 * pair + 1], math.cos(row / wavelength), abs_tol=1e-6)
                assert math.isclose(token[10 + 2 * pair], math.sin(column / wavelength), abs_tol=1e-6)
                assert math.isclose(token[11 + 2 * pair], math.cos(column / wavelength), abs_tol=1e-6)


def test_width_that_is_not_a_multiple_of_four_is_an_error_in_2d():
    with pytest.raises(ValueError, match="width=10 is not a multiple of 4"):
        sinusoidal_2d(3, 5, 10)


def test_fixed_positions_are_added_and_are_neither_trained_nor_saved():
    table = sinusoidal(11, 14)
    positions, x = FixedPositions(table), torch.randn(3, 11, 14)
    assert_close(positions(x), x + table)
    assert not list(positions.parameters()) and not positions.state_dict()


def test_learned_positions_are_added_and_trained():
    positions, x = LearnedPositions(11, 14), torch.randn(3, 11, 14)
    assert_close(positions(x), x + positions.table)
    assert isinstance(positions.table, nn.Parameter) and 0.01 < positions.table.std() < 0.03
    positions(x).sum().backward()
    assert (positions.table.grad == 3).all()


@pytest.mark.parametrize("positions", [FixedPositions(sinusoidal(11, 14)), LearnedPositions(11, 14)])
def test_shorter_sequence_takes_the_first_rows_and_a_longer_one_is_an_error(positions):
    added = positions(torch.zeros(3, 5, 14))
    assert torch.equal(added, positions.table[:5].expand(3, -1, -1))

    with pytest.raises(ValueError, match="13 tokens is longer than the 11 positions"):
        positions(torch.zeros(3, 13, 14))


def shaw(query, key, value, relative):
    """Shaw et al.'s equations 3 to 5 with a vector for each pair, one query at a time."""
    clip, width = relative.clip, query.shape[-1]
    result = torch.zeros(*query.shape[:-1], width, dtype=query.dtype)
    for b, h, t in itertools.product(*map(range, query.shape[:3])):
        row = torch.arange(key.shape[2]).sub(t).clamp(-clip, clip) + clip
        scores = (key[b, h] + relative.key[row]) @ query[b, h, t] / width**0.5
        result[b, h, t] = scores.softmax(-1) @ (value[b, h] + relative.value[row])
    return result


@pytest.mark.parametrize("tokens, keys", [(11, 11), (1, 11), (11, 1), (5, 13), (13, 5)])
@pytest.mark.parametrize("clip", [0, 2, 50])
def test_relative_positions_are_a_vector_for_each_pair(tokens, keys, clip):
    torch.manual_seed(0)
    relative = RelativePositions(7, clip).double()
    for table in relative.parameters():
        nn.init.normal_(table)
    query, key, value = (torch.randn(2, 3, size, 7, dtype=torch.float64) for size in (tokens, keys, keys))
    assert_close(attend(query, key, value, relative=relative)[0], shaw(query, key, value, relative))


@pytest.mark.parametrize("table", ["key", "value"])
def test_half_precision_gradients_of_rows_that_many_pairs_share_are_exact_to_its_rounding(table):
    torch.manual_seed(0)
    query, weights = torch.rand(2, 3, 1500, 7).bfloat16(), torch.rand(2, 3, 1500, 1500).bfloat16() / 1500
    found = {}
    for dtype in (torch.bfloat16, torch.float64):
        relative = RelativePositions(7, 2).to(torch.promote_types(dtype, torch.float32))
        made = {
            "key": lambda relative=relative, dtype=dtype: relative.scores(query.to(dtype), 1500).mean(-1),
            "value": lambda relative=relative, dtype=dtype: relative.values(weights.to(dtype)),
        }[table]()
        made.sum().backward()
        found[dtype] = getattr(relative, table).grad
    assert_close(found[torch.bfloat16].double(), found[torch.float64], rtol=0.01, atol=0)


@settings(deadline=None)
@given(queries=st.integers(0, 9), keys=st.integers(0, 9), first=st.integers(-5, 5), clip=st.integers(0, 6))
def test_skewed_columns_hold_the_distance_of_each_pair(queries, keys, first, clip):
    rows = distances(first, queries, keys, clip, torch.device("cpu"))
    assert rows.shape == (queries + keys,)
    skewed = skew(rows.double().expand(2, queries, -1).contiguous(), keys)
    for t in range(queries):
        for s in range(keys):
            assert skewed[1, t, s] == max(-clip, min(clip, first + s - t)) + clip


@settings(deadline=None)
@given(queries=st.integers(0, 9), keys=st.integers(0, 9))
def test_unskewing_is_the_way_back(queries, keys):
    by_key = torch.randn(2, queries, keys)
    by_distance = unskew(by_key)
    assert by_distance.shape == (2, queries, queries + keys)
    assert torch.equal(skew(by_distance, keys), by_key)
    assert (by_distance != 0).sum() == (by_key != 0).sum()


@pytest.mark.parametrize("first", [0, 255, 100_000])
def test_rotary_is_exact_in_double_precision(first):
    x = torch.randn(301, 14, dtype=torch.float64)
    position = torch.arange(first, first + 301, dtype=torch.float64)[:, None]
    angles = position / 10_000 ** (torch.arange(0, 14, 2, dtype=torch.float64) / 14)
    expected = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.exp(1j * angles)
    for turned in Rotary(14)(x, x[:7], first):
        assert_close(turned, torch.view_as_real(expected[: len(turned)]).flatten(1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("make", [sinusoidal, lambda t, d, **o: sinusoidal_2d(t, 1, 2 * d, **o)[:, :d]])
def test_fixed_positions_of_a_module_in_double_precision_are_exact(make):
    angles = torch.arange(301, dtype=torch.float64)[:, None] / 10_000 ** (torch.arange(0, 14, 2).double() / 14)
    positions = FixedPositions(make(301, 14, dtype=torch.float64))
    assert positions.table.dtype == torch.float32 and positions.half().table.dtype == torch.float16
    added = positions.double()(torch.zeros(1, 301, 14, dtype=torch.float64))[0]
    assert_close(added, torch.stack((angles.sin(), angles.cos()), -1).flatten(1), atol=1e-12, rtol=0)


@torch.no_grad()
def test_layers_share_the_rotations_and_a_page_lasts_for_all_its_positions():
    pages.cache_clear()
    x, encoder = torch.randn(2, 50, 12), Encoder(12, EncoderConfig(depth=3, heads=2), positions="rotary")
    for tokens in (50, 50, 49):
        encoder(x[:, :tokens])
    assert pages.cache_info().misses == 1


def test_rotations_first_made_in_inference_mode_can_be_used_in_training():
    pages.cache_clear()
    x, rotary = torch.randn(2, 3, 50, 6, requires_grad=True), Rotary(6)
    with torch.inference_mode():
        rotary(x, x)
    rotary(x, x)[0].square().sum().backward()
    assert x.grad.isfinite().all()


def test_a_module_given_as_positions_is_copied():
    relative = RelativePositions(6, 3)
    ours = MultiHeadAttention(12, 2, positions=relative)
    assert ours.relative is not relative and ours.relative.clip == 3
    assert ours.relative.key is not relative.key


def test_positions_that_do_not_fit_are_errors():
    with pytest.raises(ValueError, match="LearnedPositions"):
        MultiHeadAttention(12, 2, positions=LearnedPositions(5, 6))
    with pytest.raises(ValueError, match="width 4 do not fit heads of width 6"):
        MultiHeadAttention(12, 2, positions=Rotary(4))
    with pytest.raises(ValueError, match="width=7 is not a multiple of 2"):
        Rotary(7)


def test_two_dimensional_rotation_has_the_values_worked_by_hand():
    rotary = Rotary2d(8, 2, 3, leading=1).double()  # pairs of an axis turn by 1 and by 1 / 10 radians
    x = torch.tensor([1.0, 0.0] * 4, dtype=torch.float64).expand(1, 1, 7, 8)
    turned = rotary(x, x)[0][0, 0]
    assert_close(turned[0], x[0, 0, 0])  # the class token
    for row, column in itertools.product(range(2), range(3)):
        angles = [row, row / 10, column, column / 10]
        expected = [f(angle) for angle in angles for f in (math.cos, math.sin)]
        assert_close(turned[1 + 3 * row + column], torch.tensor(expected, dtype=torch.float64))
