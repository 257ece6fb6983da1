"""Synthesized words, with any vocabulary or with the package's: labels, splits, and the same clips every time."""

import collections
import itertools

import numpy
import pytest
import torch

from vitspeech.data.audio.synthesis import voices_of
from vitspeech.data.audio.vocabulary import SPLITS, further_words, vocabulary
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.spoken_words import SpokenVocabulary, SpokenWords


@pytest.fixture(scope="module")
def espeak():
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")


@pytest.fixture(scope="module")
def validation(espeak):
    return SpokenWords(["go", "stop", "seven"], count=300).read("validation")


def test_each_label_has_its_share(validation):
    data = SpokenWords(["go", "stop", "seven"], count=300)
    assert data.labels == ["go", "stop", "seven", "unknown", "silence"]
    assert validation.inputs.shape == (72, 16_000) and validation.inputs.dtype == torch.int16
    counts = validation.labels.bincount()
    assert counts[:3].sum() == 60 and min(counts[:3]) > 10 and counts[3:].tolist() == [6, 6]


def test_words_are_louder_than_silence_and_lie_in_the_middle(validation):
    clips = validation.inputs.float()
    words = clips[validation.labels < 3]
    assert words.abs().amax(1).min() > 1000
    assert (words[:, :800].abs().amax(1) == 0).all() and (words[:, 7500:8500].abs().amax(1) > 0).all()
    assert (clips[validation.labels == 4].abs().amax(1) > 0).all()


def test_the_same_number_gives_the_same_clips_and_another_number_others(validation):
    again = SpokenWords(["go", "stop", "seven"], count=300, seed=5).read("validation")
    assert torch.equal(again.inputs, validation.inputs) and torch.equal(again.labels, validation.labels)
    other = SpokenWords(["go", "stop", "seven"], count=300, drawn_from=1).read("validation")
    assert not torch.equal(other.labels[:60], validation.labels[:60])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": []}, "none"),
        ({"words": ["go", "go"]}, "twice"),
        ({"count": 49}, "count=49"),
        ({"unknown": -0.1}, "unknown=-0.1"),
        ({"silence": -1.0}, "silence=-1.0"),
    ],
)
def test_what_makes_no_set_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SpokenWords(**arguments)


@pytest.fixture(scope="module")
def word_clips(espeak):
    data = SpokenWords(["go", "stop", "seven"], count=55, unknown=0.5, silence=0.5)
    return {split: data.word_clips(split) for split in ("train", "validation", "test")}


def test_word_clips_hold_only_words_with_unique_names(word_clips):
    assert [len(clips) for clips in word_clips.values()] == [55, 11, 11]
    for clips in word_clips.values():
        assert {clip.word for clip in clips} == {"go", "stop", "seven"}
        assert [clip.name for clip in clips] == [f"{clip.word}/{place}" for place, clip in enumerate(clips)]


def test_a_word_clips_speaker_is_its_voice_and_no_throat_is_in_two_splits(word_clips):
    voices = {split: {clip.speaker for clip in clips} for split, clips in word_clips.items()}
    for split, found in voices.items():
        assert {tuple(speaker.split("+", 1)) for speaker in found} <= set(voices_of(split))
    throats = [{speaker.partition("+")[2] for speaker in found} for found in voices.values()]
    assert sum(map(len, throats)) == len(set.union(*throats))


def test_word_clips_say_the_words_that_they_name(espeak):
    # A word of five syllables lasts longer than one of one, whoever says it.
    clips = SpokenWords(["go", "extraordinary"], count=53).word_clips("train")
    lasts = {word: [len(clip.samples) for clip in clips if clip.word == word] for word in ("go", "extraordinary")}
    assert min(lasts["extraordinary"]) > max(lasts["go"])


def test_each_split_has_its_own_part_of_the_noise():
    parts = [SpokenWords().backgrounds(split) for split in ("train", "validation", "test")]
    assert [len(found["hiss"]) for found in parts] == [128_000, 16_000, 16_000] and {len(found) for found in parts} == {
        1
    }
    assert torch.equal(torch.cat([found["hiss"] for found in parts]), pink_noise(16_000))


COUNT = 1130  # training says 130 of its words twice; validation and test say 13 of theirs twice


@pytest.fixture(scope="module")
def clips(espeak):
    return {split: SpokenVocabulary(COUNT).word_clips(split) for split in SPLITS}


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


def test_the_same_number_speaks_the_same_vocabulary(clips):
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
