"""Error rates by speaker and by length: the bins, the tables and the titles of utterances."""

import csv

import pytest
from PIL import Image

from vitspeech.evaluation.breakdown import Transcribed, write_breakdowns

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
