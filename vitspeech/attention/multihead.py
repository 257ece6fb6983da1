"""Multi-head attention over a whole sequence or a window around each query.

Shapes: B batch, T query tokens, S source tokens, D model width, H heads, K = D / H head width.
"""

from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.attention.masks import check_context, check_mask, window_mask
from vitspeech.attention.scores import attend, attend_fused, fused_is_faster


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in H heads (Vaswani et al. 2017, arXiv:1706.03762, sec. 3.2).

    softmax(QKᵀ/√K)V in each head, with Q = x W^Q, K = s W^K, V = s W^V; heads are joined and pass W^O.
    The source s is x itself (self-attention) or another sequence (cross-attention).

    With `left` or `right` it is truncated self-attention (Yeh et al. 2019, arXiv:1910.12977):
    query t sees keys t-left .. t+right. With neither it sees everything, as in ViT.

    Args:
        width: Model width D.
        heads: Number of heads H; must divide D.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        dropout: Share of attention weights dropped in training.

    Shape:
        x (B, T, D), source (B, S, D) or None -> (B, T, D); `padding` is (B, S), true for valid tokens,
        `mask` any boolean tensor that broadcasts to (B, H, T, S), true where attention is allowed. A query
        that may attend to nothing gets W^O's bias.

    Raises:
        ValueError: If H does not divide D, a context is negative, or a mask does not fit.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        left: int | None = None,
        right: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"heads={heads} does not divide width={width}")
        check_context(left, right)
        self.heads = heads
        self.left, self.right = left, right
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

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
        allowed = self.allowed(query, key, padding, mask)
        dropout = self.dropout if self.training else 0.0
        if fused_is_faster(query, key):
            attended = attend_fused(query, key, value, allowed, dropout)
        else:
            attended, _ = attend(query, key, value, allowed, dropout)
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
        return attend(query, key, value, self.allowed(query, key, padding, mask))[1]

    def project(self, x: Tensor, source: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys and values (B, H, S, K)."""
        if source is None:
            # One product instead of three; joining the weights costs far less than two more passes over x.
            weight = torch.cat((self.query.weight, self.key.weight, self.value.weight))
            bias = torch.cat((self.query.bias, self.key.bias, self.value.bias))
            projected = F.linear(x, weight, bias).chunk(3, dim=-1)
        else:
            projected = self.query(x), self.key(source), self.value(source)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        return query, key, value

    def allowed(self, query: Tensor, key: Tensor, padding: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """Padding, mask and window as one mask that broadcasts to (B, H, T, S); `None` allows everything."""
        queries, keys = query.shape[-2], key.shape[-2]
        parts = []
        if padding is not None:
            check_mask("padding", padding, (query.shape[0], keys))
            if padding.ndim != 2:
                raise ValueError(f"padding of shape {tuple(padding.shape)} is not ({query.shape[0]}, {keys})")
            parts.append(padding[:, None, None])
        if mask is not None:
            check_mask("mask", mask, (query.shape[0], self.heads, queries, keys))
            parts.append(torch.atleast_2d(mask))
        if self.left is not None or self.right is not None:
            parts.append(window_mask(queries, keys, self.left, self.right, query.device))
        return reduce(torch.logical_and, parts) if parts else None
