"""Truncated self-attention, exact, in time and memory that grow with the sequence and not with its square.

Shapes: B batch, H heads, T tokens, K head width.
"""

from typing import Any

import torch
from torch import Tensor

from vitspeech.attention.dense import FUSED_FROM_KEYS, attend, attend_fused, can_be_fused
from vitspeech.attention.masks import check_context, check_padding, window_counts, window_mask
from vitspeech.attention.positions import RelativePositions
from vitspeech.attention.scores import NORMALIZERS, ScaledDot, Score, named
from vitspeech.attention.windowed import flex
from vitspeech.attention.windowed.blocks import BLOCK
from vitspeech.attention.windowed.blockwise import Blockwise, Window, lowest


def truncated_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    left: int | None,
    right: int | None,
    *,
    padding: Tensor | None = None,
    score: Score | None = None,
    normalizer: str = "softmax",
    relative: RelativePositions | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Each query t attends to keys t-left .. t+right (Yeh et al. 2019, arXiv:1910.12977, sec. 2.3).

    The result is that of attention with `window_mask`, at both borders, too. On CPU blocks of queries meet the
    slabs of keys that they see; on CUDA a compiled block-sparse kernel does so where it can (softmax over dot
    products without dropout and relative positions), and the blocks elsewhere. A whole past without look-ahead
    is the fused kernel's causal attention. None of them holds T x T numbers; only a sequence that is hardly longer
    than its window (1,024 tokens at most) is computed whole, with a mask.

    Args:
        query: Queries.
        key: Keys.
        value: Values; may have another width than the keys.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        padding: True for valid tokens; others are attended by none.
        score: How relevant a key is; `None` is `ScaledDot`.
        normalizer: `softmax` or `relu`.
        relative: Relative positions for keys and values.
        dropout: Share of weights dropped.

    Shape:
        (B, H, T, K), (B, H, T, K), (B, H, T, V), padding (B, T) -> (B, H, T, V); a query that may attend to nothing
        gets zeros

    Raises:
        ValueError: If a context is negative, the shapes do not fit, or `normalizer` is unknown.
    """
    check_context(left, right)
    named(NORMALIZERS, "normalizer", normalizer)
    if query.ndim != 4 or key.shape != query.shape or value.shape[:3] != query.shape[:3] or value.ndim != 4:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ValueError(f"{shapes}: not (B, H, T, K) twice and (B, H, T, V)")
    batch, heads, tokens, width = query.shape
    if padding is not None:
        check_padding(padding, batch, tokens)
    score = ScaledDot(heads, width) if score is None else score
    query, key = (part.to(value.dtype) for part in score.prepare(query, key))
    left, right = (max(tokens - 1, 0) if side is None else min(side, max(tokens - 1, 0)) for side in (left, right))
    fusable = can_be_fused(score, normalizer, relative) and dropout == 0  # with dropout the kernel holds all weights
    if fusable and flex.serves(query, value):
        return flex.attend(query, key, value, left, right, padding, score.scale)
    options = {"scale": score.scale, "normalizer": normalizer, "dropout": dropout}
    if padding is None and left >= tokens - 1 and right == 0 and tokens >= FUSED_FROM_KEYS and fusable:
        return attend_fused(query, key, value, scale=score.scale, causal=True)
    if tokens <= min(left + right + BLOCK, FUSED_FROM_KEYS) and score.energy is None:
        mask = window_mask(tokens, tokens, left, right, query.device)
        mask = mask if padding is None else mask & padding[:, None, None]
        return attend(query, key, value, mask, relative=relative, **options)[0]
    energy, tables = score.energy, (None, None) if relative is None else (relative.key, relative.value)
    parameters = (None if table is None else table.to(value.dtype) for table in (energy, *tables))
    counts = window_counts(padding, tokens, left, right, query.device)
    return blockwise(query, key, value, *parameters, window_of(left, right, padding, counts, value.dtype, **options))


def window_of(
    left: int, right: int, padding: Tensor | None, counts: Tensor, dtype: torch.dtype, *, dropout: float, **options: Any
) -> Window:
    """The window for `Blockwise`, with the factor that each query's result takes and the seed of its dropout.

    Args:
        counts: How many keys each query may attend to (B or 1, T).
        dtype: That of the results.
        **options: `scale` and `normalizer`.
    """
    factor = None
    if options["normalizer"] == "relu":
        factor = (counts > 0).to(dtype) / counts.clamp(min=1)
    elif padding is not None:
        factor = (counts > 0).to(dtype)
    hidden = None if padding is None else torch.zeros_like(padding, dtype=dtype).masked_fill_(~padding, lowest(dtype))
    seed = int(torch.randint(2**62, ())) if dropout else 0
    return Window(left, right, hidden=hidden, factor=factor, dropout=dropout, seed=seed, block=BLOCK, **options)


@torch.compiler.disable
def blockwise(*arguments: Tensor | Window | None) -> Tensor:
    """`Blockwise`, left alone by `torch.compile`: it reuses buffers, which a traced graph may not."""
    return Blockwise.apply(*arguments)
