"""Augmentation of clips: time shift, speed, echoes of a random room, background noise and gain.

Shapes: B batch, N samples of a clip, A samples of background noise, R samples of a room's response.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.data.clips.noise import household, rms, stretches, synthesize, uniform
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


DIRECT_DB = (0.0, 20.0)  # energy of the direct sound over that of the echoes: across a room, and at the microphone
FIRST_ECHO_S = 0.002  # after the direct sound: a wall about 35 cm away


def reverberate(waveforms: Tensor, prob: float, decay_s: tuple[float, float], sample_rate_hz: int) -> Tensor:
    """Put each waveform into a random room with a probability: (B, N) -> (B, N).

    The echoes are white noise that decays exponentially, the statistical model of Polack 1988. Random numbers come from
    torch's global generator, drawn on the CPU. `decay_s` is the range of the reverberation time, in which the echoes
    decay by 60 dB. Waveforms are cut where they ended, so padding at the end gets the last echoes.
    """
    chosen = (torch.rand(len(waveforms)) < prob).nonzero()[:, 0].to(waveforms.device)
    if not len(chosen):
        return waveforms
    responses = room_responses(len(chosen), decay_s, sample_rate_hz).to(waveforms)
    reverberant = waveforms.clone()
    reverberant[chosen] = convolved(waveforms[chosen], responses)
    return reverberant


def convolved(waveforms: Tensor, responses: Tensor) -> Tensor:
    """Each waveform convolved with its response, cut where the waveform ends: (B, N), (B, R) -> (B, N)."""
    length = transform_length(waveforms.shape[1] + responses.shape[1] - 1)
    spectrum = torch.fft.rfft(waveforms, length) * torch.fft.rfft(responses, length)
    return torch.fft.irfft(spectrum, length)[:, : waveforms.shape[1]]


def transform_length(samples: int) -> int:
    """The next k · 2ⁿ with k up to 16, at most an eighth longer than `samples`, for a fast Fourier transform.

    One of 25,599 = 3 · 7 · 23 · 53 samples takes four times as long as one of 13 · 2,048.
    """
    power = 2 ** max(samples.bit_length() - 4, 0)
    return -(-samples // power) * power


def room_responses(count: int, decay_s: tuple[float, float], sample_rate_hz: int) -> Tensor:
    """Random responses, which begin with the direct sound and have the energy 1: -> (B, R)."""

    def drawn(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1)

    samples = max(round(decay_s[1] * sample_rate_hz), 2)
    seconds = torch.arange(samples) / sample_rate_hz
    echoes = torch.randn(count, samples) * 10 ** (-3 * seconds / drawn(*decay_s)) * (seconds >= FIRST_ECHO_S)
    energy = echoes.square().sum(1, keepdim=True).clamp(min=1e-9)
    echoes = echoes * (10 ** (-drawn(*DIRECT_DB) / 10) / energy).sqrt()
    echoes[:, 0] = 1
    return echoes / echoes.square().sum(1, keepdim=True).sqrt()
