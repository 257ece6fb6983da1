"""The transformer decoder: pre-norm blocks of self-attention, cross-attention and MLP, on sequences or step by step.

Shapes: B batch, T tokens, S source tokens, D model width, H heads, K = D / H head width, P cached past tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from vitspeech.attention.config import DecoderConfig
from vitspeech.attention.masks import check_padding, window_mask
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.errors import InputError


@dataclass(frozen=True)
class BlockCache:
    """The cache of one block: keys and values, the keys already transformed by the score.

    Shape:
        key, value (B, H, P, K); source_key, source_value (B, H, S, K)
    """

    key: Tensor
    value: Tensor
    source_key: Tensor
    source_value: Tensor

    def select(self, indices: Tensor) -> Self:
        """As `DecoderCache.select`."""
        parts = (self.key, self.value, self.source_key, self.source_value)
        return type(self)(*(part.index_select(0, indices) for part in parts))


@dataclass(frozen=True)
class DecoderCache:
    """The state of a decoder between steps. A step returns a new cache and leaves the old one usable.

    Attributes:
        blocks: The cache of each block.
        source_padding: True for valid source tokens (B, S); `None` if all are valid.
        tokens: Number of tokens decoded so far.
    """

    blocks: tuple[BlockCache, ...]
    source_padding: Tensor | None
    tokens: int = 0

    def select(self, indices: Tensor) -> Self:
        """The cache of the sequences at `indices` (N,), which may repeat, as in beam search."""
        padding = None if self.source_padding is None else self.source_padding.index_select(0, indices)
        return type(self)(tuple(block.select(indices) for block in self.blocks), padding, self.tokens)


class DecoderBlock(nn.Module):
    """A pre-norm decoder block: causal self-attention, cross-attention to the source, and an MLP, each with a residual.

    x + attention(norm(x)), then x + cross_attention(norm(x), source), then x + MLP(norm(x)). Vaswani et al. 2017
    (arXiv:1706.03762, sec. 3.1), pre-norm as in Xiong et al. 2020 (arXiv:2002.04745). The source is not normalized
    again: the encoder's last layer norm has done that.

    Args:
        width: Model width D.
        config: Settings of the block; a `DecoderConfig`, a dictionary of its fields, or `None` for the defaults.
        positions: As in `MultiHeadAttention`, for the self-attention alone: distances between tokens of two different
            sequences have no meaning.

    Shape:
        x (B, T, D), source (B, S, D), padding (B, T) or None, source_padding (B, S) or None -> (B, T, D)

    Raises:
        ValueError: As `MultiHeadAttention`, or if x and source differ in batch or width.
    """

    def __init__(
        self,
        width: int,
        config: DecoderConfig | Mapping[str, Any] | None = None,
        *,
        positions: Literal["relative", "rotary"] | nn.Module | None = None,
    ) -> None:
        super().__init__()
        config = DecoderConfig.of(config)
        hidden = int(width * config.mlp_ratio)
        attention = {"dropout": config.dropout, "score": config.score, "normalizer": config.normalizer}
        self.attention_norm = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(
            width, config.heads, left=config.left, right=0, positions=positions, **attention
        )
        self.cross_norm = nn.LayerNorm(width)
        self.cross_attention = MultiHeadAttention(width, config.heads, **attention)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(config.dropout), nn.Linear(hidden, width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, source: Tensor, padding: Tensor | None = None, source_padding: Tensor | None = None
    ) -> Tensor:
        check_source(source, x)
        x = x + self.dropout(self.attention(self.attention_norm(x), padding=padding))
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), source, padding=source_padding))
        return x + self.dropout(self.mlp(self.mlp_norm(x)))

    def start(self, source: Tensor) -> BlockCache:
        """The cache before the first token: no past, and the keys and values of the source (B, S, D)."""
        attention = self.cross_attention
        key, value = attention.split(attention.key(source)), attention.split(attention.value(source))
        _, key = attention.prepared(key[:, :, :0], key, value)
        return BlockCache(key[:, :, :0], value[:, :, :0], key, value)

    def step(
        self, x: Tensor, cache: BlockCache, first: int, source_padding: Tensor | None
    ) -> tuple[Tensor, BlockCache]:
        """The outputs for tokens (B, T, D) at positions `first`, `first` + 1, …, and the cache after them."""
        query, key, value = self.attention.project(self.attention_norm(x), None, first)
        query, key = self.attention.prepared(query, key, value)
        past, tokens = cache.key.shape[2], x.shape[1]
        key, value = torch.cat((cache.key, key), dim=2), torch.cat((cache.value, value), dim=2)
        left = self.attention.left
        # The window relative to the first cached key. A single token attends to the full cache.
        reach = None if left is None else left - past
        mask = window_mask(tokens, past + tokens, reach, past, x.device) if tokens > 1 else None
        x = x + self.dropout(self.attention.attend_cached(query, key, value, mask, first=-past))
        query = self.cross_query(x, cache)
        mask = None if source_padding is None else source_padding[:, None, None]
        x = x + self.dropout(self.cross_attention.attend_cached(query, cache.source_key, cache.source_value, mask))
        x = x + self.dropout(self.mlp(self.mlp_norm(x)))
        discarded = 0 if left is None else max(past + tokens - left, 0)
        key, value = key[:, :, discarded:], value[:, :, discarded:]
        return x, BlockCache(key, value, cache.source_key, cache.source_value)

    def cross_query(self, x: Tensor, cache: BlockCache) -> Tensor:
        """The prepared queries of the cross-attention: (B, T, D) -> (B, H, T, K)."""
        query = self.cross_attention.split(self.cross_attention.query(self.cross_norm(x)))
        return self.cross_attention.prepared(query, cache.source_key[:, :, :0], cache.source_value)[0]


class Decoder(nn.Module):
    """A stack of `DecoderBlock`s followed by a layer norm, for whole sequences or step by step with the same outputs.

    For incremental decoding call `cache = start(source)`, then `y, cache = step(x, cache)` with any number of next
    tokens. The cache holds the keys and values of all past tokens, or of the last `left`; with a limited `left` the
    cost of a step does not depend on the length of the sequence.

    Args:
        width: Model width D.
        config: A `DecoderConfig`, a dictionary of its fields, or `None` for the defaults.
        positions: As in `DecoderBlock`.

    Shape:
        x (B, T, D), source (B, S, D), padding (B, T) or None, source_padding (B, S) or None -> (B, T, D)

    Raises:
        InputError: As `DecoderBlock`, or if `depth` is below 1.
    """

    def __init__(
        self,
        width: int,
        config: DecoderConfig | Mapping[str, Any] | None = None,
        *,
        positions: Literal["relative", "rotary"] | nn.Module | None = None,
    ) -> None:
        super().__init__()
        config = DecoderConfig.of(config)
        if config.depth < 1:
            raise InputError(f"depth={config.depth} is below 1")
        self.width = width
        self.blocks = nn.ModuleList(DecoderBlock(width, config, positions=positions) for _ in range(config.depth))
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, source: Tensor, padding: Tensor | None = None, source_padding: Tensor | None = None
    ) -> Tensor:
        for block in self.blocks:
            x = block(x, source, padding, source_padding)
        return self.norm(x)

    def start(self, source: Tensor, source_padding: Tensor | None = None) -> DecoderCache:
        """The cache before the first token.

        Shape:
            source (B, S, D), source_padding (B, S) or None

        Raises:
            ValueError: If the source has another width, or the padding another shape.
        """
        if source.ndim != 3 or source.shape[2] != self.width:
            raise ValueError(f"source of shape {tuple(source.shape)} is not (B, S, {self.width})")
        if source_padding is not None:
            check_padding(source_padding, *source.shape[:2])
        return DecoderCache(tuple(block.start(source) for block in self.blocks), source_padding)

    def step(self, x: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """The outputs for the next tokens, all of them valid, and the cache after them.

        Shape:
            (B, T, D) -> (B, T, D)

        Raises:
            ValueError: If x has another width, or another batch than the cache.
        """
        batch = cache.blocks[0].key.shape[0]
        if x.ndim != 3 or (x.shape[0], x.shape[2]) != (batch, self.width):
            raise ValueError(f"x of shape {tuple(x.shape)} is not ({batch}, T, {self.width}), as in the cache")
        blocks = []
        for block, past in zip(self.blocks, cache.blocks, strict=True):
            x, past = block.step(x, past, cache.tokens, cache.source_padding)
            blocks.append(past)
        return self.norm(x), DecoderCache(tuple(blocks), cache.source_padding, cache.tokens + x.shape[1])


def check_source(source: Tensor, x: Tensor) -> None:
    """Check that source and x have the same batch size and width.

    Raises:
        ValueError: If they have not.
    """
    if source.ndim != 3 or source.shape[0] != x.shape[0] or source.shape[2] != x.shape[2]:
        raise ValueError(
            f"source of shape {tuple(source.shape)} and x of shape {tuple(x.shape)} differ in batch or width"
        )
