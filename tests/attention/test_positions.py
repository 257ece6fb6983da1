"""Positions against values worked by hand and against their definition.

Shapes: B = 3 sequences, T = 11 tokens, D = 14 (1-D) or 20 (2-D).
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import FixedPositions, LearnedPositions, sinusoidal, sinusoidal_2d


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


@pytest.mark.parametrize("width", [1, 7, 13])
def test_odd_width_is_an_error(width):
    with pytest.raises(ValueError, match=f"width={width} is odd"):
        sinusoidal(5, width)


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
