"""Truncated self-attention, exact, in time and memory linear in the sequence length.

Shapes: B batch, H heads, T tokens, K head width.
"""

from typing import Any

import torch
from torch import Tensor

from vitspeech.attention.dense import attend_dense, attend_fused
from vitspeech.attention.kernels import Kernel, choose_kernel, request_for
from vitspeech.attention.masks import allowed_pairs, check_context, check_padding, window_counts
from vitspeech.attention.positions import RelativePositions
from vitspeech.attention.scores import NORMALIZERS, ScaledDot, Score
from vitspeech.attention.windowed import pairwise
from vitspeech.attention.windowed.blocks import BLOCK
from vitspeech.attention.windowed.blockwise import Blockwise, Window
from vitspeech.errors import named


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
    """Attention of each query t to keys t-left .. t+right (Yeh et al. 2019, arXiv:1910.12977, sec. 2.3).

    The result equals attention with `window_mask`, at both ends of the sequence too. No kernel stores T x T
    numbers, except for sequences of at most 1,024 tokens that are hardly longer than their window, and in exported
    graphs. `choose_kernel` decides how it is computed: by blocks of queries on CPU; on CUDA by a compiled
    block-sparse kernel for softmax over dot products without dropout and relative positions, and by blocks
    otherwise; and by PyTorch's fused causal kernel for an unlimited past and no look-ahead, on CUDA or if the
    sequence is long. Relative positions are computed pair by pair if the score is not linear in the key.

    Args:
        query: Queries.
        key: Keys.
        value: Values; may have another width than the keys.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        padding: True for valid tokens; no query attends to the others.
        score: How queries and keys are compared; `None` is `ScaledDot`.
        normalizer: `softmax` or `relu`.
        relative: Relative positions for keys and values, which then have the same width, K = V.
        dropout: Dropout probability of the weights.

    Shape:
        (B, H, T, K), (B, H, T, K), (B, H, T, V), padding (B, T) -> (B, H, T, V); zeros for a query that may attend
        to nothing

    Raises:
        ValueError: If a context is negative, shapes do not match, or `normalizer` is unknown.
    """
    check_context(left, right)
    named(NORMALIZERS, "normalizer", normalizer)
    if query.ndim != 4 or key.shape != query.shape or value.shape[:3] != query.shape[:3] or value.ndim != 4:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ValueError(f"{shapes} are not (B, H, T, K), (B, H, T, K) and (B, H, T, V)")
    batch, heads, tokens, width = query.shape
    if padding is not None:
        check_padding(padding, batch, tokens)
    score = ScaledDot(heads, width) if score is None else score
    options = {"normalizer": normalizer, "relative": relative, "dropout": dropout}
    window = None if left is None and right is None else (left, right)
    kernel = choose_kernel(request_for(key, value, score, **options, window=window, padding=padding is not None))
    if kernel in (Kernel.FUSED, Kernel.EXPLICIT):
        mask = allowed_pairs(query, key, left, right, padding)
        return attend_dense(query, key, value, mask, score, fused=kernel is Kernel.FUSED, **options)
    last = max(tokens - 1, 0)
    left, right = (last if context is None else min(context, last) for context in (left, right))
    attend_pairwise, attend_blockwise = pairwise.attend, Blockwise.apply
    if torch.compiler.is_compiling():
        from vitspeech.attention.windowed.uncompiled import attend_blockwise, attend_pairwise
    if kernel is Kernel.PAIRWISE:
        query, key = query.to(value.dtype), key.to(value.dtype)
        return attend_pairwise(query, key, value, left, right, padding=padding, score=score, **options)
    query, key = (part.to(value.dtype) for part in score.prepare(query, key))
    if kernel is Kernel.FLEX:
        from vitspeech.attention.windowed import flex  # and with it torch's compiler

        return flex.attend(query, key, value, left, right, padding, score.scale)
    if kernel is Kernel.FUSED_CAUSAL:
        return attend_fused(query, key, value, scale=score.scale, causal=True)
    additive, tables = (
        score.additive_vector,
        (None, None) if relative is None else (relative.key, relative.value),
    )
    parameters = (None if table is None else table.to(value.dtype) for table in (additive, *tables))
    counts = window_counts(padding, tokens, left, right, query.device)
    options = {"scale": score.scale, "normalizer": normalizer, "dropout": dropout}
    window = make_window(left, right, padding, counts, value.dtype, **options)
    return attend_blockwise(query, key, value, *parameters, window)


def make_window(
    left: int, right: int, padding: Tensor | None, counts: Tensor, dtype: torch.dtype, *, dropout: float, **options: Any
) -> Window:
    """The window for `Blockwise`, with the factor of each query's output and the seed of its dropout.

    Args:
        counts: Number of keys that each query may attend to (B or 1, T).
        dtype: Of the outputs.
        **options: `scale` and `normalizer`.
    """
    factor = None
    if options["normalizer"] == "relu":
        factor = (counts > 0).to(dtype) / counts.clamp(min=1)
    elif padding is not None:
        factor = (counts > 0).to(dtype)
    greatest = None
    if padding is not None:
        lowest = torch.finfo(dtype).min
        greatest = torch.full_like(padding, torch.inf, dtype=dtype).masked_fill_(~padding, lowest)
    seed = int(torch.randint(2**62, ())) if dropout else 0
    return Window(left, right, greatest=greatest, factor=factor, dropout=dropout, seed=seed, block=BLOCK, **options)
