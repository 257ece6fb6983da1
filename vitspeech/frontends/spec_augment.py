"""Masks over log-mel frames in training.

Shapes: B batch, F frames, M mel bins.
"""

import torchaudio
from torch import Tensor, nn


class SpecAugment(nn.Module):
    """Hides stretches of frames and of mel bins in training, each utterance its own (Park et al. 2019).

    arXiv:1904.08779, without the time warping. What is hidden becomes 0, the training set's mean.

    Args:
        time_masks: Stretches of frames hidden.
        time_frames: Each is less than this many frames long.
        mel_masks: Stretches of mel bins hidden.
        mel_bins: Each is less than this many bins wide.

    Shape:
        (B, F, M) -> (B, F, M)

    Raises:
        ValueError: If a number is negative.
    """

    def __init__(self, time_masks: int = 2, time_frames: int = 20, mel_masks: int = 2, mel_bins: int = 10) -> None:
        super().__init__()
        numbers = {"time_masks": time_masks, "time_frames": time_frames, "mel_masks": mel_masks, "mel_bins": mel_bins}
        for name, number in numbers.items():
            if number < 0:
                raise ValueError(f"{name}={number} is negative")
        self.masks = torchaudio.transforms.SpecAugment(
            time_masks, time_frames, mel_masks, mel_bins, iid_masks=True, zero_masking=True
        )

    def forward(self, frames: Tensor) -> Tensor:
        if not self.training:
            return frames
        # torchaudio's axes are (batch, channel, mel, time).
        return self.masks(frames[:, None].transpose(-1, -2)).squeeze(1).transpose(-1, -2)
