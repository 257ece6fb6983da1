"""The convolutional baseline for speech: the classifier's tokens, pooling and head around residual convolutions.

Shapes: B batch, N samples, T tokens, D width.
"""

from torch import Tensor, nn

from vitspeech.frontends import SpeechTokens


class SpeechCNN(nn.Module):
    """Temporal convolutions with skip connections (after Choi et al. 2019, arXiv:1904.03814).

    The mel bins are the channels of the first convolution, so that every further one sees all of them. A block is two
    convolutions over `kernel` tokens, each after batch norm and GELU.

    Args:
        classes: Number of labels.
        tokens: What makes tokens of waveforms, and by its `width` the width D; `None` is `SpeechTokens()`.
        depth: Number of blocks.
        kernel: Tokens that a convolution sees; odd.

    Shape:
        samples within ±1 (B, N) -> logits (B, classes)

    Raises:
        ValueError: If `depth` is below 1 or `kernel` is even.
    """

    def __init__(self, classes: int = 0, tokens: SpeechTokens | None = None, depth: int = 3, kernel: int = 9) -> None:
        super().__init__()
        if depth < 1 or kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"depth={depth} is below 1 or kernel={kernel} is not odd")
        self.tokens = SpeechTokens() if tokens is None else tokens
        width = self.tokens.width
        self.blocks = nn.ModuleList(ResidualConvolutions(width, kernel) for _ in range(depth))
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, classes)

    def forward_features(self, waveforms: Tensor) -> Tensor:
        """What the head sees: (B, N) -> (B, D)."""
        x = self.tokens(waveforms).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return nn.functional.gelu(self.norm(x)).mean(-1)

    def forward(self, waveforms: Tensor) -> Tensor:
        return self.head(self.forward_features(waveforms))

    def initialize(self, waveforms: Tensor) -> None:
        """Set what depends on the data from a sample of training waveforms (B, N)."""
        self.tokens.log_mel.fit(waveforms)


class ResidualConvolutions(nn.Sequential):
    """x + what twice norm, GELU, convolution make of x.

    Args:
        width: Width D.
        kernel: Tokens that a convolution sees; odd.

    Shape:
        (B, D, T) -> (B, D, T)
    """

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__(
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)
