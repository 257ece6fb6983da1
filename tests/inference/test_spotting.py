"""Words in a stream: when they are said, when not, and how often for nothing."""

import pytest
import torch
from torch import nn

from vitspeech.checkpoint.folder import Model
from vitspeech.frontends import SpeechTokens
from vitspeech.inference.spotting import WordSpotter, alarms_per_hour
from vitspeech.models import SpeechClassifier

LABELS = ["go", "stop", "unknown", "silence"]
HOP = 0.04  # seconds from row to row
WINDOW = 23  # rows of a clip of one second


def model():
    torch.manual_seed(0)
    network = SpeechClassifier(
        4, SpeechTokens(8, mels=11, stride=4), encoder={"depth": 1, "heads": 2, "left": 3, "right": 1}
    ).eval()
    return Model(network, LABELS, {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {})


def spotter(**options):
    return WordSpotter(model(), **options)


def rows(*stretches):
    """Logits in which one label stands out by 9 for so many rows, stretch by stretch."""
    return torch.cat(
        [9.0 * nn.functional.one_hot(torch.tensor(LABELS.index(name)), 4).repeat(count, 1) for name, count in stretches]
    )


def heard(listener, logits, sizes=(1,)):
    found, place, number = [], 0, 0
    while place < len(logits):
        size = sizes[number % len(sizes)]
        found += listener.recognized(logits[place : place + size])
        place, number = place + size, number + 1
    return found


def test_a_word_is_said_once_with_the_stretch_it_was_recognized_in():
    found = heard(spotter(), rows(("silence", 50), ("go", 20), ("silence", 50)))
    assert [word.label for word in found] == ["go"]
    # Of 23 rows averaged, 14 say go: 9 · 14/23 against 9 · 9/23 are the first logits whose softmax is above 0.8.
    assert found[0].start_s == pytest.approx((50 + 14 - WINDOW) * HOP)
    assert found[0].end_s - found[0].start_s == pytest.approx((WINDOW - 1) * HOP + 0.085)
    assert found[0].probability == pytest.approx(0.8698, abs=1e-4)


@pytest.mark.parametrize("sizes", [(7,), (1, 30), (500,)])
def test_the_words_do_not_depend_on_the_pushes(sizes):
    logits = rows(("silence", 30), ("go", 25), ("silence", 30), ("stop", 25), ("silence", 40))
    one, other = heard(spotter(), logits), heard(spotter(), logits, sizes)
    assert [word.label for word in one] == ["go", "stop"]
    assert [(word.label, word.start_s) for word in one] == [(word.label, word.start_s) for word in other]


def test_neither_unknown_nor_silence_is_a_word():
    assert heard(spotter(), rows(("silence", 60), ("unknown", 60), ("silence", 60))) == []


def test_a_word_that_lasts_is_one_and_a_word_that_comes_again_is_two():
    assert len(heard(spotter(refractory_s=0.0), rows(("silence", 30), ("go", 200)))) == 1
    assert len(heard(spotter(), rows(("silence", 30), ("go", 25), ("silence", 30), ("go", 25)))) == 2


def test_within_the_refractory_time_there_is_no_other_word():
    logits = rows(("go", 30), ("stop", 30))
    assert [word.label for word in heard(spotter(refractory_s=0.1), logits)] == ["go", "stop"]
    assert [word.label for word in heard(spotter(refractory_s=5.0), logits)] == ["go"]


def test_a_higher_threshold_says_less():
    logits = rows(("silence", 30), ("go", 14), ("silence", 30))
    assert len(heard(spotter(threshold=0.8), logits)) == 1
    assert heard(spotter(threshold=0.95), logits) == []


def test_a_clip_of_one_second_is_answered_as_by_the_network():
    made = model()
    with torch.no_grad():
        made.network.head.bias.copy_(torch.tensor([3.0, 0.0, 0.0, 0.0]))
    clip = 0.1 * torch.randn(16_000)
    found = list(WordSpotter(made, threshold=0.5).words(clip.split(1600)))
    with torch.no_grad():
        expected = made.network(clip[None]).softmax(-1)[0]
    assert len(found) == 1 and found[0].label == LABELS[expected.argmax()]
    assert found[0].probability == pytest.approx(expected.max().item(), abs=1e-5)
    assert found[0].start_s == 0


def test_less_sound_than_a_clip_is_one_stretch():
    made = model()
    with torch.no_grad():
        made.network.head.bias.copy_(torch.tensor([0.0, 9.0, 0.0, 0.0]))
    found = list(WordSpotter(made).words((0.1 * torch.randn(6_000)).split(1600)))
    assert [word.label for word in found] == ["stop"]
    assert found[0].end_s < 6_000 / 16_000
    assert list(WordSpotter(made).words([torch.zeros(100)])) == []


def test_false_alarms_have_the_exact_interval_of_a_poisson_rate():
    # Garwood's limits for 3 events: 0.6187 and 8.7673; for none: 0 and 3.6889.
    assert alarms_per_hour(3, 3600) == pytest.approx((3, 0.6187, 8.7673), abs=1e-4)
    assert alarms_per_hour(0, 1800) == pytest.approx((0, 0, 2 * 3.6889), abs=1e-3)
    with pytest.raises(ValueError, match="no sound"):
        alarms_per_hour(0, 0)


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.0}, {"refractory_s": -1.0}])
def test_numbers_out_of_their_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        spotter(**options)


def test_a_pooling_that_is_no_mean_is_refused():
    tokens = SpeechTokens(8, mels=11, stride=4)
    network = SpeechClassifier(
        4, tokens, pooling="self_attentive", encoder={"depth": 1, "heads": 2, "left": 3, "right": 1}
    ).eval()
    with pytest.raises(ValueError, match="SelfAttentivePooling: the mean of a stream's rows"):
        WordSpotter(Model(network, LABELS, {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {}))
