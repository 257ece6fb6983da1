"""From log-mel frames to tokens: by stacking frames, or by convolutions over time.

There is no padding: token i depends on frames i·S .. i·S + R - 1 only, in a stream as in a full utterance.

Shapes: B batch, F frames, M mel bins, T tokens, D model width, S stride in frames, R frames covered by a
token.
"""

from torch import Tensor, nn


class StackedFrames(nn.Module):
    """Concatenates S frames and projects them to one token: R = S.

    Args:
        mels: Mel bins M.
        width: Model width D.
        stride: Number of frames S per token.

    Shape:
        (B, F, M) -> (B, F // S, D)

    Raises:
        ValueError: If `stride` is below 1.
    """

    def __init__(self, mels: int, width: int, stride: int) -> None:
        super().__init__()
        if stride < 1:
            raise ValueError(f"stride={stride} is below 1")
        self.stride = self.reach = stride
        self.project = nn.Linear(stride * mels, width)

    def forward(self, frames: Tensor) -> Tensor:
        count = frames.shape[1] // self.stride * self.stride
        return self.project(frames[:, :count].unflatten(1, (-1, self.stride)).flatten(2))


class ConvolutionalFrames(nn.Module):
    """Two convolutions over five and three frames, the second with stride S: R = 7.

    A convolutional stem (Xiao et al. 2021, arXiv:2106.14881) in one dimension, with the mel bins as channels. Each
    convolution is followed by batch norm, and the first also by GELU.

    Args:
        mels: Mel bins M.
        width: Model width D.
        stride: Stride S of the tokens in frames.

    Shape:
        (B, F, M) -> (B, 1 + (F - R) // S, D); no token if F is below R

    Raises:
        ValueError: If `stride` is below 1.
    """

    def __init__(self, mels: int, width: int, stride: int) -> None:
        super().__init__()
        if stride < 1:
            raise ValueError(f"stride={stride} is below 1")
        self.stride, self.reach = stride, 7
        self.stem = nn.Sequential(
            nn.Conv1d(mels, width, 5, bias=False),
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Conv1d(width, width, 3, stride=stride, bias=False),
            nn.BatchNorm1d(width),
        )

    def forward(self, frames: Tensor) -> Tensor:
        if frames.shape[1] < self.reach:
            return frames.new_zeros(len(frames), 0, self.stem[0].out_channels)
        return self.stem(frames.transpose(1, 2)).transpose(1, 2)
