"""What training utterances have beyond the protocol of the test: other noise, speed and loudness.

Shapes: B batch, N samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from vitspeech.data.utterances.composition import Speech


@dataclass(frozen=True)
class SequenceAugment:
    """Random changes that leave what was said true; each utterance has its own draws.

    Args:
        snr_db: Range of the words' energy over the noise's, in decibels, in place of the protocol's.
        speed: Spoken faster or slower by up to this share; the pitch follows.
        gain_db: Made louder or softer by up to this many decibels.

    Raises:
        ValueError: If a number is out of its range.
    """

    snr_db: tuple[float, float] = (0.0, 30.0)
    speed: float = 0.15
    gain_db: float = 6.0

    def __post_init__(self) -> None:
        check_range("snr_db", self.snr_db)
        if not 0 <= self.speed < 1 or self.gain_db < 0:
            raise ValueError(f"speed={self.speed} or gain_db={self.gain_db} is negative or too large")

    def __call__(self, speech: Speech) -> Speech:
        """Floats in, floats out, with lengths and spans as they have become; drawn from torch's generator."""
        waveforms, lengths, units, spans = speech
        rows = (len(lengths), 1)
        if self.speed:
            speeds = 1 - self.speed + 2 * self.speed * torch.rand(rows)
            sounds = [row[:length] for row, length in zip(waveforms, lengths.tolist(), strict=True)]
            sounds = [faster(sound, speed) for sound, speed in zip(sounds, speeds[:, 0].tolist(), strict=True)]
            waveforms = pad_sequence(sounds, batch_first=True)
            lengths = lengths.new_tensor([len(sound) for sound in sounds])
            spans = (spans / speeds[..., None].to(spans.device)).long()
        gain_db = self.gain_db * (2 * torch.rand(rows, device=waveforms.device) - 1)
        return Speech(waveforms * 10 ** (gain_db / 20), lengths, units, spans)


def faster(sound: Tensor, speed: float) -> Tensor:
    """A sound read faster from its beginning on, between samples by cubic interpolation: (N,) -> (N / speed,).

    Each by itself: on CPU a batch at once, padding and all, took eleven times as long.
    """
    last = len(sound) - 1
    place = torch.arange(round(len(sound) / speed), device=sound.device) * (2 * speed / last) - 1
    grid = torch.stack((place, torch.zeros_like(place)), dim=-1)[None, None]
    return F.grid_sample(sound[None, None, None], grid, mode="bicubic", align_corners=True)[0, 0, 0]


def check_range(name: str, ends: Sequence[float]) -> None:
    """Refuse a range whose low end is above its high one.

    Raises:
        ValueError: If it is.
    """
    if len(ends) != 2 or ends[0] > ends[1]:
        raise ValueError(f"{name}={list(ends)} is no range from low to high")
