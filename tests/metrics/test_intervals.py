"""Confidence intervals compared with published or hand-computed values."""

import numpy
import pytest
import torch

from vitspeech.metrics.intervals import (
    RESAMPLES_AT_ONCE,
    bootstrap_indices,
    bootstrap_ratio_interval,
    mean_interval,
    percentile_interval,
    poisson_interval,
    student_quantile,
    wilson_interval,
)


def test_wilsons_interval_by_hand():
    # z² = 3.8415; for 8 of 10: center (0.8 + 0.19207) / 1.38415, half width 1.95996 / 1.38415 · √(0.016 + 0.0096037).
    assert wilson_interval(0.8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-5)
    assert wilson_interval(1.0, 10)[1] == pytest.approx(1)
    ends = [(wilson_interval(0.0, count)[0], wilson_interval(1.0, count)[1]) for count in range(1, 1000)]
    assert all(low >= 0 and high <= 1 and str(round(low, 4)) == "0.0" for low, high in ends)  # but for rounding


def test_poisson_intervals_are_garwoods():
    assert poisson_interval(0) == pytest.approx((0, 3.6889), abs=1e-4)
    assert poisson_interval(3) == pytest.approx((0.6187, 8.7673), abs=1e-4)
    assert poisson_interval(100) == pytest.approx((81.364, 121.627), abs=1e-3)


def test_quantiles_of_student_are_those_of_the_printed_tables():
    printed = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 29: 2.045, 30: 2.042, 120: 1.980}
    for degrees, quantile in printed.items():
        assert student_quantile(degrees) == pytest.approx(quantile, abs=6e-4)
    assert student_quantile(4, 0.95) == pytest.approx(2.132, abs=6e-4)


def test_students_interval_by_hand():
    # Mean 2, standard deviation 1, three values: 2 ± 4.3027 · 1 / √3.
    assert mean_interval([1, 2, 3]) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)


def test_resamples_draw_every_item_and_are_reproducible():
    rows = bootstrap_indices(7, 200, seed=1)
    assert rows.shape == (200, 7) and rows.unique().tolist() == list(range(7))
    assert torch.equal(rows, bootstrap_indices(7, 200, seed=1))
    assert not torch.equal(rows, bootstrap_indices(7, 200, seed=2))


def test_a_percentile_interval_leaves_2_5_percent_on_either_side():
    assert percentile_interval(torch.arange(1001).double()) == pytest.approx((25, 975))


def test_resamples_beyond_those_drawn_at_once_are_others():
    generator = torch.Generator().manual_seed(0)
    errors, words = torch.rand(50, generator=generator), torch.ones(50)
    one, two = (bootstrap_ratio_interval(errors, words, resamples=times * RESAMPLES_AT_ONCE) for times in (1, 2))
    assert one != two and one == pytest.approx(two, abs=0.02)


def test_items_of_a_group_are_resampled_together():
    # Two groups, each of many equal items: resamples have 0, 1 or 2 times either, so ratios of 0, 1/3 and 1.
    errors, words = torch.tensor([0.0] * 20 + [1.0] * 10), torch.ones(30)
    groups = ["ann"] * 20 + ["bob"] * 10
    assert bootstrap_ratio_interval(errors, words, resamples=2000, groups=groups) == (0, 1)
    assert bootstrap_ratio_interval(torch.tensor([0.0, 10.0]), torch.tensor([20.0, 10.0]), resamples=2000) == (0, 1)


def test_intervals_over_groups_cover_the_truth_and_intervals_over_items_do_not():
    # 60 speakers of 5 to 40 words whose error rates differ (standard deviation 0.13 about 0.2).
    speakers, trials, covered = 60, 200, {"speakers": 0, "words": 0}
    generator = numpy.random.default_rng(0)
    for _ in range(trials):
        words = generator.integers(5, 41, speakers)
        rates = generator.beta(1.7, 6.8, speakers)
        errors = torch.tensor(generator.random(words.sum()) < rates.repeat(words)).double()
        groups = numpy.arange(speakers).repeat(words).tolist()
        for name, given in (("speakers", groups), ("words", None)):
            low, high = bootstrap_ratio_interval(errors, torch.ones_like(errors), resamples=250, groups=given)
            covered[name] += low <= 0.2 <= high
    # 95 % nominally; a share of 200 trials has a standard error of 1.5 %.
    assert covered["speakers"] / trials > 0.90
    assert covered["words"] / trials < 0.80


def test_without_errors_the_interval_of_a_rate_is_wilsons():
    errors, words = torch.zeros(6), torch.full((6,), 5.0)
    assert bootstrap_ratio_interval(errors, words, resamples=100) == wilson_interval(0.0, 6)
    groups = ["a", "a", "b", "b", "c", "c"]
    assert bootstrap_ratio_interval(errors, words, resamples=100, groups=groups) == wilson_interval(0.0, 3)
