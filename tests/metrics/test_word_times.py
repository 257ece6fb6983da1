"""Words with times: conversion to frame labels, and precision, recall and F1."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as draw

from vitspeech.metrics.word_times import TimedWord, frame_labels, matched, word_f1


def count_matches(*words, **options):
    return sum(matched(*words, **options))


SILENCE = 5


def labeled(spans_s, labels, **arguments):
    options = {"silence": SILENCE, "frames": 7, "first_s": 0.0, "frame_s": 0.1} | arguments
    return frame_labels(torch.tensor(spans_s, dtype=torch.float64), torch.tensor(labels), **options)


LOOSE = draw.lists(draw.builds(TimedWord, draw.integers(0, 1), draw.floats(0, 0.3), draw.floats(0, 0.3)), max_size=5)


def most_matches(reference, output, **arguments):
    """The maximum number of matches over all assignments of output words to reference words."""
    padded = [*output, *[TimedWord(-1, 0.0, 0.0)] * len(reference)]
    orders = set(itertools.permutations(range(len(padded)), len(reference)))
    matches = [[count_matches([word], [other], **arguments) for other in padded] for word in reference]
    return max(sum(row[index] for row, index in zip(matches, order, strict=True)) for order in orders)


def test_a_frame_has_the_label_of_the_word_that_contains_its_center():
    # Centers are 0.05, 0.15, .. 0.65.
    assert labeled([(0.12, 0.26), (0.31, 0.36)], [3, 0]).tolist() == [5, 3, 3, 0, 5, 5, 5]
    assert labeled([(0.12, 0.24), (0.36, 0.41)], [3, 0]).tolist() == [5, 3, 5, 5, 5, 5, 5]


def test_where_spans_overlap_the_last_one_counts():
    assert labeled([(0.1, 0.5), (0.3, 0.6)], [1, 0]).tolist() == [5, 1, 1, 0, 0, 0, 5]


def test_padding_labels_are_ignored():
    spans_s = [[(0.1, 0.3), (0.4, 0.6)], [(0.0, 0.2), (0.0, 0.7)]]
    assert labeled(spans_s, [[0, 1], [2, -1]]).tolist() == [[5, 0, 0, 5, 1, 1, 5], [2, 2, 5, 5, 5, 5, 5]]


def test_a_match_requires_the_label_and_both_times_within_the_tolerance():
    true = [TimedWord(1, 1.0, 1.5)]
    assert count_matches(true, [TimedWord(1, 1.05, 1.45)]) == 1
    assert count_matches(true, [TimedWord(2, 1.0, 1.5)]) == 0
    assert count_matches(true, [TimedWord(1, 1.051, 1.5)]) == 0 == count_matches(true, [TimedWord(1, 0.949, 1.5)])
    assert count_matches(true, [TimedWord(1, 1.0, 1.56)]) == 0 == count_matches(true, [TimedWord(1, 1.0, 1.44)])
    assert count_matches(true, [TimedWord(1, 1.0, 1.56)], 0.07) == 1
    assert count_matches(true, [TimedWord(1, 1.0, 9.0)], onset_only=True) == 1
    assert count_matches(true, [TimedWord(1, 1.1, 1.5)], onset_only=True) == 0


def test_an_earlier_word_leaves_the_match_that_a_later_word_needs():
    # If the first reference word took the nearest match, none would be left for the second.
    true = [TimedWord(1, 0.00, 0.50), TimedWord(1, 0.06, 0.56)]
    assert count_matches(true, [TimedWord(1, 0.02, 0.52), TimedWord(1, -0.04, 0.46)]) == 2


@given(reference=LOOSE, output=LOOSE)
def test_no_assignment_has_more_onset_matches(reference, output):
    assert count_matches(reference[:4], output[:3], 0.1, onset_only=True) == most_matches(
        reference[:4], output[:3], tolerance_s=0.1, onset_only=True
    )


def test_f1_over_all_utterances_computed_by_hand():
    true = [
        [TimedWord(1, 0.0, 0.5), TimedWord(2, 0.6, 0.9), TimedWord(3, 1.0, 1.4)],
        [TimedWord(0, 0.2, 0.7)],
    ]
    output = [[TimedWord(1, 0.04, 0.48), TimedWord(2, 0.62, 1.0)], [TimedWord(4, 0.2, 0.7)]]
    scores = word_f1(true, output)
    assert {name: scores[name] for name in ("precision", "recall")} == {"precision": 1 / 3, "recall": 1 / 4}
    assert {name: scores[name] for name in ("onset_precision", "onset_recall")} == {
        "onset_precision": 2 / 3,
        "onset_recall": 2 / 4,
    }
    assert scores["f1"] == pytest.approx(2 / 7) and scores["onset_f1"] == pytest.approx(4 / 7)
    assert len(scores) == 6


def test_no_output_scores_0():
    assert set(word_f1([[TimedWord(1, 0.0, 0.5)]], [[]]).values()) == {0.0}
    assert set(word_f1([[]], [[TimedWord(1, 0.0, 0.5)]]).values()) == {0.0}
