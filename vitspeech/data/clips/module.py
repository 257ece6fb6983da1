"""Waveforms in memory: int16 samples to floats within ±1, and their augmentation.

Shapes: B batch, N samples of a clip, A samples of background noise.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.batches import InMemoryData


@dataclass
class WaveformAugment:
    """Random changes that leave a clip's word true; each clip has its own draws, from torch's global generator.

    Without them larger attention models get worse on Speech Commands, not better (Berg et al. 2021, arXiv:2104.00769).

    Args:
        shift_ms: Moved in time by up to this much each way.
        speed: Spoken faster or slower by up to this share; the pitch follows.
        noise_share: How many of the clips get background noise.
        noise_snr_db: Range of the word's energy over the noise's, in decibels.
        gain_db: Made louder or softer by up to this many decibels.

    Raises:
        ValueError: If a number is out of its range.
    """

    shift_ms: float = 100.0
    speed: float = 0.15
    noise_share: float = 0.8
    noise_snr_db: tuple[float, float] = (0.0, 30.0)
    gain_db: float = 6.0

    def __post_init__(self) -> None:
        if self.shift_ms < 0 or not 0 <= self.speed < 1 or not 0 <= self.noise_share <= 1 or self.gain_db < 0:
            raise ValueError(f"{self} has a number that is negative or too large")
        if self.noise_snr_db[0] > self.noise_snr_db[1]:
            raise ValueError(f"noise_snr_db={list(self.noise_snr_db)} is no range from low to high")

    def __call__(self, waveforms: Tensor, noise: Tensor, sample_rate_hz: int) -> Tensor:
        """Floats (B, N) and background noise (A,) -> (B, N)."""
        if self.shift_ms or self.speed:
            waveforms = moved(waveforms, round(self.shift_ms * sample_rate_hz / 1000), self.speed)
        if self.noise_share:
            waveforms = waveforms + self.background(waveforms, noise)
        return waveforms * 10 ** (uniform(waveforms, -self.gain_db, self.gain_db) / 20)

    def background(self, waveforms: Tensor, noise: Tensor) -> Tensor:
        """A stretch of the noise for each clip, at its drawn ratio to the clip's own energy."""
        count, samples = waveforms.shape
        start = torch.randint(0, len(noise) - samples + 1, (count,), device=noise.device)
        stretch = noise.unfold(0, samples, 1)[start].to(waveforms) / 32768
        ratio = 10 ** (-uniform(waveforms, *self.noise_snr_db) / 20)
        level = waveforms.square().mean(1, keepdim=True).sqrt().clamp(min=QUIETEST)
        loudness = stretch.square().mean(1, keepdim=True).sqrt().clamp(min=QUIETEST)
        chosen = torch.rand(count, 1, device=waveforms.device) < self.noise_share
        return stretch * (level / loudness * ratio * chosen)


QUIETEST = 1e-4  # root mean square below which a clip or a stretch of noise counts as silent: 3 steps of 16 bits


def uniform(waveforms: Tensor, low: float, high: float) -> Tensor:
    """One number for each clip: (B, 1)."""
    return low + (high - low) * torch.rand(len(waveforms), 1, device=waveforms.device)


def moved(waveforms: Tensor, shift: int, speed: float) -> Tensor:
    """Each clip shifted by its draw of up to `shift` samples and read faster or slower around its middle.

    Read between samples by cubic interpolation; outside of the clip is silence.
    """
    last = waveforms.shape[1] - 1
    # A clip as a picture of one row, whose places run from -1 to 1.
    place = torch.linspace(-1, 1, last + 1, device=waveforms.device) * (1 + uniform(waveforms, -speed, speed))
    place = place + uniform(waveforms, -shift, shift) * 2 / last
    grid = torch.stack((place, torch.zeros_like(place)), dim=-1)[:, None]
    return F.grid_sample(waveforms[:, None, None], grid, mode="bicubic", align_corners=True)[:, 0, 0]


class WaveformData(InMemoryData):
    """A set of clips of one length: a subclass sets `labels` and implements `read` (int16 (N,) a clip).

    Args:
        seconds: Length of a clip.
        batch: Clips a training batch, on each device.
        augment: What happens to training clips; `None` is `WaveformAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If `batch` is below 1 or a clip shorter than 0.1 s.
    """

    items = "clips"
    sample_rate_hz = SAMPLE_RATE_HZ

    def __init__(self, *, seconds: float, batch: int, augment: WaveformAugment | None, seed: int) -> None:
        super().__init__(batch=batch, seed=seed)
        if seconds < 0.1:
            raise ValueError(f"seconds={seconds} is below 0.1")
        self.seconds, self.samples = seconds, round(seconds * self.sample_rate_hz)
        self.augment = WaveformAugment() if augment is None else augment
        self.noise = hiss(self.samples)

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"sample_rate_hz": self.sample_rate_hz, "seconds": self.seconds}

    def augmented(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        noise = self.noise.to(inputs.device)
        # On CPU a few clips at a time stay in the cache: twice as fast as the whole batch.
        slices = inputs.split(16 if inputs.device.type == "cpu" else len(inputs))
        return torch.cat([self.augment(self.normalized(some), noise, self.sample_rate_hz) for some in slices]), labels

    def normalized(self, inputs: Tensor) -> Tensor:
        """int16 samples (B, N) -> floats within ±1."""
        return inputs / 32768


def hiss(samples: int) -> Tensor:
    """Ten clips' length of pink noise, int16: the background of a set that brings none."""
    generator = torch.Generator().manual_seed(20_261_121)
    spectrum = torch.fft.rfft(torch.randn(10 * samples, generator=generator))
    pink = torch.fft.irfft(spectrum / torch.arange(1, len(spectrum) + 1).sqrt(), 10 * samples)
    return (pink / pink.abs().max() * 32767).round().to(torch.int16)
