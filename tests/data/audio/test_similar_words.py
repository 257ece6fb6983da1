"""Words that a spotter must tell from its keywords, and keywords that are too similar."""

import re

import pytest

from vitspeech.data.audio.similar_words import (
    CONFUSABLE,
    NEAR,
    OTHER_VOWEL,
    changed_words,
    check_words,
    distance,
    phonemes,
    similar_words,
    spoken_negatives,
)
from vitspeech.data.audio.synthesis import Voice, synthesize
from vitspeech.errors import InputError

pytest.importorskip("espeakng_loader", reason="phonemes need the extra `spoken`")
KEYWORDS = ["stop", "left", "seven", "zero"]


def nearest(texts, keywords=KEYWORDS):
    words = phonemes(keywords)
    return [min(distance(word, sounds) for word in words) for sounds in phonemes(texts)]


def test_near_homophones_come_first_and_each_keyword_gets_some():
    candidates = "table top window lift kitchen heaven lemon step left stopp elephant hero laughed top shop".split()
    chosen = similar_words(["stop", "left"], candidates, 9)
    assert set(chosen[:2]) == {"laughed", "step"} and set(chosen[2:4]) == {"lift", "top"}
    assert set(chosen[4:]) < {"table", "window", "kitchen", "heaven", "lemon", "elephant", "hero", "shop"}
    assert similar_words(["stop", "left"], list(reversed(candidates)), 9) == chosen


def test_homophones_and_what_cannot_be_said_are_left_out():
    candidates = ["their", "too", "four", "for", "", "?", "there", "two", "Two"]
    assert similar_words(["there", "two"], candidates, 9) == ["four"]
    assert similar_words(["there"], [], 9) == []


def test_negatives_are_half_near_and_the_same_in_every_call():
    texts = spoken_negatives(KEYWORDS, 200, ["Stopp", "hologram", "LEFT"])
    assert texts == spoken_negatives(KEYWORDS, 200, ["LEFT", "hologram", "Stopp"])
    distances = nearest(texts)
    assert len(texts) == len(set(phonemes(texts))) == 200
    assert all(0 < value <= NEAR for value in distances[:100]) and all(value > NEAR for value in distances[100:])
    assert not {"left", "LEFT", "Stopp"} & set(texts)


def test_excluded_words_and_what_sounds_like_them_are_no_negatives():
    every = spoken_negatives(["stop"], 100_000, ["two", "too", "tool"])
    excluded = ["two", "lift", "[[s|'0|p]]"]  # the last one is `stop` with a phoneme less
    rest = spoken_negatives(["stop"], 100_000, ["two", "too", "tool"], excluded=excluded)
    assert "[[s|'0|p]]" in every and {"two", "too"} & set(every) and "tool" in rest
    assert not {"two", "too", "lift", "[[s|'0|p]]"} & set(rest) and set(rest) < set(every)
    assert min(nearest(rest, excluded)) >= OTHER_VOWEL


def test_changed_words_are_one_phoneme_away():
    for keyword in KEYWORDS:
        changed = changed_words([keyword])
        assert len(changed) > 20
        assert all(0 < value <= 1 for value in nearest(changed, [keyword]))
    assert "[[s|'0|p]]" in changed_words(["stop"])  # sop
    assert not {"[[s|t2|'0]]", "[[s|t2|'O:|p]]"} & set(changed_words(["stop"]))  # dropped, and of an accent


def test_phonemes_are_spoken_as_the_word_is():
    word, sounds, other = synthesize(["seven", "[[s|'E|v|@|n]]", "[[s|'E|v]]"], [Voice()] * 3)
    assert abs(len(word) - len(sounds)) < 160 < len(word) - len(other)


def test_words_that_sound_alike_are_refused():
    with pytest.raises(InputError, match=r"'there' and 'their' sound alike \(distance 0 phonemes\)"):
        check_words(["lamp", "there", "their"])


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "none is given"),
        (["lamp", "Lamp"], "or one twice: lamp, Lamp"),
        (["四"], "cannot say '四'"),
        (["лампа"], "cannot say 'лампа'"),
        (["?!"], "cannot say"),
        (["smart 四"], "cannot say 'smart 四'"),
        (["smart_mirror"], "cannot say 'smart_mirror' in English; write it with the letters a to z and spaces"),
        (["a<b"], "cannot say"),
    ],
)
def test_words_that_cannot_be_said_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        check_words(words)


@pytest.mark.parametrize("first, second", [("bed", "bad"), ("three", "tree"), ("bat", "pat")])
def test_words_one_similar_phoneme_apart_are_named_with_their_distance(first, second):
    with pytest.warns(UserWarning, match=f"'{first}' and '{second}' sound similar") as caught:
        check_words([first, "window", second])
    apart = distance(*phonemes([first, second]))
    assert len(caught) == 1 and f"{apart:.2f}" in str(caught[0].message) and apart <= CONFUSABLE


def test_a_word_inside_another_is_named():
    with pytest.warns(
        UserWarning, match="the shorter is heard in the longer, too: 'view' inside 'view glass'$"
    ) as caught:
        check_words(["view", "view glass", "viewer"])
    assert sum("inside" in str(warning.message) for warning in caught) == 1


def test_a_short_word_is_named_with_its_duration():
    with pytest.warns(UserWarning, match=r"'uh' lasts 1\d\d ms, below 200 ms"):
        check_words(["uh", "window"])


def test_words_of_other_languages_are_checked_by_their_own_sounds():
    check_words(["Lampe", "Küche"], "de")
    check_words(["лампа", "свет"], "ru")
    with pytest.raises(InputError, match="'Rad' and 'Rat' sound alike"):
        check_words(["Rad", "Rat"], "de")  # not in English
    assert distance(*phonemes(["Stadt", "Staat"], "de")) == 1
    assert distance(*phonemes(["tuli", "tuuli"], "fi")) == 1


@pytest.mark.parametrize(
    "word, language",
    [("лампа", "de"), ("四", "de"), ("a<b", "de"), ("?!", "de"), ("lamp", "ru"), ("四", "ru"), ("lamp", "ja")],
)
def test_words_that_a_language_cannot_say_are_refused(word, language):
    with pytest.raises(InputError, match=f"cannot say {re.escape(repr(word))} in '{language}'"):
        check_words([word], language)


def test_negatives_of_another_language_are_near_and_have_its_sounds():
    texts = spoken_negatives(["Küche"], 100, language="de")
    (word,), sounds = phonemes(["Küche"], "de"), phonemes(texts, "de")
    assert len(texts) == 100 and all(0 < distance(word, one) <= NEAR for one in sounds[:10])
    assert not any("T" in one or "D" in one for one in sounds[:10])  # `th` is not German
