"""Truncated self-attention, exact, in time and memory that grow with the sequence and not with its square.

Shapes: B batch, H heads, T tokens, K head width.
"""

import torch
from torch import Tensor

from vitspeech.attention import flex
from vitspeech.attention.blocks import BLOCK
from vitspeech.attention.blockwise import Blockwise, Window
from vitspeech.attention.dense import FUSED_FROM_KEYS, attend, can_be_fused, window_counts
from vitspeech.attention.masks import check_context, check_padding, window_mask
from vitspeech.attention.positions import RelativePositions
from vitspeech.attention.scores import NORMALISERS, ScaledDot, Score, named


def truncated_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    left: int | None,
    right: int | None,
    *,
    padding: Tensor | None = None,
    score: Score | None = None,
    normaliser: str = "softmax",
    relative: RelativePositions | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Each query t attends to keys t-left .. t+right (Yeh et al. 2019, arXiv:1910.12977, sec. 2.3).

    The result is that of attention with `window_mask`, at both borders, too. On CPU blocks of queries meet the
    slabs of keys that they see; on CUDA a compiled block-sparse kernel does so where it can (softmax over dot
    products without dropout and relative positions), and the blocks elsewhere.

    Args:
        query: Queries.
        key: Keys.
        value: Values; may have another width than the keys.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        padding: True for valid tokens; others are attended by none.
        score: How relevant a key is; `None` is `ScaledDot`.
        normaliser: `softmax` or `relu`.
        relative: Relative positions for keys and values.
        dropout: Share of weights dropped.

    Shape:
        (B, H, T, K), (B, H, T, K), (B, H, T, V), padding (B, T) -> (B, H, T, V); a query that may attend to nothing
        gets zeros

    Raises:
        ValueError: If a context is negative, the shapes do not fit, or `normaliser` is unknown.
    """
    check_context(left, right)
    named(NORMALISERS, "normaliser", normaliser)
    if query.ndim != 4 or key.shape != query.shape or value.shape[:3] != query.shape[:3] or value.ndim != 4:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ValueError(f"{shapes}: not (B, H, T, K) twice and (B, H, T, V)")
    batch, heads, tokens, width = query.shape
    if padding is not None:
        check_padding(padding, batch, tokens)
    score = ScaledDot(heads, width) if score is None else score
    prepared, key = (part.to(value.dtype) for part in score.prepare(query, key))
    scoring = {"scale": score.scale, "energy": None if score.energy is None else score.energy.to(value.dtype)}
    left, right = (max(tokens - 1, 0) if side is None else min(side, max(tokens - 1, 0)) for side in (left, right))
    if query.device.type == "cuda" and dropout == 0 and can_be_fused(score, normaliser, relative):
        return flex.attend(prepared, key, value, left, right, padding, score.scale)
    if tokens <= min(left + right + BLOCK, FUSED_FROM_KEYS):
        mask = window_mask(tokens, tokens, left, right, query.device)
        mask = mask if padding is None else mask & padding[:, None, None]
        return attend(prepared, key, value, mask, **scoring, normaliser=normaliser, relative=relative, dropout=dropout)[
            0
        ]
    counts = window_counts(padding, tokens, left, right, query.device)
    tables = (None, None) if relative is None else (relative.key.to(value.dtype), relative.value.to(value.dtype))
    factor = None
    if normaliser == "relu" or padding is not None:
        factor = (counts > 0).to(value.dtype)
    if normaliser == "relu":
        factor = factor / counts.clamp(min=1)
    seed = int(torch.randint(2**62, ())) if dropout else 0
    window = Window(left, right, score.scale, normaliser, padding, factor, dropout, seed, BLOCK)
    return blockwise(prepared, key, value, scoring["energy"], *tables, window)


@torch.compiler.disable
def blockwise(*arguments: Tensor | Window | None) -> Tensor:
    """`Blockwise`, left alone by `torch.compile`: it reuses buffers, which a traced graph may not."""
    return Blockwise.apply(*arguments)
