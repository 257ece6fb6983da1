"""The delays that the report of a spotter states."""

import pytest

from vitspeech.spotting.measure import delay


def test_the_90th_percentile_is_within_the_delays():
    assert delay([1.0, 2.0]) == pytest.approx({"median": 1.5, "90_percent_below": 1.9})
    assert delay([1.0]) is None
