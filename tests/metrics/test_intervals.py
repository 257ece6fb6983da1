"""Confidence intervals compared with published or hand-computed values."""

import pytest
import torch

from vitspeech.metrics.intervals import (
    bootstrap_indices,
    bootstrap_ratio_interval,
    percentile_interval,
    poisson_interval,
    wilson_interval,
)


def test_wilsons_interval_by_hand():
    # z² = 3.8415; for 8 of 10: center (0.8 + 0.19207) / 1.38415, half width 1.95996 / 1.38415 · √(0.016 + 0.0096037).
    assert wilson_interval(0.8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-5)
    assert wilson_interval(1.0, 10)[1] == pytest.approx(1)


def test_poisson_intervals_are_garwoods():
    assert poisson_interval(0) == pytest.approx((0, 3.6889), abs=1e-4)
    assert poisson_interval(3) == pytest.approx((0.6187, 8.7673), abs=1e-4)
    assert poisson_interval(100) == pytest.approx((81.364, 121.627), abs=1e-3)


def test_resamples_draw_every_item_and_are_reproducible():
    rows = bootstrap_indices(7, 200, seed=1)
    assert rows.shape == (200, 7) and rows.unique().tolist() == list(range(7))
    assert torch.equal(rows, bootstrap_indices(7, 200, seed=1))
    assert not torch.equal(rows, bootstrap_indices(7, 200, seed=2))


def test_a_percentile_interval_leaves_2_5_percent_on_either_side():
    assert percentile_interval(torch.arange(1001).double()) == pytest.approx((25, 975))


def test_the_ratio_of_equal_items_has_no_spread():
    errors, words = torch.full((11,), 1.0), torch.full((11,), 4.0)
    assert bootstrap_ratio_interval(errors, words, resamples=50) == (0.25, 0.25)
