"""The transformer encoder: a stack of pre-norm blocks of self-attention and MLP.

Shapes: B batch, T tokens, D model width, H heads.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitspeech.attention.config import EncoderConfig
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.errors import check_fraction

Positions = Literal["relative", "rotary"] | nn.Module | None


class DropPath(nn.Module):
    """Stochastic depth (Huang et al. 2016, arXiv:1603.09382): drops a residual branch for random samples in training.

    The branch of the remaining samples is scaled by 1 / (1 - prob), which keeps its expectation.

    Args:
        prob: Probability of dropping the branch of a sample, from 0 to below 1.

    Shape:
        (B, …) -> (B, …)

    Raises:
        InputError: If `prob` is outside that range.
    """

    def __init__(self, prob: float) -> None:
        super().__init__()
        check_fraction("drop_path", prob)
        self.prob = prob

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.prob == 0:
            return branch
        shape = (branch.shape[0],) + (1,) * (branch.ndim - 1)
        mask = torch.rand(shape, device=branch.device) >= self.prob
        return branch * (mask / (1 - self.prob)).to(branch.dtype)


class EncoderBlock(nn.Module):
    """A pre-norm transformer block: x + attention(norm(x)), then x + MLP(norm(x)).

    Xiong et al. 2020 (arXiv:2002.04745).

    Args:
        width: Model width D.
        config: Settings of this block: `left` and `right` are single numbers, `drop_path` is the block's own.
        positions: As in `MultiHeadAttention`.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)

    Raises:
        InputError: As `MultiHeadAttention`, or if `drop_path` is out of range.
    """

    def __init__(
        self, width: int, config: EncoderConfig | Mapping[str, Any] | None = None, *, positions: Positions = None
    ) -> None:
        super().__init__()
        config = EncoderConfig.of(config)
        hidden = int(width * config.mlp_ratio)
        self.attention_norm = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(
            width,
            config.heads,
            left=config.left,
            right=config.right,
            dropout=config.dropout,
            score=config.score,
            normalizer=config.normalizer,
            positions=positions,
        )
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(config.dropout), nn.Linear(hidden, width)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.drop_path = DropPath(config.drop_path)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        return self.finish(x, self.attention(self.attention_norm(x), padding=padding))

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Complete the block from its input and the output of its attention: two (B, T, D) -> (B, T, D)."""
        x = x + self.drop_path(self.dropout(attended))
        return x + self.drop_path(self.dropout(self.mlp(self.mlp_norm(x))))


class Encoder(nn.Module):
    """A stack of `EncoderBlock`s followed by a layer norm.

    Args:
        width: Model width D.
        config: An `EncoderConfig`, a dictionary of its fields, or `None` for the defaults.
        positions: As in `MultiHeadAttention`: `relative`, `rotary`, a module, or `None`. Every block gets its own.

    Attributes:
        left: Past context of each block in tokens.
        right: Look-ahead of each block in tokens.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)

    Raises:
        InputError: As `EncoderBlock`, or if `depth` is below 1, or a list of contexts does not have `depth` entries.
    """

    def __init__(
        self, width: int, config: EncoderConfig | Mapping[str, Any] | None = None, *, positions: Positions = None
    ) -> None:
        super().__init__()
        configs = EncoderConfig.of(config).per_block()
        self.left, self.right = [config.left for config in configs], [config.right for config in configs]
        self.blocks = nn.ModuleList(EncoderBlock(width, config, positions=positions) for config in configs)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            x = block(x, padding)
        return self.norm(x)

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """Past context and look-ahead of one output through all blocks, in tokens; `None` is unlimited."""
        return tuple(None if None in contexts else sum(contexts) for contexts in (self.left, self.right))
