"""The convolutional baseline for speech: tokens, pooling and head of the classifier around residual convolutions.

Shapes: B batch, N samples, T tokens, D width.
"""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from vitspeech.frontends import SpeechFrontend
from vitspeech.models.classifier import Classifier


class SpeechCNN(Classifier):
    """Temporal convolutions with residual connections (after Choi et al. 2019, arXiv:1904.03814).

    The mel bins are the input channels of the first convolution. Each block has two convolutions over `kernel` tokens,
    each preceded by batch norm and GELU.

    Args:
        classes: Number of labels; 0 builds no head, and `forward` returns pooled features (B, D).
        tokens: Turns waveforms into tokens; its `width` is the width D. `None` is `SpeechFrontend()`.
        depth: Number of blocks.
        kernel: Kernel size in tokens; odd.

    Shape:
        samples within ±1 (B, N) -> logits (B, classes)
    """

    def __init__(self, classes: int = 0, tokens: SpeechFrontend | None = None, depth: int = 3, kernel: int = 9) -> None:
        super().__init__()
        self.tokens = SpeechFrontend() if tokens is None else tokens
        width = self.tokens.width
        self.blocks = nn.ModuleList(ResidualConvolutions(width, kernel) for _ in range(depth))
        self.norm = nn.BatchNorm1d(width)
        self.num_features = width
        self.head = nn.Linear(width, classes) if classes else nn.Identity()

    def forward_features(self, waveforms: Tensor) -> Tensor:
        """Feature maps: (B, N) -> (B, D, T)."""
        x, blocks, finish = self.stages(waveforms)
        for block in blocks:
            x = block(x)
        return finish(x)

    def stages(self, waveforms: Tensor) -> tuple[Tensor, Sequence[nn.Module], Callable[[Tensor], Tensor]]:
        return self.tokens(waveforms).transpose(1, 2), self.blocks, lambda x: nn.functional.gelu(self.norm(x))

    def forward_head(self, features: Tensor, pre_logits: bool = False) -> Tensor:
        """Average over time and classify: (B, D, T) -> (B, classes), or the averages (B, D) with `pre_logits`."""
        pooled = features.mean(-1)
        return pooled if pre_logits else self.head(pooled)

    def forward(self, waveforms: Tensor) -> Tensor:
        """Samples within ±1 (B, N) -> logits (B, classes)."""
        return self.forward_head(self.forward_features(waveforms))

    def initialize(self, waveforms: Tensor) -> None:
        """Set mean and std of the mel bins from a sample of training waveforms (B, N)."""
        self.tokens.log_mel.fit(waveforms)


class ResidualConvolutions(nn.Sequential):
    """x + f(x), where f is batch norm, GELU and convolution, twice.

    Args:
        width: Width D.
        kernel: Kernel size in tokens; odd.

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
