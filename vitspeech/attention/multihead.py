"""Multi-head attention over a full sequence or over a window around each query.

Shapes: B batch, T query tokens, S source tokens, D model width, H heads, K = D / H head width.
"""

import copy
from typing import Literal, Never, Self

import torch
from torch import Tensor, nn

from vitspeech.attention.dense import attend, attend_dense, attend_fused, attend_pairs
from vitspeech.attention.kernels import Kernel, choose_dense, request_for
from vitspeech.attention.masks import allowed_pairs, check_context
from vitspeech.attention.positions import IN_ATTENTION, RelativePositions, Rotary
from vitspeech.attention.scores import NORMALIZERS, Score, make_score
from vitspeech.attention.windowed.truncated import truncated_attention
from vitspeech.errors import InputError, check_fraction, named


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, arXiv:1706.03762, sec. 3.2).

    softmax(QKᵀ/√K)V in each head, with Q = x W^Q, K = s W^K, V = s W^V; the heads are concatenated and multiplied by
    W^O. The source s is x itself (self-attention) or another sequence (cross-attention).

    With `left` or `right` it is truncated self-attention (Yeh et al. 2019, arXiv:1910.12977): query t attends to keys
    t-left .. t+right, at a cost linear in T. With neither it is full attention, as in ViT.

    Queries, keys and values come from three modules, `query`, `key` and `value`, in self-attention too, so that forward
    hooks, adapters (LoRA) and quantization apply to each. One joined projection would not be clearly faster: measured
    forward and backward on two cores of an Intel CPU, three calls take 82.3 ms and a joined one 80.7 ms for a batch of
    128 x 64 tokens of width 192 (fp32; bf16 49.7 and 53.8), 1.32 and 1.08 ms for a single sequence of 25 tokens.

    Args:
        width: Model width D.
        heads: Number of heads H; must divide D.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        dropout: Dropout probability of the attention weights.
        score: How queries and keys are compared: a registered name (`scaled_dot`, `dot`, `general`, `additive`,
            `cosine`), or a subclass of `Score` (in a config, its import path).
        normalizer: How scores become weights: `softmax` or `relu`.
        positions: `relative` (`RelativePositions`), `rotary` (`Rotary`), or one of these modules of width K, which is
            copied so that layers share no weights; `None` adds no positions.

    Shape:
        x (B, T, D), source (B, S, D) or None -> (B, T, D); `padding` is (B, S), true for valid tokens,
        `mask` any boolean tensor that broadcasts to (B, H, T, S), true where attention is allowed. The output for a
        query that may attend to nothing is the bias of W^O. With a `mask` or a source, all T x S pairs are computed.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        left: int | None = None,
        right: int | None = None,
        dropout: float = 0.0,
        score: str | type[Score] = "scaled_dot",
        normalizer: Literal["softmax", "relu"] = "softmax",
        positions: Literal["relative", "rotary"] | nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_heads(heads, width)
        check_context(left, right)
        self.heads = heads
        self.left, self.right = left, right
        check_fraction("dropout", dropout)
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)
        self.score = make_score(score, heads, width // heads)
        self.normalizer = named(NORMALIZERS, "normalizer", normalizer)
        self.rotary, self.relative = make_positions(positions, width // heads)
        self.pairwise = self.relative is not None and not self.score.linear_in_key

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> Self:
        """The layer with the weights of PyTorch's, which has the same outputs; the weights are copied.

        Inputs have the batch axis first, whatever `batch_first` of the layer is. Masks are true where attention is
        allowed: `attention(x, padding=~key_padding_mask, mask=~attn_mask)` is
        `layer(x, x, x, key_padding_mask=key_padding_mask, attn_mask=attn_mask, need_weights=False)[0]` for boolean
        masks of PyTorch. `attention(x, source)` is `layer(x, source, source)[0]`, and `attention.weights(x)` are the
        weights with `average_attn_weights=False`.

        Raises:
            InputError: If the layer is of another class, keys or values have another width than queries, or the layer
                appends a key (`add_bias_kv`, `add_zero_attn`).
        """
        if not isinstance(layer, nn.MultiheadAttention):
            raise InputError(f"{type(layer).__name__} is not a torch.nn.MultiheadAttention")
        if layer.in_proj_weight is None or layer.bias_k is not None or layer.add_zero_attn:
            raise InputError("a layer with kdim, vdim, add_bias_kv or add_zero_attn has no counterpart here")
        attention = cls(layer.embed_dim, layer.num_heads, dropout=layer.dropout).to(layer.in_proj_weight)
        projections = (attention.query, attention.key, attention.value)
        with torch.no_grad():
            for projection, weight in zip(projections, layer.in_proj_weight.chunk(3), strict=True):
                projection.weight.copy_(weight)
            attention.output.weight.copy_(layer.out_proj.weight)
            if layer.in_proj_bias is not None:
                for projection, bias in zip(projections, layer.in_proj_bias.chunk(3), strict=True):
                    projection.bias.copy_(bias)
                attention.output.bias.copy_(layer.out_proj.bias)
        return attention.train(layer.training)

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        *others: Never,
        padding: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Attend from every token of `x` to the allowed tokens of `source`, or of `x` itself if it is `None`.

        Shape:
            x (B, T, D), source (B, S, D) or None -> (B, T, D)
        """
        if others or x.ndim != 3:
            raise InputError("attention takes x, or x and one source of keys and values, each (batch, tokens, width)")
        query, key, value = self.project(x, source)
        dropout = self.dropout if self.training else 0.0
        options = {"normalizer": self.normalizer, "relative": self.relative, "dropout": dropout}
        if source is None and mask is None:
            options |= {"padding": padding, "score": self.score}
            attended = truncated_attention(query, key, value, self.left, self.right, **options)
        else:
            allowed = self.build_mask(query, key, padding, mask)
            fused = choose_dense(request_for(key, value, self.score, **options)) is Kernel.FUSED
            attended = attend_dense(query, key, value, allowed, self.score, fused=fused, **options)
        return self.output(self.merge_heads(attended))

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
        return self.attend(query, key, value, self.build_mask(query, key, padding, mask))[1]

    def project(self, x: Tensor, source: Tensor | None, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys and values (B, H, S, K); `first` is the position of the first token of both."""
        source = x if source is None else source
        query, key, value = (
            self.split_heads(self.query(x)),
            self.split_heads(self.key(source)),
            self.split_heads(self.value(source)),
        )
        if self.rotary is not None:
            query, key = self.rotary(query, key, first)
        return query, key, value

    def split_heads(self, x: Tensor) -> Tensor:
        """Split the model width into heads: (B, T, D) -> (B, H, T, K)."""
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """Concatenate the heads: (B, H, T, K) -> (B, T, D)."""
        return x.transpose(1, 2).flatten(2)

    def score_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys transformed by the score, in the dtype of the values (autocast may have raised theirs).

        If the score compares pair by pair, it transforms them later, together with the relative positions.
        """
        if not self.pairwise:
            query, key = self.score.prepare(query, key)
        return query.to(value.dtype), key.to(value.dtype)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attention of every query over every key without dropout: outputs (B, H, T, K) and weights (B, H, T, S)."""
        return self.attend_prepared(*self.score_inputs(query, key, value), value, allowed)

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
        """`attend` for prepared queries and keys; `first` is the distance of the first key from the first query."""
        options = {"normalizer": self.normalizer, "relative": self.relative, "first": first, "dropout": dropout}
        if self.pairwise:
            return attend_pairs(query, key, value, allowed, score=self.score, **options)
        return attend(
            query, key, value, allowed, scale=self.score.scale, additive_vector=self.score.additive_vector, **options
        )

    def attend_cached(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, first: int = 0, fused: bool = False
    ) -> Tensor:
        """The layer's output (B, T, D) for prepared queries over cached keys and values; see `attend_prepared`.

        `fused` uses PyTorch's fused kernel where it applies: fewer operations, but not available in exported graphs.
        """
        dropout = self.dropout if self.training else 0.0
        if fused and self.relative is None and self.score.additive_vector is None and self.normalizer == "softmax":
            attended = attend_fused(query, key, value, mask, scale=self.score.scale, dropout=dropout)
        else:
            attended, _ = self.attend_prepared(query, key, value, mask, first=first, dropout=dropout)
        return self.output(self.merge_heads(attended))

    def build_mask(self, query: Tensor, key: Tensor, padding: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """Combine padding, mask and window into one mask that broadcasts to (B, H, T, S); `None` allows everything."""
        return allowed_pairs(query, key, self.left, self.right, padding, mask)


def make_positions(positions: str | nn.Module | None, width: int) -> tuple[Rotary | None, RelativePositions | None]:
    """The rotary and the relative positions for heads of that width, at most one of which is not `None`."""
    if isinstance(positions, str):
        positions = named(IN_ATTENTION, "positions", positions)(width)
    elif isinstance(positions, Rotary | RelativePositions):
        positions = copy.deepcopy(positions)
    elif positions is not None:
        raise InputError(f"positions={type(positions).__name__} has no effect in attention; use {list(IN_ATTENTION)}")
    if positions is not None and positions.width != width:
        raise InputError(f"positions of width {positions.width} do not fit heads of width {width}")
    rotary = positions if isinstance(positions, Rotary) else None
    return rotary, positions if rotary is None else None


def check_heads(heads: int, width: int) -> None:
    """Check that the heads divide the model width."""
    if heads < 1 or width % heads:
        raise InputError(f"heads={heads} does not divide width={width}")
