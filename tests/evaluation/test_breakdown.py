"""Error rates by speaker and by length: the bins, the tables, and what is where in the figure."""

import csv
from itertools import pairwise

import pytest
from PIL import Image

from vitspeech.evaluation.breakdown import Breakdown, Transcribed, draw_error_rates, write_breakdowns
from vitspeech.metrics.word_errors import ErrorCounts, GroupScore

REFERENCES = ["go on up", "stop left", "go", "right"]
HYPOTHESES = ["no on up", "stop left", "go", ""]
SPEAKERS = [["bob", "ann", "bob"], ["ann", "ann"], ["bob"], ["ann"]]
SECONDS = [2.0, 1.99, 12.5, 40.0]


def transcribed(speakers=SPEAKERS, seconds=SECONDS, name="test"):
    return Transcribed(name, list("abcd"), REFERENCES, HYPOTHESES, speakers, seconds)


def rows(file):
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_speakers_have_a_row_with_their_words_and_errors(tmp_path):
    write_breakdowns([transcribed()], tmp_path, main="words")
    ann, bob = rows(tmp_path / "speakers.csv")
    assert (ann["test_set"], ann["speaker"], bob["speaker"]) == ("test", "ann", "bob")
    assert (ann["utterances"], ann["words"], ann["word_error_rate"]) == ("3", "4", "0.2500")
    assert (ann["substitutions"], ann["deletions"], ann["insertions"]) == ("0", "1", "0")
    assert (bob["utterances"], bob["words"], bob["substitutions"]) == ("2", "3", "1")
    assert (bob["characters"], bob["character_error_rate"]) == ("7", f"{1 / 7:.4f}")  # "go ", "up", "go"
    assert float(bob["word_low"]) == 0 and float(bob["word_high"]) == 0.5  # resamples of two utterances


def test_durations_fall_into_bins_that_include_their_beginning(tmp_path):
    write_breakdowns([transcribed()], tmp_path, main="words")
    found = [(row["length_in"], row["from"], row["to"], row["utterances"]) for row in rows(tmp_path / "lengths.csv")]
    assert found == [
        ("seconds", "0", "2", "1"),
        ("seconds", "2", "5", "1"),
        ("seconds", "10", "15", "1"),
        ("seconds", "30", "", "1"),
    ]
    rates = [float(row["word_error_rate"]) for row in rows(tmp_path / "lengths.csv")]
    assert rates == [0, 0.3333, 0, 1]


def test_without_durations_lengths_are_numbers_of_words(tmp_path):
    long = Transcribed("long", ["e", "f"], ["go " * 12 + "on", " ".join(["up"] * 6)], ["go on", "up"])
    write_breakdowns([transcribed(None, None), long], tmp_path, main="words")
    found = [tuple(row.values())[:5] for row in rows(tmp_path / "lengths.csv")]
    assert found == [
        ("test", "words", "1", "1", "2"),
        ("test", "words", "2", "2", "1"),
        ("test", "words", "3", "3", "1"),
        ("long", "words", "6", "10", "1"),
        ("long", "words", "11", "20", "1"),
    ]
    assert not (tmp_path / "speakers.csv").exists()


@pytest.mark.parametrize("speakers", [SPEAKERS, None])
def test_the_figure_is_a_picture(speakers, tmp_path):
    write_breakdowns([transcribed(speakers), transcribed(None, None, "b$_$")], tmp_path, main="characters")
    with Image.open(tmp_path / "errors.png") as picture:
        assert picture.format == "PNG" and picture.width > 400 and picture.height > 800


# The figure.


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


NAMED = {"ann$_$": group(30, 5), "bob": group(10, 9), "a speaker with a long name": group(20, 1)}


def ticks(axes):
    return [label.get_text() for label in axes.get_xticklabels()]


def markers(axes, marker):
    return [
        (round(line.get_xdata()[0]), round(line.get_ydata()[0], 4))
        for line in axes.lines
        if line.get_marker() == marker
    ]


def test_speakers_are_sorted_by_the_main_rate(drawn):
    by_words, _ = drawn(one(NAMED))
    assert ticks(by_words) == ["bob", "a speaker with …", r"ann\$_\$"]
    assert markers(by_words, "s") == [(0, 10), (1, 20), (2, 30)] and markers(by_words, "o") == [(0, 9), (1, 1), (2, 5)]
    by_characters, _ = drawn(one(NAMED, "characters"))
    assert ticks(by_characters) == ["a speaker with …", r"ann\$_\$", "bob"]


def test_lengths_keep_their_order_and_one_utterance_has_no_interval(drawn):
    _, lengths = drawn(one(NAMED))
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
