"""Windowed attention with relative positions for scores that are not linear in the key, one vector per pair.

Such a score of k + r cannot be split into a part for the key k and a part for the relative position r. Blocks of
queries are computed one after the other, and again in the backward pass: memory is linear in the sequence length.

Shapes: B batch, H heads, T tokens, K head width, V width of the values.
"""

import functools

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from vitspeech.attention.dense import attend_pairs
from vitspeech.attention.masks import window_mask
from vitspeech.attention.positions import RelativePositions
from vitspeech.attention.scores import Score
from vitspeech.attention.windowed.blocks import BLOCK

PAIRS_AT_ONCE = 2**21  # numbers in the vectors of all pairs of a block


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    left: int,
    right: int,
    *,
    padding: Tensor | None,
    score: Score,
    relative: RelativePositions,
    normalizer: str,
    dropout: float,
) -> Tensor:
    """Attention of each query t to the valid keys t-left .. t+right; queries and keys are not prepared by the score.

    Shape:
        (B, H, T, K), (B, H, T, K), (B, H, T, V), padding (B, T) or None -> (B, H, T, V)
    """
    tokens = query.shape[2]
    keys = min(left + right + 1, tokens)
    block = max(min(PAIRS_AT_ONCE // max(query[:, :, :1].numel() * keys, 1), BLOCK), 1)
    step = functools.partial(
        attend_block, left=left, right=right, score=score, relative=relative, normalizer=normalizer, dropout=dropout
    )
    attended = []
    for start in range(0, max(tokens, 1), block):  # an empty block if there is no token: all have gradients
        first, last = max(start - left, 0), min(start + block, tokens) + right
        part = query[:, :, start : start + block], key[:, :, first:last], value[:, :, first:last]
        valid = None if padding is None else padding[:, None, None, first:last]
        if torch.is_grad_enabled():
            options = {"use_reentrant": False, "preserve_rng_state": dropout > 0}
            attended.append(checkpoint(step, *part, valid, start - first, **options))
        else:
            attended.append(step(*part, valid, start - first))
    return torch.cat(attended, dim=2)


def attend_block(
    query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None, past: int, *, left: int, right: int, **options
) -> Tensor:
    """The outputs of a block, whose first key is `past` tokens before its first query; `valid` is false for padding."""
    mask = window_mask(query.shape[2], key.shape[2], left - past, right + past, query.device)
    mask = mask if valid is None else mask & valid
    return attend_pairs(query, key, value, mask, first=-past, **options)[0]
