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


def ended(spotter, logits, sizes=(1,)):
    """The detections of logits, and those at the end of the recording."""
    return [*detections(spotter, logits, sizes), *spotter.flush()]


def test_a_word_is_detected_once_with_its_own_times_and_the_probability_of_its_clip():
    found = detections(spotter(), rows(("silence", 50), ("go", 20), ("silence", 50)))
    assert [detection.label for detection in found] == ["go"]
    # A token lasts one hop, in the middle of its samples (0.085 s).
    assert found[0].start_s == pytest.approx(50 * HOP + (0.085 - HOP) / 2)
    assert found[0].end_s - found[0].start_s == pytest.approx(20 * HOP)
    # The clip of 23 rows has 20 of go and 3 of silence: 9 · 20/23 against 9 · 3/23 and 0, 0.
    expected = torch.tensor([9 * 20 / 23, 0, 0, 9 * 3 / 23]).softmax(0)[0].item()
    assert found[0].probability == pytest.approx(expected, abs=1e-6)


def test_a_word_is_detected_as_soon_as_it_has_paused_for_80_ms():
    tested = spotter()
    assert tested.delay_samples == tested.stream.delay_samples + round(0.08 * 16_000)
    assert detections(tested, rows(("silence", 50), ("go", 20), ("silence", 1))) == []
    assert len(detections(tested, rows(("silence", 1)))) == 1


@pytest.mark.parametrize("sizes", [(7,), (1, 30), (0, 2), (500,)])
def test_detections_do_not_depend_on_the_pushes(sizes):
    generator = torch.Generator().manual_seed(0)
    logits = rows(("silence", 30), ("go", 25), ("silence", 3), ("go", 9), ("stop", 12), ("silence", 9), ("stop", 70))
    logits = logits + 2 * torch.randn(logits.shape, generator=generator)
    one, other = ended(spotter(threshold=0.5), logits), ended(spotter(threshold=0.5), logits, sizes)
    assert [detection.label for detection in one] == ["go", "go", "stop", "stop"]
    assert one == other


@pytest.mark.parametrize("pause", [("silence", 2), ("unknown", 2), ("silence", 8), ("stop", 10)])
def test_a_repeated_word_is_detected_twice(pause):
    found = ended(spotter(threshold=0.5), rows(("silence", 30), ("go", 12), pause, ("go", 12), ("silence", 30)))
    words = [detection for detection in found if detection.label == "go"]
    assert len(words) == 2 and words[1].start_s - words[0].end_s == pytest.approx(pause[1] * HOP)
    assert len(found) == 2 + (pause[0] == "stop")


@pytest.mark.parametrize("pause", ["silence", "unknown", "stop"])
def test_a_word_with_a_short_pause_is_detected_once(pause):
    logits = rows(("silence", 30), ("go", 6), (pause, 1), ("go", 9), (pause, 1), ("go", 4), ("silence", 30))
    found = ended(spotter(threshold=0.5), logits)
    assert [(detection.label, round((detection.end_s - detection.start_s) / HOP)) for detection in found] == [
        ("go", 21)
    ]


def test_tokens_of_a_detected_word_do_not_count_in_the_probability_of_the_next():
    def last(*before):
        return ended(spotter(threshold=0.5), rows(*before, ("silence", 3), ("go", 12), ("silence", 30)))[-1]

    assert last(("silence", 30), ("stop", 12)).probability > last(("silence", 42)).probability


def test_unknown_and_silence_are_never_detected():
    assert detections(spotter(), rows(("silence", 60), ("unknown", 60), ("silence", 60))) == []


def test_a_long_word_is_detected_once_when_it_is_as_long_as_a_clip():
    tested = spotter()
    assert detections(tested, rows(("silence", 30), ("go", WINDOW - 1))) == []
    assert len(detections(tested, rows(("go", 1)))) == 1
    assert ended(tested, rows(("go", 200))) == []


def test_no_word_is_detected_within_the_refractory_time():
    logits = rows(("go", 30), ("stop", 30))
    assert [detection.label for detection in ended(spotter(), logits)] == ["go", "stop"]
    assert [detection.label for detection in ended(spotter(refractory_s=5.0), logits)] == ["go"]


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
    assert found[0].start_s == pytest.approx((0.085 - HOP) / 2)


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
