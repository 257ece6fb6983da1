"""Noise for training: random stretches of recordings, and synthesized noise of many kinds.

Shapes: B clips, N samples of a clip, A samples of recorded noise.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

QUIETEST = 1e-4  # lower bound of the root mean square of clips and noise, 3 steps of 16 bits: below it is silence
LOWEST_HZ = 50.0  # octaves of the filter are counted from here


def uniform(waveforms: Tensor, low: float, high: float) -> Tensor:
    """One uniform random number per clip: (B, 1)."""
    return low + (high - low) * torch.rand(len(waveforms), 1, device=waveforms.device)


def stretches(noise: Tensor, count: int, samples: int) -> Tensor:
    """Random stretches of recorded noise, int16 (A,), as floats within ±1: (B, N)."""
    start = torch.randint(0, len(noise) - samples + 1, (count,), device=noise.device)
    return noise.unfold(0, samples, 1)[start] / 32768


def synthesize(count: int, voices: Tensor, sample_rate_hz: int) -> Tensor:
    """Synthesize noise with random numbers from torch's global generator.

    Each clip has a source of its own (hiss, hum with its harmonics, crackle, babble, or a mixture), which is filtered
    at random (tilted from white to brown, uneven, limited to a band) and fluctuates at random. Babble overlays
    clips of `voices` (V, N), reversed.

    Returns:
        Clips of root mean square 1, (B, N).
    """
    samples, device = voices.shape[1], voices.device
    hiss = torch.randn(count, samples, device=device)
    time_s = torch.arange(samples, device=device) / sample_rate_hz
    hum_hz = 40 * 10 ** uniform(hiss, 0, 1)
    chirp = torch.cat((hum_hz, hum_hz * uniform(hiss, -0.1, 0.1)), 1)
    hum = (chirp @ torch.stack((time_s, time_s.square()))).frac() - 0.5
    crackle = hiss * (hiss.abs() > uniform(hiss, 2.3, 3.8))  # from 300 to 3 clicks per second
    voices = (voices[:8] / rms(voices[:8])).flip(1)
    voices = torch.cat((voices, voices.roll(samples // 2, 1)))
    babble = torch.randint(2, (count, len(voices)), device=device).to(voices) @ voices

    def share(probability: float) -> Tensor:
        """The amplitude of a source in each clip, from -20 to 0 dB, or 0: (B, 1)."""
        return (uniform(hiss, 0, 1) < probability) * 10 ** uniform(hiss, -1, 0)

    source = (share(0.7) + 0.01) * hiss
    for other in (hum, crackle, babble):
        source = source + share(0.25) / rms(other) * other
    spectrum = torch.fft.rfft(source) * filters(hiss, sample_rate_hz)
    level_db = fluctuation(hiss, 4) + fluctuation(hiss, 32)
    waveforms = torch.fft.irfft(spectrum, samples) * resampled(decibels(level_db), samples)
    return waveforms / rms(waveforms)


def filters(waveforms: Tensor, sample_rate_hz: int) -> Tensor:
    """A random filter for each clip (B, N): its response at each frequency of the spectrum, complex (B, N // 2 + 1).

    It has a smooth part in decibels, and one resonance, narrow or wide, which turns hiss into a tone and a
    click into a knock.
    """
    samples = waveforms.shape[1]
    frequency_hz = torch.fft.rfftfreq(samples, 1 / sample_rate_hz, device=waveforms.device)
    octave = (frequency_hz / LOWEST_HZ).clamp(min=1).log2()
    octaves = math.log2(max(samples // 2 / samples * sample_rate_hz / LOWEST_HZ, 1))
    points = torch.arange(octaves + 1, device=waveforms.device)
    low = uniform(waveforms, -5, 5)
    high = low.relu() + uniform(waveforms, 1, 9)
    gain_db = points * uniform(waveforms, -6, 2) + 6 * torch.randn(len(waveforms), len(points), device=points.device)
    gain_db = gain_db - 24 * ((low - points).relu() + (points - high).relu())
    interpolation = (1 - (octave - points[:, None]).abs()).relu() * (frequency_hz > 0)
    center_hz, width_hz = 100 * 50 ** uniform(waveforms, 0, 1), 2 * 50 ** uniform(waveforms, 0, 1)
    height = 10 ** uniform(waveforms, -2, 2).relu()  # up to 40 dB, in every second clip
    resonance = 1 + (height - 1) / torch.complex(torch.ones_like(octave), (frequency_hz - center_hz) / width_hz)
    return decibels(gain_db) @ interpolation * resonance


def fluctuation(waveforms: Tensor, points: int) -> Tensor:
    """A random course of each clip's level through some points, of random depth up to 10 dB: (B, 32)."""
    level_db = torch.randn(len(waveforms), points, device=waveforms.device) * uniform(waveforms, -10, 10).relu()
    return resampled(level_db, 32)


def resampled(rows: Tensor, count: int) -> Tensor:
    """Interpolate rows linearly to `count` points: (B, count)."""
    return F.interpolate(rows[:, None], count, mode="linear", align_corners=True)[:, 0]


def decibels(level_db: Tensor) -> Tensor:
    """The amplitude ratio of a level in decibels."""
    return (level_db * (math.log2(10) / 20)).exp2()


def at_level(waveforms: Tensor, dbfs: Tensor) -> Tensor:
    """Scale clips (B, N) to levels (B, 1): root mean square in decibels below full scale, which is ±1."""
    return waveforms * (decibels(dbfs) / rms(waveforms))


def rms(waveforms: Tensor) -> Tensor:
    """The root mean square of each clip, at least `QUIETEST`: (B, 1)."""
    return (torch.linalg.vector_norm(waveforms, dim=1, keepdim=True) / waveforms.shape[1] ** 0.5).clamp(min=QUIETEST)


def pink_noise(samples: int) -> Tensor:
    """Pink noise ten times as long as a clip of `samples`, int16: the background noise if a data set has none."""
    generator = torch.Generator().manual_seed(20_261_121)
    spectrum = torch.fft.rfft(torch.randn(10 * samples, generator=generator))
    pink = torch.fft.irfft(spectrum / torch.arange(1, len(spectrum) + 1).sqrt(), 10 * samples)
    return (pink / pink.abs().max() * 32767).round().to(torch.int16)
