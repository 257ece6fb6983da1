"""The vocabulary spoken: every word as often as the others, none in two splits, and the same clips every time."""

import collections
import itertools

import numpy
import pytest
import torch

from vitspeech.data.audio.synthesis import Synthesizer, Voice
from vitspeech.data.audio.vocabulary import SPLITS, further_words, vocabulary
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.utterances.spoken_vocabulary import SpokenVocabulary

COUNT = 1130  # training says 130 of its words twice; validation and test say 13 of theirs twice


@pytest.fixture(scope="module")
def source():
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    return SpokenVocabulary(COUNT)


@pytest.fixture(scope="module")
def clips(source):
    return {split: source.word_clips(split) for split in SPLITS}


def test_validation_and_test_have_a_tenth_of_the_clips(clips):
    assert {split: len(clips[split]) for split in SPLITS} == {"train": 1130, "validation": 113, "test": 113}


@pytest.mark.parametrize(("split", "twice"), [("train", 130), ("validation", 13), ("test", 13)])
def test_a_split_contains_every_word_before_any_repeats(clips, split, twice):
    words = [clip.word for clip in clips[split]]
    known = vocabulary(split)
    assert sorted(words[: len(known)]) == sorted(known)
    assert sorted(collections.Counter(words).values()) == [1] * (len(known) - twice) + [2] * twice


def test_words_go_in_a_drawn_order(clips):
    words = [clip.word for clip in clips["train"]]
    assert words[:1000] != sorted(words[:1000]) and words[:130] != words[1000:]


def test_the_words_are_those_of_all_splits(source, clips):
    assert len(source.words) == len(set(source.words)) == 1200
    assert {clip.word for split in SPLITS for clip in clips[split]} == set(source.words)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(SPLITS, 2)))
def test_no_word_and_no_throat_is_in_two_splits(clips, one, other):
    words, throats = (
        [{field(clip) for clip in clips[split]} for split in (one, other)]
        for field in (lambda clip: clip.word, lambda clip: clip.speaker.partition("+")[2])
    )
    assert words[0].isdisjoint(words[1]) and throats[0].isdisjoint(throats[1])


def test_a_clip_is_named_once_and_is_all_word(clips):
    for split in SPLITS:
        assert len({clip.name for clip in clips[split]}) == len(clips[split])
        assert all(clip.name.startswith(clip.word + "/") for clip in clips[split])
        assert all((clip.start, clip.end) == (0, len(clip.samples)) for clip in clips[split])
        assert {clip.samples.dtype for clip in clips[split]} == {numpy.dtype("int16")}


def test_a_clip_contains_its_word(clips):
    # No two takes are alike, but a long word lasts longer than a short one by any voice, on the whole.
    with Synthesizer() as synthesizer:
        alone = {text: len(synthesizer.speak(text, Voice())) for text in vocabulary("test")}
    lasts = [len(clip.samples) for clip in clips["test"]]
    assert numpy.corrcoef(lasts, [alone[clip.word] for clip in clips["test"]])[0, 1] > 0.5


def test_the_same_number_gives_the_same_clips_and_another_number_others(clips):
    again, other = (SpokenVocabulary(COUNT, drawn_from=number).word_clips("validation") for number in (0, 1))
    for clip, same in zip(clips["validation"], again, strict=True):
        assert (same.name, same.speaker) == (clip.name, clip.speaker)
        assert numpy.array_equal(same.samples, clip.samples)
    assert [clip.word for clip in other] != [clip.word for clip in again]


def test_each_split_has_its_own_part_of_the_noise(source):
    parts = {split: source.backgrounds(split) for split in SPLITS}
    assert [list(found) for found in parts.values()] == [["hiss"]] * 3
    assert [len(found["hiss"]) for found in parts.values()] == [128_000, 16_000, 16_000]
    assert torch.equal(torch.cat([found["hiss"] for found in parts.values()]), pink_noise(16_000))


def test_more_training_words_leave_validation_and_test_as_they_are(clips):
    more = SpokenVocabulary(COUNT, train_words=1130)
    train = [clip.word for clip in more.word_clips("train")]
    assert sorted(train) == sorted([*vocabulary("train"), *further_words()[:130]])
    assert len(more.words) == 1330 and set(more.words) > set(train)
    for same, clip in zip(more.word_clips("test"), clips["test"], strict=True):
        assert (same.name, same.speaker) == (clip.name, clip.speaker)
        assert numpy.array_equal(same.samples, clip.samples)


def test_more_training_clips_leave_validation_and_test_as_they_are(clips):
    more = SpokenVocabulary(COUNT + 300, held_out=COUNT // 10)
    assert len(more.word_clips("train")) == COUNT + 300
    for split in ("validation", "test"):
        for same, clip in zip(more.word_clips(split), clips[split], strict=True):
            assert (same.name, same.speaker) == (clip.name, clip.speaker)
            assert numpy.array_equal(same.samples, clip.samples)


def test_fewer_held_out_clips_than_words_are_refused():
    with pytest.raises(ValueError, match="held_out=99 is"):
        SpokenVocabulary(COUNT, held_out=99)


@pytest.mark.parametrize(
    ("count", "train_words", "message"),
    [
        (999, 1000, "count=999 is below train_words=1000"),
        (2000, 999, "train_words=999 is not a number from 1000 to 5000"),
        (9000, 5001, "train_words=5001 is not a number from 1000 to 5000"),
    ],
)
def test_fewer_clips_than_words_and_other_numbers_of_words_are_refused(count, train_words, message):
    with pytest.raises(ValueError, match=message):
        SpokenVocabulary(count, train_words=train_words)
