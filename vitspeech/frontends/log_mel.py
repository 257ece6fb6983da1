"""From waveforms to log-mel frames.

Frames do not depend on each other or on the utterance, so the frames of a stream equal those of the full recording.

Shapes: B batch, N samples, F frames, M mel bins, W samples per frame, H hop in samples.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from vitspeech.errors import InputError, check_number

LOWEST_STD = 1.0  # nats, 4.3 dB: lower bound of the standard deviation of a bin
LONGEST = 60  # seconds of a recording at once
SLICE = 8  # seconds of audio at once, so that spectra stay in cache; of 1 to 128 s, 4 to 16 were fastest


class LogMel(nn.Module):
    """log(mel + floor) of the power spectrum of Hann-windowed frames, standardized by mean and std of each bin.

    Davis and Mermelstein 1980 (doi:10.1109/TASSP.1980.1163420) without the cosine transform, with the filters of
    torchaudio (HTK scale). Frame f covers samples f·H .. f·H + W - 1, without padding. Floor, mean and std are those of
    the training set (`fit`), not of the utterance.

    The floor lies `floor_db` below the mean energy of the training set. Without it, bins that are silent in training,
    such as those above 4 kHz of telephone speech, have a std near zero, so that faint noise moves them by many std.

    Args:
        mels: Mel bins M.
        sample_rate_hz: Sample rate.
        window_ms: Length of a frame.
        hop_ms: Time from the start of one frame to the next.
        low_hz: Lower edge of the lowest filter.
        high_hz: Upper edge of the highest filter; at most half the sample rate.
        epsilon: The floor before `fit`, and its least value, for samples within ±1.
        floor_db: Decibels from the mean energy of the training set, over all frames and bins, down to the floor that
            `fit` sets; infinity leaves it at `epsilon`.

    Attributes:
        floor: Added to the energy of each bin (); saved with the weights. Weights saved without it have `epsilon`.
        mean: Mean of each bin, in nats (M,); saved.
        std: Standard deviation of each bin, in nats, at least `LOWEST_STD` after `fit` (M,); saved.

    Shape:
        (B, N) -> (B, F, M) with F = 1 + (N - W) // H; no frame if N is below W

    Warns:
        UserWarning: If filters are so narrow that they contain no FFT bin: their outputs are constant.
    """

    def __init__(
        self,
        mels: int = 80,
        *,
        sample_rate_hz: int = 16_000,
        window_ms: float = 25.0,
        hop_ms: float = 10.0,
        low_hz: float = 20.0,
        high_hz: float = 7600.0,
        epsilon: float = 1e-6,
        floor_db: float = 60.0,
    ) -> None:
        super().__init__()
        check_number("mels", mels, 1)
        check_number("window_ms", window_ms, 0)
        check_number("hop_ms", hop_ms, 1000 / sample_rate_hz, window_ms)
        check_number("epsilon", epsilon, 1e-30)
        if not floor_db > 0:
            raise InputError(f"floor_db={floor_db} is not above 0")
        self.window_samples = round(sample_rate_hz * window_ms / 1000)
        self.hop_samples = round(sample_rate_hz * hop_ms / 1000)
        if not 0 <= low_hz < high_hz <= sample_rate_hz / 2:
            raise InputError(f"low_hz={low_hz} .. high_hz={high_hz} is not within 0 .. {sample_rate_hz / 2}")
        self.mels, self.sample_rate_hz, self.epsilon, self.floor_db = mels, sample_rate_hz, epsilon, floor_db
        # A power of two is fast, and up to 124 mels fine enough that every filter contains an FFT bin.
        self.transform = 2 ** (self.window_samples - 1).bit_length()
        filters = mel_filters(self.transform // 2 + 1, low_hz, high_hz, mels, sample_rate_hz)
        if empty := int((filters == 0).all(0).sum()):
            warnings.warn(
                f"{empty} of {mels} mel filters contain no FFT bin, so their outputs are constant; use fewer "
                "mels or a longer window_ms",
                stacklevel=2,
            )
        # Not part of the state dictionary: they follow from the configuration.
        self.exact = {"window": torch.hann_window(self.window_samples), "filters": filters}
        for name, tensor in self.exact.items():
            self.register_buffer(name, tensor, persistent=False)
        self.register_buffer("floor", torch.tensor(epsilon))
        self.register_buffer("mean", torch.zeros(mels))
        self.register_buffer("std", torch.ones(mels))

    def _apply(self, convert: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(convert, recurse)
        for name, tensor in self.exact.items():  # `to_empty` leaves them without values
            setattr(self, name, tensor.to(getattr(self, name)))
        return self

    def forward(self, waveforms: Tensor) -> Tensor:
        check_samples(waveforms)
        # The energies of speech exceed the range of half precision, which autocast would use for the filters.
        with torch.autocast(waveforms.device.type, enabled=False):
            return self.log_energies(waveforms.to(self.window.dtype)).sub_(self.mean).div_(self.std)

    def log_energies(self, waveforms: Tensor) -> Tensor:
        """log(mel + floor) before standardization: (B, N) -> (B, F, M)."""
        # In place, since on CPU fresh memory costs more than the arithmetic.
        return self.energies(waveforms).add_(self.floor).log_()

    def energies(self, waveforms: Tensor) -> Tensor:
        """The energy of each mel bin in each frame: (B, N) -> (B, F, M)."""
        if waveforms.shape[-1] < self.window_samples:
            return waveforms.new_zeros(len(waveforms), 0, self.mels)
        frames = waveforms.unfold(-1, self.window_samples, self.hop_samples)
        if waveforms.device.type != "cpu" or torch.compiler.is_compiling():  # a traced graph has any batch
            return self.energies_of(frames)
        clips, length = max(SLICE * self.sample_rate_hz // waveforms.shape[-1], 1), LONGEST * self.sample_rate_hz
        if waveforms.shape[-1] > length:
            parts = frames.split(length // self.hop_samples, dim=1)
            return torch.cat([torch.cat([self.energies_of(part) for part in row.split(clips)]) for row in parts], dim=1)
        return torch.cat([self.energies_of(part) for part in frames.split(clips)])

    def energies_of(self, frames: Tensor) -> Tensor:
        """The energies of frames that fit into the cache together: (B, F, W) -> (B, F, M)."""
        lines = torch.fft.rfft(frames * self.window, self.transform)
        return torch.addcmul(lines.real.square(), lines.imag, lines.imag) @ self.filters

    def count(self, samples: Tensor) -> Tensor:
        """The number of frames of waveforms with these numbers of samples: integers (B,) -> (B,)."""
        return (1 + (samples - self.window_samples) // self.hop_samples).clamp(min=0)

    @property
    def hop_ms(self) -> float:
        """Time from the start of one frame to the next."""
        return 1000 * self.hop_samples / self.sample_rate_hz

    @property
    def centers_hz(self) -> Tensor:
        """The center frequency (center of gravity) of each mel filter: (M,)."""
        lines_hz = torch.linspace(0, self.sample_rate_hz / 2, len(self.filters), dtype=torch.double)
        filters = self.filters.cpu().double()
        return lines_hz @ filters / filters.sum(0)

    @torch.no_grad()
    def fit(self, waveforms: Tensor) -> None:
        """Set floor, mean and std from a sample of training waveforms (B, N), as training feeds them: augmented."""
        check_samples(waveforms)
        energies = self.energies(waveforms)
        level = energies.mean(dtype=torch.double)
        self.floor.copy_((level * 10 ** (-self.floor_db / 10)).clamp(min=self.epsilon))
        logarithms = energies.add_(self.floor).log_().flatten(0, 1)
        self.mean.copy_(logarithms.mean(0))
        self.std.copy_(logarithms.std(0).clamp(min=LOWEST_STD))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        # Weights saved before there was a floor were trained with epsilon in its place.
        if f"{prefix}mean" in state_dict:
            state_dict.setdefault(f"{prefix}floor", torch.full_like(self.floor, self.epsilon))
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def mel_filters(lines: int, low_hz: float, high_hz: float, mels: int, sample_rate_hz: int) -> Tensor:
    """The filters of torchaudio's `melscale_fbanks`, to the last bit: triangles on the HTK scale (lines, M)."""
    low, high = (2595 * math.log10(1 + hz / 700) for hz in (low_hz, high_hz))
    edges_hz = 700 * (10 ** (torch.linspace(low, high, mels + 2) / 2595) - 1)
    lines_hz = torch.linspace(0, sample_rate_hz // 2, lines)[:, None]
    rising = (lines_hz - edges_hz[:-2]) / edges_hz.diff()[:-1]
    falling = (edges_hz[2:] - lines_hz) / edges_hz.diff()[1:]
    return rising.minimum(falling).clamp(min=0)


def check_samples(waveforms: Tensor) -> None:
    """Refuse what is no float tensor, such as integer samples, which are not within ±1."""
    if not isinstance(waveforms, Tensor):
        raise InputError(f"samples are {type(waveforms).__name__}, not a tensor of floats within ±1; use torch.tensor")
    if not waveforms.is_floating_point():
        raise InputError(f"samples are {waveforms.dtype}, not floats within ±1; divide int16 samples by 32768")
