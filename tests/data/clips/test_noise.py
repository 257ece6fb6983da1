"""Synthesized noise: its level, its kinds, and where its random numbers come from.

Shapes: B = 200 clips, N = 4000 samples at 16 kHz.
"""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from vitspeech.data.clips.noise import rms, synthesize

BATCH, SAMPLES, RATE_HZ = 200, 4000, 16_000
VOICES = torch.randn(3, SAMPLES, generator=torch.Generator().manual_seed(0))


def made(seed=0, voices=VOICES, count=BATCH):
    torch.manual_seed(seed)
    return synthesize(count, voices, RATE_HZ)


def octave_levels(waveforms):
    """The power of each clip in the octaves from 125 Hz to 8 kHz, in decibels: (B, 6)."""
    power = torch.fft.rfft(waveforms).abs().square()
    edges = [125 * 2**octave * SAMPLES // RATE_HZ for octave in range(7)]
    return torch.stack([10 * power[:, low:high].mean(1).log10() for low, high in pairwise(edges)], 1)


def test_every_clip_has_a_root_mean_square_of_1_and_its_own_noise():
    noise = made()
    assert_close(rms(noise), torch.ones(BATCH, 1))
    assert len(noise.unique(dim=0)) == BATCH


def test_spectra_are_white_to_brown_and_limited_to_bands():
    octaves = octave_levels(made())
    tilt_db = (octaves[:, -1] - octaves[:, 0]) / 5
    assert (tilt_db.abs() < 1).any() and (tilt_db < -5).any() and (tilt_db > 1).any()
    peak = octaves.argmax(1)
    assert {0, 1, 2, 3, 4} <= set(peak.tolist())


def test_some_noise_is_steady_and_some_fluctuates():
    frames = made().unfold(1, 400, 400).square().mean(2)
    spread_db = 10 * (frames.amax(1) / frames.amin(1)).log10()
    assert spread_db.min() < 4 and spread_db.max() > 15


def test_some_noise_is_a_hum_and_some_crackles():
    noise = made(count=400)
    spectrum = torch.fft.rfft(noise).abs().square()
    assert (spectrum.amax(1) / spectrum.sum(1) > 0.3).sum() >= 3  # most of its power is in one line
    crest = noise.abs().amax(1)
    assert (crest > 15).sum() >= 3 and (crest < 4).sum() >= 3


def test_some_noise_is_babble_of_the_voices_reversed():
    noise, (other,) = made(), made(voices=VOICES.roll(1, 1), count=BATCH)[None]
    changed = ~torch.isclose(noise, other, atol=1e-3).all(1)
    assert 0.15 < changed.float().mean() < 0.35  # a quarter of the clips hear them
    assert made(voices=VOICES[:1]).isfinite().all()


@pytest.mark.parametrize("voices", [torch.zeros(3, SAMPLES), torch.randn(20, 1601)], ids=["silent", "many"])
def test_it_is_finite_whatever_the_voices(voices):
    noise = made(voices=voices)
    assert noise.isfinite().all() and noise.shape == (BATCH, voices.shape[1])
