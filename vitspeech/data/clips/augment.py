"""Augmentation of clips: time shift, speed, background noise and gain.

Shapes: B batch, N samples of a clip, A samples of background noise.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.data.clips.noise import household, rms, stretches, synthesize, uniform
from vitspeech.data.clips.rooms import reverberate
from vitspeech.errors import check_number


@dataclass
class WaveformAugment:
    """Random changes to training clips that preserve their label.

    Each clip gets its own random numbers, from torch's global generator. Without augmentation, larger attention models
    lose accuracy on Speech Commands (Berg et al. 2021, arXiv:2104.00769).

    Args:
        shift_ms: Largest shift in time, in either direction.
        speed: Largest relative change of speed, faster or slower; the pitch changes with it.
        noise_prob: Probability that a clip gets background noise.
        noise_snr_db: Range of the signal-to-noise ratio, in decibels.
        gain_db: Largest change of loudness, in either direction, in decibels.
        synthetic: Share of the noises that are synthesized (`synthesize`) and not stretches of the data set's noise.
        household: Share of the synthesized noises that are household sounds (`household`): knocks, sirens, chimes and
            motors.
        room_prob: Probability that a clip is put into a random room (`reverberate`), before the noise.
        room_s: Range of the reverberation time of rooms, in seconds.
    """

    shift_ms: float = 100.0
    speed: float = 0.15
    noise_prob: float = 0.8
    noise_snr_db: tuple[float, float] = (0.0, 30.0)
    gain_db: float = 6.0
    synthetic: float = 0.5
    household: float = 0.0
    room_prob: float = 0.0
    room_s: tuple[float, float] = (0.1, 0.6)

    def __post_init__(self) -> None:
        most = {"shift_ms": 60_000, "speed": 0.9, "gain_db": 100, "noise_prob": 1, "synthetic": 1, "household": 1}
        for name, high in {**most, "room_prob": 1}.items():
            check_number(name, getattr(self, name), 0, high)
        check_number("noise_snr_db", self.noise_snr_db)
        check_number("room_s", self.room_s, 0.01, 10)

    def __call__(self, waveforms: Tensor, noise: Tensor, sample_rate_hz: int) -> Tensor:
        """Augment float clips (B, N) with background noise, int16 (A,): -> (B, N)."""
        if self.shift_ms or self.speed:
            waveforms = shift_and_resample(waveforms, round(self.shift_ms * sample_rate_hz / 1000), self.speed)
        if self.room_prob:
            waveforms = reverberate(waveforms, self.room_prob, self.room_s, sample_rate_hz)
        if self.noise_prob:
            waveforms = waveforms + self.background_noise(waveforms, noise, sample_rate_hz)
        return waveforms * 10 ** (uniform(waveforms, -self.gain_db, self.gain_db) / 20)

    def background_noise(self, waveforms: Tensor, noise: Tensor, sample_rate_hz: int) -> Tensor:
        """The noise to add to each clip, at a random signal-to-noise ratio, or zeros: (B, N)."""
        added = self.noise(noise, waveforms, len(waveforms), sample_rate_hz)
        ratio = 10 ** (-uniform(waveforms, *self.noise_snr_db) / 20)
        mask = torch.rand(len(waveforms), 1, device=waveforms.device) < self.noise_prob
        return added * (rms(waveforms) / rms(added) * ratio * mask)

    def noise(self, noise: Tensor, voices: Tensor, count: int, sample_rate_hz: int) -> Tensor:
        """Draw `count` clips of noise of any level: stretches of int16 noise (A,), or synthesized.

        Shape:
            voices: (V, N), clips for babble
            -> (count, N)
        """
        drawn = stretches(noise, count, voices.shape[1]).to(voices)
        synthetic = torch.rand(count, device=voices.device) < self.synthetic
        if self.household:
            sounds = synthetic & (torch.rand(count, device=voices.device) < self.household)
            synthetic = synthetic & ~sounds
            if heard := int(sounds.sum()):
                drawn[sounds] = household(heard, voices.shape[1], sample_rate_hz, voices.device).to(voices)
        if synthesized := int(synthetic.sum()):
            drawn[synthetic] = synthesize(synthesized, voices, sample_rate_hz)
        return drawn


def shift_and_resample(waveforms: Tensor, shift: int, speed: float) -> Tensor:
    """Change each clip's speed around its center by up to `speed`, and shift it by up to `shift` samples.

    Samples are interpolated cubically; outside of the clip there is silence.
    """
    last = waveforms.shape[1] - 1
    position = torch.linspace(-1, 1, last + 1, device=waveforms.device) * (1 + uniform(waveforms, -speed, speed))
    position = position + uniform(waveforms, -shift, shift) * 2 / last
    return interpolated(waveforms, position)


def interpolated(waveforms: Tensor, position: Tensor) -> Tensor:
    """Interpolate waveforms cubically at positions from -1, the first sample, to 1, the last; outside there is silence.

    Shape:
        (B, N), (B, P) -> (B, P)
    """
    grid = position.new_zeros(len(position), 1, position.shape[1], 2)  # each waveform is an image of one row
    grid[:, 0, :, 0] = position  # in place, since to stack positions and zeros takes as long as the interpolation
    return F.grid_sample(waveforms[:, None, None], grid, mode="bicubic", align_corners=True)[:, 0, 0]
