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
from torch.utils._python_dispatch import TorchDispatchMode

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


def test_small_table_has_the_values_worked_by_hand():
    by_hand = [
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.0099998, 0.999950],
        [0.909297, -0.416147, 0.0199987, 0.999800],
    ]
    assert_close(sinusoidal(3, 4), torch.tensor(by_hand), atol=1e-6, rtol=0)


def test_columns_are_sine_and_cosine_in_turn():
    table = sinusoidal(11, 14)
    assert table.shape == (11, 14)
    for position in range(11):
        for pair in range(7):
            angle = position / 10_000 ** (2 * pair / 14)
            assert math.isclose(table[position, 2 * pair], math.sin(angle), abs_tol=1e-6)
            assert math.isclose(table[position, 2 * pair + 1], math.cos(angle), abs_tol=1e-6)


@settings(deadline=None, max_examples=30)
@given(position=st.integers(0, 500), shift=st.integers(0, 500))
def test_a_shift_is_the_same_rotation_at_every_position(position, shift):
    rotation = torch.zeros(14, 14)
    for pair in range(7):
        angle = shift / 10_000 ** (2 * pair / 14)
        block = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        rotation[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = torch.tensor(block)
    table = sinusoidal(1001, 14)
    assert_close(rotation @ table[position], table[position + shift], atol=1e-5, rtol=0)


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


@pytest.mark.parametrize("table", [sinusoidal(196, 20), sinusoidal_2d(14, 14, 20)], ids=["1-D", "2-D"])
def test_every_position_is_distinct(table):
    distances = torch.cdist(table, table) + 9 * torch.eye(len(table))
    assert distances.min() > 0.5


@pytest.mark.parametrize("width", [7, 10, 22])
def test_width_that_is_not_a_multiple_of_four_is_an_error_in_2d(width):
    with pytest.raises(ValueError, match=f"width={width} is not a multiple of 4"):
        sinusoidal_2d(3, 5, width)


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
def test_shorter_sequence_takes_the_first_rows(positions):
    added = positions(torch.zeros(3, 5, 14))
    assert torch.equal(added, positions.table[:5].expand(3, -1, -1))


@pytest.mark.parametrize("positions", [FixedPositions(sinusoidal(11, 14)), LearnedPositions(11, 14)])
def test_longer_sequence_is_an_error_that_names_both_lengths(positions):
    with pytest.raises(ValueError, match="13 tokens is longer than the 11 positions"):
        positions(torch.zeros(3, 13, 14))


@pytest.mark.parametrize("positions", [FixedPositions(sinusoidal(11, 14)), LearnedPositions(11, 14)])
def test_half_precision_tokens_stay_half_precision(positions):
    assert positions(torch.zeros(3, 5, 14, dtype=torch.bfloat16)).dtype == torch.bfloat16


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


def test_rotary_turns_each_pair_by_its_angle():
    x = torch.randn(11, 14, dtype=torch.float64)
    turned, _ = Rotary(14)(x, x)
    for position, pair in itertools.product(range(11), range(7)):
        angle = torch.tensor(position / 10_000 ** (2 * pair / 14), dtype=torch.float64)
        complex_pair = torch.complex(x[position, 2 * pair], x[position, 2 * pair + 1]) * torch.exp(1j * angle)
        expected = torch.stack((complex_pair.real, complex_pair.imag))
        assert_close(turned[position, 2 * pair : 2 * pair + 2], expected, atol=1e-6, rtol=0)


@settings(deadline=None, max_examples=30)
@given(query=st.integers(0, 200), key=st.integers(0, 200), shift=st.integers(0, 200))
def test_rotary_products_depend_only_on_the_distance(query, key, shift):
    rotary, (q, k) = Rotary(14), torch.randn(2, 1, 14, dtype=torch.float64)
    products = [(rotary(q, q, query + moved)[0] * rotary(k, k, key + moved)[1]).sum() for moved in (0, shift)]
    assert_close(products[0], products[1], atol=1e-5, rtol=0)


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


class Operations(TorchDispatchMode):
    """Counts operations, and those of them in double precision."""

    def __init__(self):
        super().__init__()
        self.count = self.double = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        self.count += 1
        self.double += isinstance(result, torch.Tensor) and result.dtype == torch.float64
        return result


@torch.no_grad()
def test_layers_share_the_rotations_and_a_page_lasts_for_all_its_positions():
    pages.cache_clear()
    x, first, again, later = torch.randn(2, 50, 12), Operations(), Operations(), Operations()
    encoder = Encoder(12, EncoderConfig(depth=3, heads=2), positions="rotary")
    with first:
        encoder(x)
    with again:
        encoder(x)
    with later:
        encoder(x[:, :49])
    assert first.double and not again.double and not later.double
    assert pages.cache_info().misses == 1
    one = Operations()
    Rotary(12)(x, x)
    with one:
        Rotary(12)(x, x)
    assert one.count <= 22


def test_rotations_first_made_in_inference_mode_can_be_used_in_training():
    pages.cache_clear()
    x, rotary = torch.randn(2, 3, 50, 6, requires_grad=True), Rotary(6)
    with torch.inference_mode():
        rotary(x, x)
    rotary(x, x)[0].square().sum().backward()
    assert x.grad.isfinite().all()


def test_rotary_from_a_later_position_goes_on_where_the_earlier_ended():
    x = torch.randn(2, 3, 11, 14, dtype=torch.float64)
    whole, later = Rotary(14)(x, x), Rotary(14)(x[..., 4:, :], x[..., 4:9, :], first=4)
    torch.testing.assert_close(whole[0][..., 4:, :], later[0], rtol=0, atol=1e-14)
    torch.testing.assert_close(whole[1][..., 4:9, :], later[1], rtol=0, atol=1e-14)


@pytest.mark.parametrize("positions", ["relative", "rotary"])
def test_attention_with_positions_in_it_tells_the_order_of_its_tokens(positions):
    torch.manual_seed(0)
    ours, x = MultiHeadAttention(12, 2, positions=positions).double(), torch.randn(1, 11, 12, dtype=torch.float64)
    order = torch.randperm(11)
    assert not torch.allclose(ours(x)[:, order], ours(x[:, order]))
    plain = MultiHeadAttention(12, 2).double()
    assert_close(plain(x)[:, order], plain(x[:, order]))


def test_a_module_given_as_positions_is_copied():
    relative = RelativePositions(6, 3)
    ours = MultiHeadAttention(12, 2, positions=relative)
    assert ours.relative is not relative and ours.relative.clip == 3
    assert ours.relative.key is not relative.key


def test_positions_that_do_not_fit_are_errors():
    with pytest.raises(ValueError, match="positions='absolute' is unknown; known: relative, rotary"):
        MultiHeadAttention(12, 2, positions="absolute")
    with pytest.raises(ValueError, match="LearnedPositions"):
        MultiHeadAttention(12, 2, positions=LearnedPositions(5, 6))
    with pytest.raises(ValueError, match="width=7 is not a multiple of 2"):
        Rotary(7)


def test_two_dimensional_rotation_has_the_values_worked_by_hand():
    rotary = Rotary2d(8, 2, 3, leading=1).double()  # pairs of an axis turn by 1 and by 1 / 10 radians
    x = torch.tensor([1.0, 0.0] * 4, dtype=torch.float64).expand(1, 1, 7, 8)
    turned = rotary(x, x)[0][0, 0]
    assert_close(turned[0], x[0, 0, 0])  # the class token
    row, column = 1, 2
    angles = [row, row / 10, column, column / 10]
    expected = [f(angle) for angle in angles for f in (math.cos, math.sin)]
    assert_close(turned[1 + 3 * row + column], torch.tensor(expected, dtype=torch.float64))


def test_two_dimensional_rotation_depends_on_the_distances_in_rows_and_columns():
    query, key = torch.randn(2, 1, 1, 1, 20, dtype=torch.float64)
    rotary = Rotary2d(20, 4, 5)
    queries, keys = rotary(query.expand(1, 1, 20, 20), key.expand(1, 1, 20, 20))
    products = (queries @ keys.mT)[0, 0].view(4, 5, 4, 5)
    assert_close(products[0, 0, 2, 3], products[1, 1, 3, 4])
    assert_close(products[3, 2, 1, 1], products[2, 4, 0, 3])
    assert not torch.isclose(products[0, 0, 0, 4], products[0, 4, 1, 3])  # four columns apart; four steps of the raster
    assert not torch.isclose(products[0, 4, 1, 0], products[0, 0, 0, 1])  # neighbours of the raster; of the grid
