"""From log-mel frames to tokens: by stacking frames, or by convolutions over time.

There is no padding: token i depends on frames i·S .. i·S + R - 1 only, in a stream as in a full utterance.

Shapes: B batch, F frames, M mel bins, T tokens, D model width, S stride in frames, R frames covered by a
token.
"""

import torch
from torch import Tensor, nn


class StackedFrames(nn.Module):
    """Concatenates S frames and projects them to one token: R = S.

    Args:
        mels: Mel bins M.
        width: Model width D.
        stride: Number of frames S per token.

    Shape:
        (B, F, M) -> (B, F // S, D)
    """

    def __init__(self, mels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = self.receptive_field = stride
        self.project = nn.Linear(stride * mels, width)

    def forward(self, frames: Tensor, counts: Tensor | None = None) -> Tensor:
        """The tokens; `counts` (B,), the frames of each utterance, is not needed here."""
        whole = frames.shape[1] // self.stride * self.stride
        return self.project(frames[:, :whole].unflatten(1, (-1, self.stride)).flatten(2))


class ConvolutionalFrames(nn.Module):
    """Two convolutions over five and three frames, the second with stride S: R = 7.

    A convolutional stem (Xiao et al. 2021, arXiv:2106.14881) in one dimension, with the mel bins as channels. Each
    convolution is followed by batch norm, and the first also by GELU. In training, padding counts in neither batch norm
    if the number of frames of each utterance is given.

    Args:
        mels: Mel bins M.
        width: Model width D.
        stride: Stride S of the tokens in frames.

    Shape:
        frames (B, F, M), their counts (B,) or None -> (B, 1 + (F - R) // S, D); no token if F is below R
    """

    def __init__(self, mels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride, self.receptive_field = stride, 7
        self.stem = nn.Sequential(
            nn.Conv1d(mels, width, 5, bias=False),
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Conv1d(width, width, 3, stride=stride, bias=False),
            nn.BatchNorm1d(width),
        )

    def forward(self, frames: Tensor, counts: Tensor | None = None) -> Tensor:
        if frames.shape[1] < self.receptive_field:
            return frames.new_zeros(len(frames), 0, self.stem[0].out_channels)
        if counts is None or not self.training:
            return self.stem(frames.transpose(1, 2)).transpose(1, 2)
        narrow, first_norm, activation, strided, last_norm = self.stem
        hidden = narrow(frames.transpose(1, 2))
        hidden = activation(normalized(first_norm, hidden, counts - narrow.kernel_size[0] + 1))
        tokens = 1 + (counts - self.receptive_field) // self.stride
        return normalized(last_norm, strided(hidden), tokens).transpose(1, 2)


def normalized(norm: nn.Module, features: Tensor, counts: Tensor) -> Tensor:
    """Batch norm over the first `counts` positions of each row; the others, which are padding, become zero.

    Args:
        norm: Batch norm of C channels, in training.
        features: Padded at the end.
        counts: Number of valid positions of each row. On the host, to avoid waiting for the GPU.

    Shape:
        (B, C, T), (B,) -> (B, C, T)
    """
    batch, channels, length = features.shape
    valid = torch.arange(length) < counts.cpu()[:, None]
    rows = valid.flatten().nonzero().flatten().to(features.device, non_blocking=True)
    packed = norm(features.transpose(1, 2).flatten(0, 1)[rows])
    padded = packed.new_zeros(batch * length, channels).index_copy(0, rows, packed)
    return padded.unflatten(0, (batch, length)).transpose(1, 2)
