"""The vocabulary: how many words, that splits share none, and that each word can be told from the others."""

import collections
import ctypes
import re

import pytest

from vitspeech.data.audio.synthesis import ACCENTS, Synthesizer, Voice
from vitspeech.data.audio.vocabulary import SPLITS, further_words, vocabulary

EVERY = tuple(word for split in SPLITS for word in vocabulary(split))
HELD_OUT = {*vocabulary("validation"), *vocabulary("test")}
PHONEMES_OF_UTF8, IPA = 1, 2  # of speak_lib.h


@pytest.fixture
def synthesizer():
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    with Synthesizer() as made:
        yield made


def bases(word):
    """What the word may be an inflection of: walked -> walk, running -> run, making -> make, cried -> cry."""
    for ending in ("s", "es", "ed", "ing", "er", "ly"):
        base = word.removesuffix(ending)
        if base != word and len(base) > 2:
            yield from (base, base + "e", re.sub(r"(.)\1$", r"\1", base), re.sub("i$", "y", base))


def test_each_split_has_its_number_of_words():
    assert {split: len(vocabulary(split)) for split in SPLITS} == {"train": 1000, "validation": 100, "test": 100}


def test_the_splits_stay_as_they_are():
    assert vocabulary("train")[-3:] == ("zone", "zoo", "zoom")
    assert vocabulary("validation")[:3] == ("after", "among", "animal")
    assert vocabulary("test")[:3] == ("action", "alarm", "also")


def test_no_word_is_an_inflection_of_another():
    known = set(EVERY)
    assert [(word, base) for word in EVERY for base in bases(word) if base in known - {word}] == []


def test_every_word_can_be_said(synthesizer):
    lengths = [len(synthesizer.speak(word, Voice(rate_wpm=300))) for word in EVERY]
    assert min(lengths) > 1000


def test_there_are_4000_further_words_of_small_letters_and_none_is_in_a_split():
    assert len(further_words()) == len(set(further_words())) == 4000 and set(further_words()).isdisjoint(EVERY)
    assert [word for word in further_words() if not re.fullmatch("[a-z]{2,10}", word)] == []


def test_no_further_word_is_of_the_family_of_a_held_out_word():
    families = {base: word for word in HELD_OUT for base in (word, *bases(word))}
    found = [(word, families[base]) for word in further_words() for base in (word, *bases(word)) if base in families]
    assert found == []


def test_no_further_word_contains_a_held_out_word_of_four_letters():
    assert [(word, held) for held in HELD_OUT if len(held) > 3 for word in further_words() if held in word] == []


@pytest.mark.parametrize("accent", ACCENTS)
def test_no_two_words_sound_the_same(synthesizer, accent):
    phonemes = synthesizer.library.espeak_TextToPhonemes
    phonemes.restype, phonemes.argtypes = ctypes.c_char_p, [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_int]
    assert synthesizer.library.espeak_SetVoiceByName(accent.encode()) == 0
    alike = collections.defaultdict(list)
    for word in (*EVERY, *further_words()):
        sound = phonemes(ctypes.byref(ctypes.c_char_p(word.encode())), PHONEMES_OF_UTF8, IPA).decode()
        alike[re.sub("[ˈˌ]", "", sound)].append(word)
    assert [words for words in alike.values() if len(words) > 1] == []
