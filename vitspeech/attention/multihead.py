"""Multi-head attention over a whole sequence or a window around each query.

Shapes: B batch, T query tokens, S source tokens, D model width, H heads, K = D / H head width.
"""

import copy
from functools import reduce
from typing import Literal

import torch
from torch import Tensor, nn

from vitspeech.attention.dense import FUSED_FROM_KEYS, attend, attend_fused, can_be_fused, fused_is_faster
from vitspeech.attention.linear import Linear, linear
from vitspeech.attention.masks import check_context, check_mask, check_padding, window_mask
from vitspeech.attention.positions import IN_ATTENTION, RelativePositions, Rotary
from vitspeech.attention.scores import NORMALIZERS, SCORES, named
from vitspeech.attention.windowed.truncated import truncated_attention


class MultiHeadAttention(nn.Module):
    """Attention in H heads (Vaswani et al. 2017, arXiv:1706.03762, sec. 3.2).

    softmax(QKᵀ/√K)V in each head, with Q = x W^Q, K = s W^K, V = s W^V; heads are joined and pass W^O.
    The source s is x itself (self-attention) or another sequence (cross-attention).

    With `left` or `right` it is truncated self-attention (Yeh et al. 2019, arXiv:1910.12977):
    query t sees keys t-left .. t+right, at a cost that grows with T and not with its square. With neither it sees
    everything, as in ViT.

    Args:
        width: Model width D.
        heads: Number of heads H; must divide D.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        dropout: Share of attention weights dropped in training.
        score: How relevant a key is to a query: `scaled_dot`, `dot`, `general`, `additive` or `cosine`.
        normalizer: How scores become weights: `softmax` or `relu`.
        positions: `relative` (`RelativePositions`), `rotary` (`Rotary`), or one of these modules of width K, which is
            copied, so that layers share no weights; `None` tells nothing of positions.

    Shape:
        x (B, T, D), source (B, S, D) or None -> (B, T, D); `padding` is (B, S), true for valid tokens,
        `mask` any boolean tensor that broadcasts to (B, H, T, S), true where attention is allowed. A query
        that may attend to nothing gets W^O's bias. With a `mask` or a source every pair is looked at.

    Raises:
        ValueError: If H does not divide D, a context is negative, a name is unknown, or a mask does not fit.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        left: int | None = None,
        right: int | None = None,
        dropout: float = 0.0,
        score: Literal["scaled_dot", "dot", "general", "additive", "cosine"] = "scaled_dot",
        normalizer: Literal["softmax", "relu"] = "softmax",
        positions: Literal["relative", "rotary"] | nn.Module | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"heads={heads} does not divide width={width}")
        check_context(left, right)
        self.heads = heads
        self.left, self.right = left, right
        self.dropout = dropout
        self.query = Linear(width, width)
        self.key = Linear(width, width)
        self.value = Linear(width, width)
        self.output = Linear(width, width)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)
        self.score = named(SCORES, "score", score)(heads, width // heads)
        self.normalizer = named(NORMALIZERS, "normalizer", normalizer)
        self.rotary, self.relative = in_attention(positions, width // heads)

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Attend from every token of `x` to the allowed tokens of `source` (of `x` where it is `None`)."""
        query, key, value = self.project(x, source)
        dropout = self.dropout if self.training else 0.0
        fusable = can_be_fused(self.score, self.normalizer, self.relative)
        windowed = self.left is not None or self.right is not None
        large = self.score.energy is not None or (not fusable and key.shape[2] >= FUSED_FROM_KEYS)
        if source is None and mask is None and (windowed or large):
            attended = truncated_attention(
                query,
                key,
                value,
                self.left,
                self.right,
                padding=padding,
                score=self.score,
                normalizer=self.normalizer,
                relative=self.relative,
                dropout=dropout,
            )
        else:
            allowed = self.allowed(query, key, padding, mask)
            if fusable and fused_is_faster(query, key):
                query, key = self.prepared(query, key, value)
                attended = attend_fused(query, key, value, allowed, scale=self.score.scale, dropout=dropout)
            else:
                attended, _ = self.attend(query, key, value, allowed, dropout)
        return self.output(attended.transpose(1, 2).flatten(2))

    def weights(
        self,
        x: Tensor,
        source: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The attention weights of every head, without dropout: (B, H, T, S)."""
        query, key, value = self.project(x, source)
        return self.attend(query, key, value, self.allowed(query, key, padding, mask))[1]

    def project(self, x: Tensor, source: Tensor | None, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys and values (B, H, S, K); the first token of both stands at position `first`."""
        if source is None:
            # One product instead of three; joining the weights costs far less than two more passes over x.
            weight = torch.cat((self.query.weight, self.key.weight, self.value.weight))
            bias = torch.cat((self.query.bias, self.key.bias, self.value.bias))
            projected = linear(x, weight, bias).chunk(3, dim=-1)
        else:
            projected = self.query(x), self.key(source), self.value(source)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        if self.rotary is not None:
            query, key = self.rotary(query, key, first)
        return query, key, value

    def prepared(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys as the score compares them, in the values' precision (autocast may have raised theirs)."""
        query, key = self.score.prepare(query, key)
        return query.to(value.dtype), key.to(value.dtype)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Every query over every key, written out: the result (B, H, T, K) and the weights (B, H, T, S)."""
        return self.attend_prepared(*self.prepared(query, key, value), value, allowed, dropout=dropout)

    def attend_prepared(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        allowed: Tensor | None,
        *,
        first: int = 0,
        dropout: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """The same for queries and keys as the score compares them, of which the first lie `first` apart."""
        return attend(
            query,
            key,
            value,
            allowed,
            scale=self.score.scale,
            energy=self.score.energy,
            normalizer=self.normalizer,
            relative=self.relative,
            first=first,
            dropout=dropout,
        )

    def attend_kept(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, first: int = 0) -> Tensor:
        """The layer's output (B, T, D) for prepared queries over kept keys and values; see `attend_prepared`."""
        dropout = self.dropout if self.training else 0.0
        attended, _ = self.attend_prepared(query, key, value, mask, first=first, dropout=dropout)
        return self.output(attended.transpose(1, 2).flatten(2))

    def allowed(self, query: Tensor, key: Tensor, padding: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """Padding, mask and window as one mask that broadcasts to (B, H, T, S); `None` allows everything."""
        queries, keys = query.shape[-2], key.shape[-2]
        parts = []
        if padding is not None:
            check_padding(padding, query.shape[0], keys)
            parts.append(padding[:, None, None])
        if mask is not None:
            check_mask("mask", mask, (query.shape[0], self.heads, queries, keys))
            parts.append(torch.atleast_2d(mask))
        if self.left is not None or self.right is not None:
            parts.append(window_mask(queries, keys, self.left, self.right, query.device))
        return reduce(torch.logical_and, parts) if parts else None


def in_attention(positions: str | nn.Module | None, width: int) -> tuple[Rotary | None, RelativePositions | None]:
    """The rotary and the relative positions for heads of that width: one of them at most.

    Raises:
        ValueError: If the name is unknown, or a module is neither or of another width.
    """
    if isinstance(positions, str):
        positions = named(IN_ATTENTION, "positions", positions)(width)
    elif isinstance(positions, Rotary | RelativePositions):
        if positions.width != width:
            raise ValueError(f"positions are for heads of width {positions.width}, not {width}")
        positions = copy.deepcopy(positions)
    elif positions is not None:
        raise ValueError(f"positions={type(positions).__name__} tells attention no positions; use {list(IN_ATTENTION)}")
    rotary = positions if isinstance(positions, Rotary) else None
    return rotary, positions if rotary is None else None
