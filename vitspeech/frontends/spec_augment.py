"""SpecAugment: random masks over log-mel frames in training.

Shapes: B batch, F frames, M mel bins.
"""

import torchaudio
from torch import Tensor, nn

from vitspeech.errors import InputError


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

    Raises:
        InputError: If a number is negative.
    """

    def __init__(self, time_masks: int = 2, time_frames: int = 20, mel_masks: int = 2, mel_bins: int = 10) -> None:
        super().__init__()
        numbers = {"time_masks": time_masks, "time_frames": time_frames, "mel_masks": mel_masks, "mel_bins": mel_bins}
        for name, number in numbers.items():
            if number < 0:
                raise InputError(f"{name}={number} is negative")
        self.masks = torchaudio.transforms.SpecAugment(
            time_masks, time_frames, mel_masks, mel_bins, iid_masks=True, zero_masking=True
        )

    def forward(self, frames: Tensor) -> Tensor:
        if not self.training:
            return frames
        # torchaudio's axes are (batch, channel, mel, time).
        return self.masks(frames[:, None].transpose(-1, -2)).squeeze(1).transpose(-1, -2)
