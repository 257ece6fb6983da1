"""Synthesised words: labels, splits, and the same clips every time."""

import pytest
import soundfile
import torch

from vitspeech.data.spoken_words import OTHERS, WORDS, SpokenWords, save_example


@pytest.fixture(scope="module")
def validation():
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


def test_without_shares_there_are_words_alone():
    data = SpokenWords(["go", "stop"], count=50, unknown=0, silence=0)
    assert data.labels == ["go", "stop"]
    assert data.read("test").labels.bincount().sum() == 10


def test_unknown_words_are_none_of_the_labels():
    assert not set(OTHERS) & set(WORDS)
    assert len(set(OTHERS)) == len(OTHERS) >= 20


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


def test_a_word_that_can_not_be_said_is_named():
    with pytest.raises(ValueError, match=r"'\?!'"):
        SpokenWords(["go", "?!"], count=50).read("train")


def test_an_example_holds_the_words_with_pauses(tmp_path):
    save_example(tmp_path / "words.wav", ["left", "go"], pause_s=0.5)
    samples, rate = soundfile.read(tmp_path / "words.wav", dtype="int16")
    assert rate == 16_000 and 1.9 < len(samples) / rate < 4
    silent = abs(samples.astype(int)) == 0
    assert silent[:8000].all() and silent[-8000:].all() and not silent[8000:9000].all()
