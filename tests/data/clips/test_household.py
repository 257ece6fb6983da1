"""Synthesized household sounds: each kind in time and frequency, and where the random numbers come from.

Shapes: B = 64 clips, N = 16,000 samples at 16 kHz.
"""

import math

import torch
from torch.testing import assert_close

from vitspeech.data.clips.noise import chimes, decaying, household, knocks, motors, rms, tones

BATCH, SAMPLES, RATE_HZ = 64, 16_000, 16_000


def made(draw, seed=0):
    torch.manual_seed(seed)
    sounds = draw(torch.empty(BATCH, SAMPLES), RATE_HZ)
    return sounds / rms(sounds)


def crest(sounds):
    return sounds.abs().amax(1)


def tonality(sounds):
    """The share of the ten strongest of 8,001 frequencies in the power of each clip: (B,)."""
    power = torch.fft.rfft(sounds).abs().square()
    return power.topk(10).values.sum(1) / power.sum(1)


def pitch_hz(sounds):
    """The strongest frequency of each stretch of 50 ms: (B, 20)."""
    return torch.fft.rfft(sounds.unfold(1, 800, 800) * torch.hann_window(800)).abs().argmax(2) * 20.0


def levels_db(sounds):
    """The level of each stretch of 25 ms relative to the loudest: (B, 40)."""
    power = sounds.unfold(1, 400, 400).square().mean(2)
    return 10 * (power / power.amax(1, keepdim=True)).clamp(min=1e-10).log10()


def test_household_sounds_are_all_kinds_at_a_root_mean_square_of_1():
    torch.manual_seed(0)
    sounds = household(BATCH, SAMPLES, RATE_HZ)
    assert sounds.isfinite().all() and len(sounds.unique(dim=0)) == BATCH
    assert_close(rms(sounds), torch.ones(BATCH, 1))
    assert (crest(sounds) > 15).sum() > 5 and (crest(sounds) < 3).sum() > 5  # knocks, and steady tones or motors
    torch.manual_seed(0)
    assert torch.equal(sounds, household(BATCH, SAMPLES, RATE_HZ))


def test_knocks_are_short_and_decay():
    levels = levels_db(made(knocks))
    assert (crest(made(knocks)) > 8).float().mean() > 0.8
    assert ((levels < -40).float().mean(1) > 0.3).float().mean() > 0.4  # silence between them
    rises, falls = levels.diff(dim=1).amax(1), -levels.diff(dim=1).amin(1)
    assert (rises > falls).float().mean() > 0.8
    # Onsets, counted as rises of 20 dB to within 20 dB of the loudest: one, or several.
    onsets = ((levels[:, 1:] > -20) & (levels.diff(dim=1) > 20)).sum(1)
    assert {1, 2, 3, 4} <= set(onsets.tolist())


def test_tones_are_constant_or_sweep_over_octaves_and_some_pause():
    sounds = made(tones)
    loud = levels_db(sounds).unfold(1, 2, 2).amin(2) > -20
    octaves = pitch_hz(sounds).clamp(min=20).log2().where(loud, torch.nan)
    swept = octaves.nan_to_num(-math.inf).amax(1) - octaves.nan_to_num(math.inf).amin(1)
    assert (swept < 0.05).sum() > 5 and (swept > 0.5).sum() > 10
    assert (tonality(sounds) > 0.5).sum() > 10
    pauses = (levels_db(sounds) < -25).any(1)
    assert 10 < pauses.sum() < 50


def test_chimes_are_a_few_lines_that_decay():
    sounds = made(chimes)
    assert tonality(sounds).median() > 0.5
    early, late = sounds[:, :8000].square().sum(1), sounds[:, 8000:].square().sum(1)
    assert (early > 3 * late).sum() > 15 and (late > early / 2).sum() > 5


def test_motors_have_a_rate_between_15_and_500_a_second():
    sounds = made(motors)
    assert (levels_db(sounds) > -20).all(1).float().mean() > 0.8  # no pauses
    envelope = sounds.abs() - sounds.abs().mean(1, keepdim=True)
    spectrum = torch.fft.rfft(envelope).abs().square()[:, :600]
    rate_hz = 5 + spectrum[:, 5:].argmax(1)
    is_clear = spectrum[:, 5:].amax(1) > 10 * spectrum[:, 5:].mean(1)
    assert is_clear.sum() > 30
    assert rate_hz[is_clear].min() < 40 and rate_hz[is_clear].max() > 150


def test_decaying_sines_are_those_of_the_formula():
    frequency_hz, decay_s, level = (
        torch.tensor([[440.0, 1000.0]]),
        torch.tensor([[0.1, 0.02]]),
        torch.tensor([[1, -0.5]]),
    )
    time_s = torch.arange(SAMPLES) / RATE_HZ
    expected = (-time_s / 0.1).exp() * (2 * math.pi * 440 * time_s).sin()
    expected[384:] -= 0.5 * ((-time_s / 0.02).exp() * (2 * math.pi * 1000 * time_s).sin())[:-384]
    found = decaying(frequency_hz, decay_s, level, SAMPLES, RATE_HZ, onset=torch.tensor([[0, 3]]))
    assert_close(found[0], expected, atol=1e-4, rtol=0)
    cosine = decaying(torch.zeros(1, 1), torch.full((1, 1), 0.1), torch.ones(1, 1), SAMPLES, RATE_HZ, phase=0.25)
    assert_close(cosine[0], (-time_s / 0.1).exp(), atol=1e-4, rtol=0)
