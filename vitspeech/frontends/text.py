"""From symbols to tokens: one embedding per symbol, such as a letter, a digit or a word.

Shapes: B batch, N symbols, D model width.
"""

import math

from torch import Tensor, nn


class TextTokens(nn.Module):
    """Turns each symbol into a token: its embedding times √D (Vaswani et al. 2017, arXiv:1706.03762, sec. 3.4).

    Embeddings are initialized from N(0, 1/D), so that tokens have unit variance, as positions and an output head that
    shares the embeddings expect.

    Args:
        symbols: Number of symbols, at least 1.
        width: Model width D.

    Shape:
        indices of symbols, padded with -1 (B, N) -> (B, N, D); tokens of padding are zero
    """

    def __init__(self, symbols: int, width: int = 128) -> None:
        super().__init__()
        self.symbols, self.width = symbols, width
        self.embedding = nn.Embedding(symbols, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def forward(self, symbols: Tensor) -> Tensor:
        """Indices of symbols, padded with -1 (B, N) -> tokens (B, N, D)."""
        tokens = math.sqrt(self.width) * self.embedding(symbols.clamp(min=0))
        return tokens * (symbols >= 0)[..., None]

    def count(self, symbols: Tensor) -> Tensor:
        """The number of tokens of sequences with these numbers of symbols: integers (B,) -> (B,)."""
        return symbols
