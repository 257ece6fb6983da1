"""The figure of error rates: what is at which place."""

from itertools import pairwise

import pytest

from vitspeech.metrics.word_errors import ErrorCounts, GroupScore
from vitspeech.plots.error_rates import Breakdown, draw_error_rates


def group(words, characters, interval=(0.1, 0.4)):
    return GroupScore(3, ErrorCounts(words, 0, 0, 100), ErrorCounts(characters, 0, 0, 100), interval, interval)


@pytest.fixture
def drawn(tmp_path, unsaved):
    def draw(*test_sets):
        draw_error_rates(test_sets, tmp_path / "errors.png")
        unsaved[-1].draw_without_rendering()
        return unsaved[-1].axes

    return draw


def one(speakers, main="words"):
    lengths = {"0–2": group(10, 5, None), "2–5": group(30, 9)}
    return Breakdown("dev", group(20, 8), speakers, lengths, "seconds", main)


SPEAKERS = {"ann$_$": group(30, 5), "bob": group(10, 9), "a speaker with a long name": group(20, 1)}


def ticks(axes):
    return [label.get_text() for label in axes.get_xticklabels()]


def markers(axes, marker):
    return [
        (round(line.get_xdata()[0]), round(line.get_ydata()[0], 4))
        for line in axes.lines
        if line.get_marker() == marker
    ]


def test_speakers_are_sorted_by_the_main_rate(drawn):
    by_words, _ = drawn(one(SPEAKERS))
    assert ticks(by_words) == ["bob", "a speaker with …", r"ann\$_\$"]
    assert markers(by_words, "s") == [(0, 10), (1, 20), (2, 30)] and markers(by_words, "o") == [(0, 9), (1, 1), (2, 5)]
    by_characters, _ = drawn(one(SPEAKERS, "characters"))
    assert ticks(by_characters) == ["a speaker with …", r"ann\$_\$", "bob"]


def test_lengths_keep_their_order_and_one_utterance_has_no_interval(drawn):
    _, lengths = drawn(one(SPEAKERS))
    assert ticks(lengths) == ["0–2\n(3)", "2–5\n(3)"] and "duration" in lengths.get_xlabel()
    assert markers(lengths, "s") == [(0, 10), (1, 30)]
    assert len(lengths.collections) == 2  # of the second bin, for both rates
    assert [text.get_text() for text in lengths.texts] == ["8.0", "20.0"]


def test_names_of_speakers_do_not_overlap(drawn):
    axes, _ = drawn(one({f"speaker-{number:02}": group(number, number) for number in range(60)}))
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))


def test_hundreds_of_speakers_are_drawn_without_names_and_with_the_main_rate_alone(drawn):
    axes, _ = drawn(one({str(number): group(number % 90, number % 7) for number in range(300)}))
    assert len(markers(axes, "s")) == 300 and not markers(axes, "o")
    assert axes.get_xlabel() == "300 speakers, by the error rate of words"
    assert axes.figure.get_figwidth() < 25


def test_without_speakers_there_are_lengths_alone(drawn):
    axes = drawn(one({}), one({}))
    assert [panel.get_title() for panel in axes] == ["dev: by duration"] * 2
