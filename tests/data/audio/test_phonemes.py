"""Phonemes of words and their distance."""

import itertools

import numpy
import pytest

from vitspeech.data.audio.similar_words import (
    CONSONANTS,
    INDEX,
    MARKS,
    SUBSTITUTION,
    VARIANTS,
    VOWELS,
    distance,
    distances,
    phonemes,
    stressed_phonemes,
)
from vitspeech.data.audio.vocabulary import WORDS

pytest.importorskip("espeakng_loader", reason="phonemes need the extra `spoken`")


def apart(first, second):
    return distance(*phonemes([first, second]))


def slow_distance(first, second):
    """Wagner and Fischer 1974, by its recursion."""
    if not first or not second:
        return len(first) + len(second)
    return min(
        slow_distance(first[1:], second) + 1,
        slow_distance(first, second[1:]) + 1,
        slow_distance(first[1:], second[1:]) + SUBSTITUTION[INDEX[first[0]], INDEX[second[0]]],
    )


def test_phonemes_are_those_that_are_heard():
    assert phonemes(["stop", "light on", "", "[[s|t|'0|p]]", "yes"]) == [
        ("s", "t", "0", "p"),
        ("l", "aI", "t", "0", "n"),
        (),
        ("s", "t", "0", "p"),
        ("j", "E", "s"),
    ]


def test_every_phoneme_of_the_vocabulary_is_known():
    spoken = itertools.chain(*itertools.chain(*stressed_phonemes(WORDS.read_text().split())))
    found = {MARKS.sub("", part) for part in spoken}
    assert found - INDEX.keys() - VARIANTS.keys() == {"@L", ";"}  # two phonemes, and a palatalized consonant


@pytest.mark.parametrize("first, second", [("there", "their"), ("two", "too"), ("four", "for"), ("Stop", "stop")])
def test_homophones_have_no_distance(first, second):
    assert apart(first, second) == 0


def test_substitutions_are_a_metric():
    assert (SUBSTITUTION == SUBSTITUTION.T).all() and (SUBSTITUTION.diagonal() == 0).all()
    assert SUBSTITUTION[~numpy.eye(len(INDEX), dtype=bool)].min() > 0.05 and SUBSTITUTION.max() == 1
    assert (SUBSTITUTION[:, None] <= SUBSTITUTION[:, :, None] + SUBSTITUTION[None] + 1e-9).all()  # by way of another
    assert all(SUBSTITUTION[INDEX[one], INDEX[other]] == 1 for one in VOWELS for other in CONSONANTS)


def test_the_table_of_distances_equals_the_recursion():
    words = [*phonemes(["stop", "top", "up", "a", "seven", "stops", "tops"]), ()]
    for word in words:
        assert distances(word, words).tolist() == pytest.approx([slow_distance(word, other) for other in words])
    assert distances(words[0], []).shape == (0,)
