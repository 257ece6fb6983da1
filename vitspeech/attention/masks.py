"""Attention masks: padding, causal, truncated.

Masks are boolean and true where attention is allowed, as in `torch.nn.functional.scaled_dot_product_attention`. They
combine with `&`.

Shapes: B batch, T query tokens, S source tokens.
"""

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.errors import check_number


def padding_mask(lengths: Tensor, tokens: int) -> Tensor:
    """True for valid tokens, false for padding.

    Args:
        lengths: Number of valid tokens of each sequence.
        tokens: Length S of the padded batch.

    Shape:
        (B,) -> (B, S)
    """
    return torch.arange(tokens, device=lengths.device) < lengths[:, None]


def window_mask(
    queries: int, keys: int, left: int | None, right: int | None, device: torch.device | None = None
) -> Tensor:
    """The mask of truncated self-attention: true where key s is within t-left .. t+right of query t.

    Yeh et al. 2019 (arXiv:1910.12977), sec. 2.3. `window_mask(T, T, None, 0)` is the causal mask.

    Args:
        queries: Query tokens T.
        keys: Source tokens S.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        device: Device of the mask.

    Shape:
        -> (T, S)
    """
    offset = torch.arange(keys, device=device) - torch.arange(queries, device=device)[:, None]
    allowed = torch.ones_like(offset, dtype=torch.bool)
    if left is not None:
        allowed &= offset >= -left
    if right is not None:
        allowed &= offset <= right
    return allowed


def causal_mask(tokens: int, device: torch.device | None = None) -> Tensor:
    """True where key s is not after query t: (T, T)."""
    return window_mask(tokens, tokens, None, 0, device)


def window_counts(padding: Tensor | None, tokens: int, left: int, right: int, device: torch.device) -> Tensor:
    """The number of valid keys within t-left .. t+right of each query t, in time linear in T.

    Shape:
        padding (B, T) or None -> (B, T), or (1, T) without padding
    """
    valid = torch.ones(1, tokens, dtype=torch.long, device=device) if padding is None else padding.long()
    before = F.pad(valid.cumsum(1), (1, 0))
    position = torch.arange(tokens, device=device)
    return before[:, (position + right + 1).clamp(max=tokens)] - before[:, (position - left).clamp(min=0)]


def allowed_pairs(
    query: Tensor, key: Tensor, left: int | None, right: int | None, padding: Tensor | None, mask: Tensor | None = None
) -> Tensor | None:
    """Combine window, padding and mask into one mask; `None` allows everything.

    Shape:
        query (B, H, T, K), key (B, H, S, K), padding (B, S), mask that broadcasts to (B, H, T, S) -> the same
    """
    parts = []
    if padding is not None:
        check_padding(padding, query.shape[0], key.shape[-2])
        parts.append(padding[:, None, None])
    if mask is not None:
        check_mask(mask)
        parts.append(torch.atleast_2d(mask))
    if left is not None or right is not None:
        parts.append(window_mask(query.shape[-2], key.shape[-2], left, right, query.device))
    return functools.reduce(torch.logical_and, parts) if parts else None


def check_context(left: int | None, right: int | None) -> None:
    """Refuse a past context or a look-ahead below 0; `None` is unlimited."""
    for name, context in (("left", left), ("right", right)):
        check_number(name, context or 0, 0)


def check_mask(mask: Tensor) -> None:
    """Refuse a mask that is not boolean: one of 0 and -infinity, to be added, would allow everything."""
    if mask.dtype != torch.bool:
        raise ValueError(f"the mask has dtype {mask.dtype}; masks are boolean, true where attention is allowed")


def check_padding(padding: Tensor, batch: int, tokens: int) -> None:
    """Refuse a padding mask that is not boolean and (B, S)."""
    check_mask(padding)
    if padding.shape != (batch, tokens):
        raise ValueError(f"padding of shape {tuple(padding.shape)} is not {(batch, tokens)}")
