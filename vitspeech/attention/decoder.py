"""The transformer decoder: blocks of self-attention, cross-attention and MLP, on sequences or step by step.

Shapes: B batch, T tokens, S source tokens, D model width, H heads, K = D / H head width, P cached past tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from vitspeech.attention.block import ResidualBlock, final_norm, make_mlp
from vitspeech.attention.config import DecoderConfig
from vitspeech.attention.masks import window_mask
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.attention.positions import InAttention, Positions, split_positions


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


class DecoderBlock(ResidualBlock):
    """A decoder block: causal self-attention, cross-attention to the source, and an MLP, each with a residual.

    Vaswani et al. 2017 (arXiv:1706.03762, sec. 3.1); each branch has a layer norm before it, or after the residual sum.
    The source is used as it is: the encoder's last layer norm has normalized it.

    Args:
        width: Model width D.
        config: Settings of the block; a `DecoderConfig`, a dictionary of its fields, or `None` for the defaults.
        positions: As in `MultiHeadAttention`, for the self-attention alone: distances between tokens of two different
            sequences have no meaning.

    Shape:
        x (B, T, D), source (B, S, D), padding (B, T) or None, source_padding (B, S) or None -> (B, T, D)
    """

    def __init__(
        self, width: int, config: DecoderConfig | Mapping[str, Any] | None = None, *, positions: InAttention = None
    ) -> None:
        config = DecoderConfig.of(config)
        super().__init__(config)
        attention = {"dropout": config.dropout, "score": config.score, "normalizer": config.normalizer}
        self.attention_norm = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(
            width, config.heads, left=config.left, right=0, positions=positions, **attention
        )
        self.cross_norm = nn.LayerNorm(width)
        self.cross_attention = MultiHeadAttention(width, config.heads, **attention)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = make_mlp(width, config)

    def forward(
        self, x: Tensor, source: Tensor, padding: Tensor | None = None, source_padding: Tensor | None = None
    ) -> Tensor:
        x = self.attend_past(x, padding)
        attended = self.cross_attention(self.pre_norm(x, self.cross_norm), source, padding=source_padding)
        return self.mlp_branch(self.add_residual(x, attended, self.cross_norm))

    def attend_past(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """The first branch, self-attention: x (B, T, D), padding (B, T) or None -> (B, T, D)."""
        attended = self.attention(self.pre_norm(x, self.attention_norm), padding=padding)
        return self.add_residual(x, attended, self.attention_norm)

    def cross_weights(self, x: Tensor, source: Tensor, source_padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The output of the block (B, T, D), and the weights of its cross-attention (B, H, T, S)."""
        x, attention = self.attend_past(x), self.cross_attention
        query, key, value = attention.project(self.pre_norm(x, self.cross_norm), source)
        attended, weights = attention.attend(query, key, value, attention.build_mask(query, key, source_padding, None))
        x = self.add_residual(x, attention.output(attention.merge_heads(attended)), self.cross_norm)
        return self.mlp_branch(x), weights

    def start(self, source: Tensor) -> BlockCache:
        """The cache before the first token: no past, and the keys and values of the source (B, S, D)."""
        attention = self.cross_attention
        key, value = attention.split_heads(attention.key(source)), attention.split_heads(attention.value(source))
        _, key = attention.score_inputs(key[:, :, :0], key, value)
        return BlockCache(key[:, :, :0], value[:, :, :0], key, value)

    def step(
        self, x: Tensor, cache: BlockCache, first: int, source_padding: Tensor | None
    ) -> tuple[Tensor, BlockCache]:
        """The outputs for tokens (B, T, D) at positions `first`, `first` + 1, …, and the cache after them."""
        query, key, value = self.attention.project(self.pre_norm(x, self.attention_norm), None, first)
        query, key = self.attention.score_inputs(query, key, value)
        past, tokens = cache.key.shape[2], x.shape[1]
        key, value = torch.cat((cache.key, key), dim=2), torch.cat((cache.value, value), dim=2)
        left = self.attention.left
        # The window relative to the first cached key. A single token attends to the full cache.
        reach = None if left is None else left - past
        mask = window_mask(tokens, past + tokens, reach, past, x.device) if tokens > 1 else None
        attended = self.attention.attend_cached(query, key, value, mask, first=-past)
        x = self.add_residual(x, attended, self.attention_norm)
        query = self.cross_query(x, cache)
        mask = None if source_padding is None else source_padding[:, None, None]
        attended = self.cross_attention.attend_cached(query, cache.source_key, cache.source_value, mask)
        x = self.mlp_branch(self.add_residual(x, attended, self.cross_norm))
        discarded = 0 if left is None else max(past + tokens - left, 0)
        key, value = key[:, :, discarded:], value[:, :, discarded:]
        return x, BlockCache(key, value, cache.source_key, cache.source_value)

    def cross_query(self, x: Tensor, cache: BlockCache) -> Tensor:
        """The prepared queries of the cross-attention: (B, T, D) -> (B, H, T, K)."""
        query = self.cross_attention.split_heads(self.cross_attention.query(self.pre_norm(x, self.cross_norm)))
        return self.cross_attention.score_inputs(query, cache.source_key[:, :, :0], cache.source_value)[0]


