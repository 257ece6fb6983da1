"""Keyword spotting: which words are detected when, and the rate of false alarms."""

import math

import pytest
import torch
from torch import nn

from vitspeech.checkpoint.folder import Model
from vitspeech.frontends import SpeechTokens
from vitspeech.inference.spotting import WordSpotter, alarms_per_hour
from vitspeech.models import SpeechClassifier

LABELS = ["go", "stop", "unknown", "silence"]
HOP = 0.04  # seconds between rows
WINDOW = 23  # rows per clip of one second


def model():
    torch.manual_seed(0)
    network = SpeechClassifier(
        4, SpeechTokens(8, mels=11, stride=4), encoder={"depth": 1, "heads": 2, "left": 3, "right": 1}
    ).eval()
    return Model(network, LABELS, {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {})


def spotter(**options):
    return WordSpotter(model(), **options)


def rows(*stretches):
    """Logits that prefer one label by 9, for a number of rows per (label, number) pair."""
    return torch.cat(
        [9.0 * nn.functional.one_hot(torch.tensor(LABELS.index(name)), 4).repeat(count, 1) for name, count in stretches]
    )


def detections(spotter, logits, sizes=(1,)):
    words, start, number = [], 0, 0
    while start < len(logits):
        size = sizes[number % len(sizes)]
        words += spotter.detect(logits[start : start + size])
        start, number = start + size, number + 1
    return words


def test_a_word_is_detected_once_with_the_times_of_its_window():
    found = detections(spotter(), rows(("silence", 50), ("go", 20), ("silence", 50)))
    assert [detection.label for detection in found] == ["go"]
    # 14 of the 23 averaged rows prefer go: 9 · 14/23 against 9 · 9/23 are the first logits whose softmax is above 0.8.
    assert found[0].start_s == pytest.approx((50 + 14 - WINDOW) * HOP)
    assert found[0].end_s - found[0].start_s == pytest.approx((WINDOW - 1) * HOP + 0.085)
    assert found[0].probability == pytest.approx(0.8698, abs=1e-4)


@pytest.mark.parametrize("sizes", [(7,), (1, 30), (500,)])
def test_detections_do_not_depend_on_the_pushes(sizes):
    logits = rows(("silence", 30), ("go", 25), ("silence", 30), ("stop", 25), ("silence", 40))
    one, other = detections(spotter(), logits), detections(spotter(), logits, sizes)
    assert [detection.label for detection in one] == ["go", "stop"]
    assert [(detection.label, detection.start_s) for detection in one] == [
        (detection.label, detection.start_s) for detection in other
    ]


def test_unknown_and_silence_are_never_detected():
    assert detections(spotter(), rows(("silence", 60), ("unknown", 60), ("silence", 60))) == []


def test_a_long_word_is_detected_once_and_a_repeated_word_twice():
    assert len(detections(spotter(refractory_s=0.0), rows(("silence", 30), ("go", 200)))) == 1
    assert len(detections(spotter(), rows(("silence", 30), ("go", 25), ("silence", 30), ("go", 25)))) == 2


def test_no_word_is_detected_within_the_refractory_time():
    logits = rows(("go", 30), ("stop", 30))
    assert [detection.label for detection in detections(spotter(refractory_s=0.1), logits)] == ["go", "stop"]
    assert [detection.label for detection in detections(spotter(refractory_s=5.0), logits)] == ["go"]


def test_a_higher_threshold_gives_fewer_detections():
    logits = rows(("silence", 30), ("go", 14), ("silence", 30))
    assert len(detections(spotter(threshold=0.8), logits)) == 1
    assert detections(spotter(threshold=0.95), logits) == []


def test_a_clip_of_one_second_has_the_networks_own_probability():
    released = model()
    with torch.no_grad():
        released.network.head.bias.copy_(torch.tensor([3.0, 0.0, 0.0, 0.0]))
    clip = 0.1 * torch.randn(16_000)
    found = list(WordSpotter(released, threshold=0.5).words(clip.split(1600)))
    with torch.no_grad():
        expected = released.network(clip[None]).softmax(-1)[0]
    assert len(found) == 1 and found[0].label == LABELS[expected.argmax()]
    assert found[0].probability == pytest.approx(expected.max().item(), abs=1e-5)
    assert found[0].start_s == 0


def test_a_recording_shorter_than_a_clip_is_one_window():
    released = model()
    with torch.no_grad():
        released.network.head.bias.copy_(torch.tensor([0.0, 9.0, 0.0, 0.0]))
    found = list(WordSpotter(released).words((0.1 * torch.randn(6_000)).split(1600)))
    assert [detection.label for detection in found] == ["stop"]
    assert found[0].end_s < 6_000 / 16_000
    assert list(WordSpotter(released).words([torch.zeros(100)])) == []


@pytest.mark.parametrize("samples", [6_000, 40_000])
def test_a_recording_after_a_flush_is_spotted_like_the_first(samples):
    released = model()
    with torch.no_grad():
        released.network.head.bias.copy_(torch.tensor([3.0, 0.0, 0.0, 0.0]))
    generator = torch.Generator().manual_seed(0)
    parts = (0.1 * torch.randn(samples, generator=generator)).split(1600)
    expected = list(WordSpotter(released, threshold=0.5).words(parts))
    reused = WordSpotter(released, threshold=0.5)
    for before in (6_000, 50_000):  # shorter and longer than a clip
        assert list(reused.words((0.1 * torch.randn(before, generator=generator)).split(1600)))
        assert list(reused.words(parts)) == expected and expected


def test_false_alarms_have_the_exact_interval_of_a_poisson_rate():
    # Garwood's limits for 3 events: 0.6187 and 8.7673; for none: 0 and 3.6889.
    assert alarms_per_hour(3, 3600) == pytest.approx((3, 0.6187, 8.7673), abs=1e-4)
    assert alarms_per_hour(0, 1800) == pytest.approx((0, 0, 2 * 3.6889), abs=1e-3)
    with pytest.raises(ValueError, match="audio of positive duration, not 0 s"):
        alarms_per_hour(0, 0)
    with pytest.raises(ValueError, match="positive duration, not nan s"):
        alarms_per_hour(0, math.nan)


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 0.0},
        {"threshold": 1.0},
        {"threshold": math.nan},
        {"refractory_s": -1.0},
        {"refractory_s": math.nan},
        {"refractory_s": math.inf},
    ],
)
def test_parameters_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        spotter(**options)


def test_a_pooling_other_than_the_mean_is_refused():
    tokens = SpeechTokens(8, mels=11, stride=4)
    network = SpeechClassifier(
        4, tokens, pooling="self_attentive", encoder={"depth": 1, "heads": 2, "left": 3, "right": 1}
    ).eval()
    with pytest.raises(ValueError, match="SelfAttentivePooling can't be streamed"):
        WordSpotter(Model(network, LABELS, {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {}))
