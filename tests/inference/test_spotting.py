"""Keyword spotting: which words are detected when, and the rate of false alarms."""

import pytest
import torch

from vitspeech.checkpoint.model import Model
from vitspeech.decoding.keywords import KeywordDecoder, SpottingSettings
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.spotting import WordSpotter, alarms_per_hour
from vitspeech.models import SpeechClassifier

LABELS = ["go", "stop", "unknown", "silence"]
HOP = 0.04  # seconds between rows
WINDOW = 23  # rows per clip of one second


def model():
    torch.manual_seed(0)
    network = SpeechClassifier(
        4, SpeechFrontend(8, mels=11, stride=4), encoder={"depth": 1, "heads": 2, "left": 3, "right": 1}
    ).eval()
    return Model(network, LABELS, {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {})


def decided_model():
    """A model whose logits are large and centered on those of tones."""
    released = model()
    with torch.no_grad():
        logits = released.network.forward_frames(tones()[None])[0]
        released.network.head.bias.sub_(logits.mean(0))
        for parameter in (released.network.head.weight, released.network.head.bias):
            parameter.mul_(5 / logits.std(0).mean())
    return released


def tones():
    """Tones of half a second of random frequencies: (N,)."""
    frequency = torch.rand(12, generator=torch.Generator().manual_seed(2)).repeat_interleave(8000)
    return 0.1 * (frequency.cumsum(0)).sin()


def words(released, parts, **options):
    return list(WordSpotter(released, SpottingSettings(**options)).words(parts))


def test_detections_are_those_of_the_decoder_with_the_times_of_the_audio():
    released, audio = decided_model(), tones()
    found = words(released, audio.split(1600), thresholds=0.0)
    with torch.no_grad():
        logits = released.network.forward_frames(audio[None])[0]
    # A token takes 0.085 s and waits for one hop of look-ahead; the first one lasts one hop around its center.
    times = {"hop_s": HOP, "first_s": (0.085 - HOP) / 2, "latency_s": 0.085 + HOP, "clip_tokens": WINDOW}
    decoder = KeywordDecoder(LABELS, SpottingSettings(thresholds=0.0), **times)
    expected = [*decoder.push(logits), *decoder.flush()]
    assert len(found) == len(expected) and len({one.label for one in found}) == 2
    for one, other in zip(found, expected, strict=True):
        assert (one.label, one.start_s, one.end_s) == (other.label, *map(pytest.approx, (other.start_s, other.end_s)))
        assert one.probability == pytest.approx(other.probability, abs=1e-4)
        assert one.decided_s == pytest.approx(min(other.decided_s, len(audio) / 16_000))


def test_the_delay_is_that_of_the_stream_and_the_pause_and_half_of_the_smoothing():
    tested = WordSpotter(model())
    assert tested.latency_samples == tested.stream.latency_samples + round((0.08 + 0.04) * 16_000)


def test_a_clip_of_one_second_has_the_networks_own_probability():
    released = model()
    with torch.no_grad():
        released.network.head.bias.copy_(torch.tensor([3.0, 0.0, 0.0, 0.0]))
    clip = 0.1 * torch.randn(16_000)
    found = words(released, clip.split(1600), thresholds=0.5)
    with torch.no_grad():
        expected = released.network(clip[None]).softmax(-1)[0]
    assert len(found) == 1 and found[0].label == LABELS[expected.argmax()]
    assert found[0].probability == pytest.approx(expected.max().item(), abs=1e-5)
    assert found[0].start_s == pytest.approx((0.085 - HOP) / 2)


@pytest.mark.parametrize("samples", [6_000, 40_000])
def test_a_recording_after_a_flush_is_spotted_like_the_first(samples):
    released = model()
    with torch.no_grad():
        released.network.head.bias.copy_(torch.tensor([3.0, 0.0, 0.0, 0.0]))
    generator = torch.Generator().manual_seed(0)
    parts = (0.1 * torch.randn(samples, generator=generator)).split(1600)
    expected = words(released, parts, thresholds=0.5)
    reused = WordSpotter(released, SpottingSettings(thresholds=0.5))
    for before in (6_000, 50_000):  # shorter and longer than a clip
        assert list(reused.words((0.1 * torch.randn(before, generator=generator)).split(1600)))
        assert list(reused.words(parts)) == expected and expected


def test_false_alarms_have_the_exact_interval_of_a_poisson_rate():
    # Garwood's limits for 3 events: 0.6187 and 8.7673; for none: 0 and 3.6889.
    assert alarms_per_hour(3, 3600) == pytest.approx((3, 0.6187, 8.7673), abs=1e-4)
    assert alarms_per_hour(0, 1800) == pytest.approx((0, 0, 2 * 3.6889), abs=1e-3)


def test_a_pooling_other_than_the_mean_is_refused():
    tokens = SpeechFrontend(8, mels=11, stride=4)
    network = SpeechClassifier(
        4, tokens, pooling="self_attentive", encoder={"depth": 1, "heads": 2, "left": 3, "right": 1}
    ).eval()
    with pytest.raises(ValueError, match="SelfAttentivePooling can't be streamed"):
        WordSpotter(Model(network, LABELS, {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {}))
