"""The encoder: pre-norm blocks of attention and MLP, stacked.

Shapes: B batch, T tokens, D model width, H heads.
"""

from typing import Any

import torch
from torch import Tensor, nn

from vitspeech.attention.linear import Linear
from vitspeech.attention.multihead import MultiHeadAttention


class DropPath(nn.Module):
    """In training, leaves a residual branch out for a random share of the batch and scales up the rest.

    Huang et al. 2016 (arXiv:1603.09382), so that the expectation stays.

    Args:
        share: How often the branch is left out, 0 to below 1.

    Shape:
        (B, …) -> (B, …)

    Raises:
        ValueError: If `share` is outside that range.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"drop_path={share} is not within 0 .. 1 (1 excluded)")
        self.share = share

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.share == 0:
            return branch
        kept = torch.rand((branch.shape[0],) + (1,) * (branch.ndim - 1), device=branch.device) >= self.share
        return branch * (kept / (1 - self.share)).to(branch.dtype)


class EncoderBlock(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)) (pre-norm: Xiong et al. 2020, arXiv:2002.04745).

    Args:
        width: Model width D.
        heads: Number of heads H; must divide D.
        mlp_ratio: Width of the MLP's hidden layer in model widths.
        dropout: Share dropped of attention weights and of both branches' results.
        drop_path: How often a sequence skips a branch in training.
        **attention: What else `MultiHeadAttention` takes: `left`, `right`, `score`, `normalizer`, `positions`.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)

    Raises:
        ValueError: As `MultiHeadAttention`, or if `drop_path` is out of range.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        **attention: Any,
    ) -> None:
        super().__init__()
        hidden = int(width * mlp_ratio)
        self.attention_norm = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(width, heads, dropout=dropout, **attention)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), Linear(hidden, width))
        self.dropout = nn.Dropout(dropout)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        return self.finish(x, self.attention(self.attention_norm(x), padding=padding))

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's output for its input and what its attention gave for it: twice (B, T, D) -> (B, T, D)."""
        x = x + self.drop_path(self.dropout(attended))
        return x + self.drop_path(self.dropout(self.mlp(self.mlp_norm(x))))


class Encoder(nn.Module):
    """A stack of blocks and a last norm; `drop_path` grows linearly from 0 to its value in the last block.

    Args:
        width: Model width D.
        depth: Number of blocks.
        heads: Number of heads H; must divide D.
        left: Past context in tokens, one for all blocks or one for each; `None` is unlimited.
        right: Look-ahead in tokens, likewise; 0 is causal.
        drop_path: How often a sequence skips a branch of the last block in training.
        **block: What else `EncoderBlock` takes: `mlp_ratio`, `dropout`, and of attention `score`, `normalizer`,
            `positions`.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)

    Raises:
        ValueError: As `EncoderBlock`, or if `depth` is below 1, or contexts are not one for each block.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        *,
        left: int | list[int | None] | None = None,
        right: int | list[int | None] | None = None,
        drop_path: float = 0.0,
        **block: Any,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth={depth} is below 1")
        self.left, self.right = of_each_block("left", left, depth), of_each_block("right", right, depth)
        rising = [drop_path * (number / (depth - 1) if depth > 1 else 1) for number in range(depth)]
        self.blocks = nn.ModuleList(
            EncoderBlock(width, heads, left=back, right=ahead, drop_path=skipped, **block)
            for back, ahead, skipped in zip(self.left, self.right, rising, strict=True)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            x = block(x, padding)
        return self.norm(x)

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """How many tokens back and ahead one output depends on through all blocks; `None` is without a limit."""
        return tuple(None if None in contexts else sum(contexts) for contexts in (self.left, self.right))


def of_each_block(name: str, context: int | list[int | None] | None, depth: int) -> list[int | None]:
    """One context for each block.

    Raises:
        ValueError: If a list has another length.
    """
    contexts = [context] * depth if context is None or isinstance(context, int) else list(context)
    if len(contexts) != depth:
        raise ValueError(f"{name}={contexts} is not one context for each of depth={depth} blocks")
    return contexts
