"""The vocabulary spoken: every word as often as the others, none in two splits, and the same clips every time."""

import collections
import itertools

import numpy
import pytest

from vitspeech.data.audio.vocabulary import SPLITS, further_words, vocabulary
from vitspeech.data.utterances.spoken_vocabulary import SpokenVocabulary

COUNT = 1130  # training says 130 of its words twice; validation and test say 13 of theirs twice


@pytest.fixture(scope="module")
def source():
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    return SpokenVocabulary(COUNT)


@pytest.fixture(scope="module")
def clips(source):
    return {split: source.word_clips(split) for split in SPLITS}


@pytest.mark.parametrize(("split", "twice"), [("train", 130), ("validation", 13), ("test", 13)])
def test_a_split_contains_every_word_before_any_repeats(clips, split, twice):
    words = [clip.word for clip in clips[split]]
    known = vocabulary(split)
    assert sorted(words[: len(known)]) == sorted(known)
    assert sorted(collections.Counter(words).values()) == [1] * (len(known) - twice) + [2] * twice


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(SPLITS, 2)))
def test_no_word_and_no_throat_is_in_two_splits(clips, one, other):
    words, throats = (
        [{field(clip) for clip in clips[split]} for split in (one, other)]
        for field in (lambda clip: clip.word, lambda clip: clip.speaker.partition("+")[2])
    )
    assert words[0].isdisjoint(words[1]) and throats[0].isdisjoint(throats[1])


def test_the_same_number_gives_the_same_clips_and_another_number_others(clips):
    again, other = (SpokenVocabulary(COUNT, drawn_from=number).word_clips("validation") for number in (0, 1))
    for clip, same in zip(clips["validation"], again, strict=True):
        assert (same.name, same.speaker) == (clip.name, clip.speaker)
        assert numpy.array_equal(same.samples, clip.samples)
    assert [clip.word for clip in other] != [clip.word for clip in again]


def test_more_training_words_leave_validation_and_test_as_they_are(clips):
    more = SpokenVocabulary(COUNT, train_words=1130)
    train = [clip.word for clip in more.word_clips("train")]
    assert sorted(train) == sorted([*vocabulary("train"), *further_words()[:130]])
    assert len(more.words) == 1330 and set(more.words) > set(train)
    for same, clip in zip(more.word_clips("test"), clips["test"], strict=True):
        assert (same.name, same.speaker) == (clip.name, clip.speaker)
        assert numpy.array_equal(same.samples, clip.samples)