class Decoder(nn.Module):
    """A stack of `DecoderBlock`s, for whole sequences or step by step with the same outputs.

    A last layer norm follows blocks that are pre-norm.

    For incremental decoding call `cache = start(source)`, then `y, cache = step(x, cache)` with any number of next
    tokens. The cache holds the keys and values of all past tokens, or of the last `left`; with a limited `left` the
    cost of a step does not depend on the length of the sequence.

    Args:
        width: Model width D.
        config: A `DecoderConfig`, a dictionary of its fields, or `None` for the defaults.
        positions: As in `Encoder`; those in attention as in `DecoderBlock`.

    Shape:
        x (B, T, D), source (B, S, D), padding (B, T) or None, source_padding (B, S) or None -> (B, T, D)
    """

    def __init__(
        self,
        width: int,
        config: DecoderConfig | Mapping[str, Any] | None = None,
        *,
        positions: Positions = None,
    ) -> None:
        super().__init__()
        config = DecoderConfig.of(config)
        self.width = width
        self.positions, in_attention = split_positions(positions, width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(DecoderBlock(width, config, positions=in_attention) for _ in range(config.depth))
        self.norm = final_norm(width, config)

    def forward(
        self, x: Tensor, source: Tensor, padding: Tensor | None = None, source_padding: Tensor | None = None
    ) -> Tensor:
        """Decode tokens x (B, T, D) from an encoded source (B, S, D); masks are true for valid tokens: -> (B, T, D)."""
        if source.shape[0] != x.shape[0]:
            raise ValueError(f"source of shape {tuple(source.shape)} and x of shape {tuple(x.shape)} differ in batch")
        x = self.add_positions(x)
        for block in self.blocks:
            x = block(x, source, padding, source_padding)
        return self.norm(x)

    def add_positions(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the positions `first`, `first` + 1, …, if the decoder adds any: (B, T, D) -> (B, T, D)."""
        return x if self.positions is None else self.dropout(self.positions(x, first))

    def cross_weights(self, x: Tensor, source: Tensor, source_padding: Tensor | None = None) -> Tensor:
        """The weights of the cross-attention of every block and head, in evaluation mode.

        Shape:
            x (B, T, D), source (B, S, D), source_padding (B, S) or None -> (blocks, B, H, T, S)
        """
        x, weights = self.add_positions(x), []
        for block in self.blocks:
            x, block_weights = block.cross_weights(x, source, source_padding)
            weights.append(block_weights)
        return torch.stack(weights)

    def start(self, source: Tensor, source_padding: Tensor | None = None) -> DecoderCache:
        """The cache before the first token.

        Shape:
            source (B, S, D), source_padding (B, S) or None
        """
        return DecoderCache(tuple(block.start(source) for block in self.blocks), source_padding)

    def step(self, x: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """The outputs for the next tokens, all of them valid, and the cache after them.

        Shape:
            (B, T, D) -> (B, T, D)
        """
        x, blocks = self.add_positions(x, cache.tokens), []
        for block, past in zip(self.blocks, cache.blocks, strict=True):
            x, past = block.step(x, past, cache.tokens, cache.source_padding)
            blocks.append(past)
        return self.norm(x), DecoderCache(tuple(blocks), cache.source_padding, cache.tokens + x.shape[1])
