"""Augmentation of log-mel frames in training: SpecAugment and vocal-tract length perturbation.

Shapes: B batch, F frames, M mel bins.
"""

import torch
from torch import Tensor, nn

from vitspeech.errors import InputError, check_fraction, check_number


class SpecAugment(nn.Module):
    """Masks random ranges of frames and of mel bins in training, different for each utterance (Park et al. 2019).

    arXiv:1904.08779, without time warping. Masked values become 0, the mean of the training set. Ranges are drawn from
    all F frames, padding included, so that fewer frames of an utterance are masked beside much longer ones.

    Args:
        time_masks: Number of masked ranges of frames.
        time_frames: Upper bound (exclusive) of the length of each, in frames.
        mel_masks: Number of masked ranges of mel bins.
        mel_bins: Upper bound (exclusive) of the width of each, in bins.

    Shape:
        (B, F, M) -> (B, F, M)
    """

    def __init__(self, time_masks: int = 2, time_frames: int = 20, mel_masks: int = 2, mel_bins: int = 10) -> None:
        super().__init__()
        numbers = {"time_masks": time_masks, "time_frames": time_frames, "mel_masks": mel_masks, "mel_bins": mel_bins}
        for name, number in numbers.items():
            check_number(name, number, 0)
        self.masks = time_masks, time_frames, mel_masks, mel_bins

    def forward(self, frames: Tensor) -> Tensor:
        """Mask frames in training: (B, F, M) -> (B, F, M)."""
        if not self.training:
            return frames
        from vitspeech.torch_audio import torchaudio

        masks = torchaudio.transforms.SpecAugment(*self.masks, iid_masks=True, zero_masking=True)
        # torchaudio's axes are (batch, channel, mel, time).
        return masks(frames[:, None].transpose(-1, -2)).squeeze(1).transpose(-1, -2)


HIGHEST_FORMANT = 0.6  # of half the sample rate: 4.8 kHz at 16 kHz


class VocalTractPerturbation(nn.Module):
    """Warps the frequencies of each utterance in training by a random factor (Jaitly and Hinton 2013).

    "Vocal Tract Length Perturbation (VTLP) improves speech recognition", sec. 3.1: frequency f gets the energy of G(f).
    G(f) is α f up to 4.8 kHz · min(α, 1) / α, above the main formants, and linear from there to half the sample rate,
    which stays. At other sample rates than 16 kHz, the same fraction takes the place of 4.8 kHz. Here log-mel bins are
    interpolated in place of moving the filters.

    Args:
        reach: α is drawn from 1 - reach .. 1 + reach for each utterance; 0 warps nothing.
        centers_hz: The center frequency of each mel filter (M,).
        sample_rate_hz: Sample rate.

    Shape:
        (B, F, M) -> (B, F, M)
    """

    def __init__(self, reach: float, centers_hz: Tensor, sample_rate_hz: int) -> None:
        super().__init__()
        check_fraction("vocal_tract", reach)
        if reach and (len(centers_hz) < 2 or not centers_hz.isfinite().all()):
            what = f"vocal_tract={reach} interpolates between mels={len(centers_hz)} filters"
            raise InputError(f"{what}; it needs two or more, each with an FFT bin (fewer mels or a longer window_ms)")
        self.reach, self.limit_hz = reach, sample_rate_hz / 2
        self.register_buffer("centers_hz", centers_hz.float(), persistent=False)

    def forward(self, frames: Tensor) -> Tensor:
        if not self.training or not self.reach:
            return frames
        factors = 1 + self.reach * (2 * torch.rand(len(frames), 1, device=frames.device) - 1)
        return warped(frames, self.places(factors))

    def places(self, factors: Tensor) -> Tensor:
        """The place between mel bins that each bin takes its energy from: factors (B, 1) -> (B, M), from 0 to M - 1."""
        knee = HIGHEST_FORMANT * self.limit_hz * factors.clamp(max=1) / factors
        above = (self.limit_hz - factors * knee) / (self.limit_hz - knee) * (self.limit_hz - self.centers_hz)
        source = torch.where(self.centers_hz <= knee, factors * self.centers_hz, self.limit_hz - above)
        right = torch.searchsorted(self.centers_hz, source.contiguous()).clamp(1, len(self.centers_hz) - 1)
        low, high = self.centers_hz[right - 1], self.centers_hz[right]
        return (right - 1 + (source - low) / (high - low)).clamp(0, len(self.centers_hz) - 1)


def warped(frames: Tensor, places: Tensor) -> Tensor:
    """Frames interpolated between bins: (B, F, M), places (B, M) -> (B, F, M)."""
    low = places.long().clamp(max=frames.shape[-1] - 2)
    share = (places - low)[:, None].to(frames.dtype)
    bins = low[:, None].expand_as(frames)
    return torch.lerp(frames.gather(-1, bins), frames.gather(-1, bins + 1), share)
