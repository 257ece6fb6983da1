"""Responses of rooms: the echoes of a voice in a random room.

Shapes: B batch, N samples, R samples of a response.
"""

import torch
from torch import Tensor

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
