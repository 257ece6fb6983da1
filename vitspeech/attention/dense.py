"""Attention of every query over every key: written out, and by PyTorch's fused kernel.

Shapes: B batch, H heads, T query tokens, S source tokens, K head width.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.attention.positions import RelativePositions
from vitspeech.attention.scores import Score, compare, compare_pairs, weights_of


def attend_dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    score: Score,
    *,
    fused: bool,
    normalizer: str,
    relative: RelativePositions | None,
    dropout: float,
) -> Tensor:
    """Attention of every query over every key by the fused kernel or by `attend` or `attend_pairs`, as these take it.

    Queries and keys are not prepared by the score yet; they get the dtype of the values, as autocast may have raised
    theirs.

    Shape:
        (B, H, T, K), (B, H, S, K), (B, H, S, K) -> (B, H, T, K)
    """
    options = {"normalizer": normalizer, "relative": relative, "dropout": dropout}
    if relative is not None and not score.linear_in_key:
        query, key = query.to(value.dtype), key.to(value.dtype)
        return attend_pairs(query, key, value, mask, score=score, **options)[0]
    query, key = (part.to(value.dtype) for part in score.prepare(query, key))
    if fused:
        return attend_fused(query, key, value, mask, scale=score.scale, dropout=dropout)
    return attend(query, key, value, mask, scale=score.scale, additive_vector=score.additive_vector, **options)[0]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    additive_vector: Tensor | None = None,
    normalizer: str = "softmax",
    relative: RelativePositions | None = None,
    first: int = 0,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(QKᵀ/√K)V and its weights, written out. The faster kernels are tested against this function.

    Args:
        query: Queries, prepared by the score.
        key: Keys, prepared by the score.
        value: Values.
        mask: True where attention is allowed, broadcast to (B, H, T, S); `None` allows everything.
        scale: Factor of the dot products; `None` is 1/√K.
        additive_vector: v of the additive score (H, K), which replaces the dot product.
        normalizer: `softmax` or `relu`.
        relative: Relative positions, whose vectors are added to keys and values.
        first: Distance of the first key from the first query, for `relative`.
        dropout: Dropout probability of the weights.

    Shape:
        (B, H, T, K), (B, H, S, K), (B, H, S, K) -> (B, H, T, K), weights (B, H, T, S)
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    # Autocast would convert the softmax to single precision and back: more passes over scores already rounded.
    with torch.autocast(query.device.type, enabled=False):
        scores = compare(query, key, scale, None if additive_vector is None else additive_vector.to(query.dtype))
        if relative is not None:
            scores = scores + relative.scores(query * scale, key.shape[-2], first)
    return weighted_sum(scores, value, mask, normalizer=normalizer, relative=relative, first=first, dropout=dropout)


def attend_pairs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    score: Score,
    relative: RelativePositions,
    normalizer: str = "softmax",
    first: int = 0,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`attend` with relative positions for a score that is not linear in the key: needs K numbers for every pair.

    Queries and keys are not prepared: the score compares each query with the sum of each key and the vector of their
    distance.

    Shape:
        (B, H, T, K), (B, H, S, K), (B, H, S, K) -> (B, H, T, K), weights (B, H, T, S)
    """
    scores = compare_pairs(score, query, relative.keys(key, query.shape[-2], first)).to(value.dtype)
    return weighted_sum(scores, value, mask, normalizer=normalizer, relative=relative, first=first, dropout=dropout)


def weighted_sum(
    scores: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    normalizer: str,
    relative: RelativePositions | None,
    first: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """The values summed with the weights of the scores, and these weights; arguments as in `attend`.

    Shape:
        (B, H, T, S), (B, H, S, K) -> (B, H, T, K), weights (B, H, T, S)
    """
    with torch.autocast(scores.device.type, enabled=False):
        weights = weights_of(scores, mask, normalizer)
        dropped = F.dropout(weights, dropout) if dropout else weights
        attended = dropped @ value
        if relative is not None:
            attended = attended + relative.values(dropped, first)
    return attended, weights


def attend_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """softmax(QKᵀ · scale)V by PyTorch's fused kernel, which does not store the weights.

    `mask` is as in `attend`. `causal` replaces it: no query attends to a later key.

    Shape:
        (B, H, T, K), (B, H, S, K), (B, H, S, K) -> (B, H, T, K)
    """
    options = {"attn_mask": mask, "dropout_p": dropout, "scale": scale, "is_causal": causal}
    attended = F.scaled_dot_product_attention(query, key, value, **options)
    if mask is None:
        return attended
    # Kernels differ in their output for a query that may attend to nothing; here it is always zero.
    return attended.masked_fill(~mask.any(-1, keepdim=True), 0)
