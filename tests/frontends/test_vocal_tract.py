"""Vocal-tract length perturbation against the paper's formula, on frames whose values are their frequencies.

Shapes: B = 50 utterances, F = 7 frames, M = 40 mel bins.
"""

import pytest
import torch
from torch.testing import assert_close

from vitspeech.errors import InputError
from vitspeech.frontends import LogMel, SpeechFrontend
from vitspeech.frontends.augment import VocalTractPerturbation

CENTERS = LogMel(40).centers_hz.float()


def by_hand(frequency, factor, limit=8000.0, formant=4800.0):
    """G(f) of Jaitly and Hinton 2013, sec. 3.1."""
    low = min(factor, 1.0)
    if frequency <= formant * low / factor:
        return frequency * factor
    return limit - (limit - formant * low) / (limit - formant * low / factor) * (limit - frequency)


@pytest.mark.parametrize("factor", [0.8, 0.93, 1.0, 1.1, 1.25])
def test_bins_take_the_energy_of_the_warped_frequency(factor):
    places = VocalTractPerturbation(0.5, CENTERS, 16_000).places(torch.tensor([[factor]]))[0]
    source = torch.lerp(CENTERS[places.long()], CENTERS[(places.long() + 1).clamp(max=39)], places - places.long())
    expected = torch.tensor([by_hand(float(center), factor) for center in CENTERS]).clamp(CENTERS[0], CENTERS[-1])
    assert_close(source, expected, atol=0.5, rtol=1e-4)


def test_frames_of_an_utterance_are_warped_alike_and_utterances_differently():
    torch.manual_seed(0)
    frames = CENTERS.log().expand(50, 7, 40)  # each bin says its frequency
    warped = VocalTractPerturbation(0.2, CENTERS, 16_000).train()(frames)
    assert warped.shape == frames.shape and torch.equal(warped[:, 0], warped[:, 6])
    factors = (warped - frames).exp()[:, 0, 10]
    assert len(factors.unique()) == 50 and 0.79 < factors.min() < 0.85 and 1.15 < factors.max() < 1.21


@pytest.mark.parametrize("reach, training", [(0.0, True), (0.2, False)])
def test_nothing_is_warped_without_reach_or_in_evaluation(reach, training):
    frames = torch.randn(5, 7, 40)
    assert VocalTractPerturbation(reach, CENTERS, 16_000).train(training)(frames) is frames


def test_tokens_are_warped_in_training_alone():
    torch.manual_seed(0)
    tokens, waveforms = SpeechFrontend(16, mels=40, vocal_tract=0.2), 0.1 * torch.randn(3, 16_000)
    plain = SpeechFrontend(16, mels=40)
    plain.load_state_dict(tokens.state_dict())  # it adds no weights
    assert torch.equal(tokens.eval()(waveforms), plain.eval()(waveforms))
    assert not torch.allclose(tokens.train()(waveforms), plain.train()(waveforms))


@pytest.mark.filterwarnings("ignore:.* contain no FFT bin")
@pytest.mark.parametrize("mels", [1, 128])
def test_filters_without_a_center_are_refused(mels):
    with pytest.raises(InputError, match=f"mels={mels}"):
        SpeechFrontend(32, mels=mels, vocal_tract=0.1)
    SpeechFrontend(32, mels=mels)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_half_the_sample_rate_stays_at_other_rates(factor):
    centers = torch.linspace(100, 4000, 40)
    places = VocalTractPerturbation(0.1, centers, 8_000).places(torch.tensor([[factor]]))[0]
    source = 100 + places * 100
    expected = torch.tensor([by_hand(float(center), factor, 4000.0, 2400.0) for center in centers]).clamp(min=100)
    assert_close(source, expected, atol=0.5, rtol=1e-4)
    assert places[-1] == 39
