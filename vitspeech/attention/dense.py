"""Every query against every key: written out, and by the fused kernel.

Shapes: B batch, H heads, T query tokens, S source tokens, K head width.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.attention.positions import RelativePositions
from vitspeech.attention.scores import Score, compare, weights_of

# On CPU the explicit product is faster in half precision below this many keys: the fused kernel has no fast products
# for it. In single precision the fused one is, or ties. Measured at 16 to 1,024 tokens on two cores, both passes.
FUSED_FROM_KEYS = 1024


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    energy: Tensor | None = None,
    normalizer: str = "softmax",
    relative: RelativePositions | None = None,
    first: int = 0,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(QKᵀ/√K)V, written out, with its weights: the definition that everything faster is tested against.

    Args:
        query: Queries, prepared by the score.
        key: Keys, prepared by the score.
        value: Values.
        mask: True where attention is allowed; `None` allows everything.
        scale: What the dot products are multiplied by; `None` is 1/√K.
        energy: v of the additive score (H, K), in place of the dot product.
        normalizer: `softmax` or `relu`.
        relative: Adds its vectors to keys and values.
        first: Distance of the first key from the first query, for `relative`.
        dropout: Share of weights dropped.

    Shape:
        (B, H, T, K), (B, H, S, K), (B, H, S, K) -> (B, H, T, K), weights (B, H, T, S)
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    # Autocast would take the softmax to single precision and back: more passes for scores that are rounded anyway.
    with torch.autocast(query.device.type, enabled=False):
        scores = compare(query, key, scale, None if energy is None else energy.to(query.dtype))
        if relative is not None:
            scores = scores + relative.scores(query, key.shape[-2], first) * scale
        weights = weights_of(scores, mask, normalizer)
        kept = F.dropout(weights, dropout) if dropout else weights
        attended = kept @ value
        if relative is not None:
            attended = attended + relative.values(kept, first)
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
    """softmax(QKᵀ · scale)V by PyTorch's fused kernel, which never holds the weights.

    With `causal`, in place of a mask, no query sees a later key.

    Shape:
        (B, H, T, K), (B, H, S, K), (B, H, S, K) -> (B, H, T, K)
    """
    options = {"attn_mask": mask, "dropout_p": dropout, "scale": scale, "is_causal": causal}
    attended = F.scaled_dot_product_attention(query, key, value, **options)
    if mask is None:
        return attended
    # Kernels differ in what they give a query that may attend to nothing: here it is zero.
    return attended.masked_fill(~mask.any(-1, keepdim=True), 0)


def can_be_fused(score: Score, normalizer: str, relative: RelativePositions | None) -> bool:
    """Whether the fused kernel computes this: dot products, softmax, nothing between them."""
    return score.energy is None and normalizer == "softmax" and relative is None


def fused_is_faster(query: Tensor, key: Tensor) -> bool:
    """Whether to take the fused kernel: on CPU not for short sequences in half precision."""
    half = query.dtype in (torch.bfloat16, torch.float16)
    return query.device.type != "cpu" or not half or key.shape[-2] >= FUSED_FROM_KEYS
