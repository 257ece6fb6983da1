"""From units to text."""

from vitspeech.decoding.unit_runs import Segment
from vitspeech.decoding.vocabulary import to_text, to_words, vocabulary_kind, word_ranges

CHARACTERS = [" ", *"abc"]
PIECES = ["▁", "▁ab", "c", "b"]


def test_the_kind_follows_from_the_labels():
    assert [vocabulary_kind(labels) for labels in (["yes", "no"], CHARACTERS, PIECES)] == [
        "words",
        "characters",
        "pieces",
    ]


def test_words_are_separated_by_spaces():
    assert to_text(["yes", "no"], ["yes", "no"]) == "yes no"
    assert word_ranges(["yes", "no"], ["yes", "no"]) == [(0, 1), (1, 2)]


def test_characters_are_joined_and_superfluous_spaces_left_out():
    names = list(" ab  c ")
    assert to_text(names, CHARACTERS) == "ab c"
    assert word_ranges(names, CHARACTERS) == [(1, 3), (5, 6)]


def test_pieces_begin_a_word_at_their_mark_also_without_one_at_first():
    names = ["c", "▁ab", "c", "▁", "b", "▁"]
    assert to_text(names, PIECES) == "c abc b"
    assert word_ranges(names, PIECES) == [(0, 1), (1, 3), (3, 5)]
    assert to_text([], PIECES) == ""


def spoken(names):
    return [Segment(name, index / 10, index / 10 + 0.05) for index, name in enumerate(names)]


def test_a_word_lasts_from_its_first_unit_to_its_last():
    labels = [" ", *"gopu"]
    assert to_words(spoken(" go  up "), labels) == (Segment("go", 0.1, 0.25), Segment("up", 0.5, 0.65))
    assert to_words(spoken(["go", "up"]), ["go", "up"]) == tuple(spoken(["go", "up"]))
    assert to_words(spoken(["c", "▁ab", "c"]), PIECES) == (Segment("c", 0.0, 0.05), Segment("abc", 0.1, 0.25))
    assert to_words([], labels) == ()
