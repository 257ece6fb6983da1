"""Attention masks: padding, causal, truncated.

Masks are boolean and true where attention is allowed, as in `torch.nn.functional.scaled_dot_product_attention`. They
combine with `&`.

Shapes: B batch, T query tokens, S source tokens.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.errors import InputError


def padding_mask(lengths: Tensor, tokens: int) -> Tensor:
    """True for valid tokens, false for padding.

    Args:
        lengths: Number of valid tokens of each sequence.
        tokens: Length S of the padded batch.

    Shape:
        (B,) -> (B, S)

    Raises:
        ValueError: If a length is negative or exceeds `tokens`.
    """
    if lengths.numel() and (lengths.min() < 0 or lengths.max() > tokens):
        raise ValueError(f"lengths={lengths.tolist()} do not lie within 0..{tokens}")
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

    Raises:
        InputError: If a context is negative.
    """
    check_context(left, right)
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


def check_context(left: int | None, right: int | None) -> None:
    """Check that a context is not negative.

    Raises:
        InputError: If `left` or `right` is negative.
    """
    for name, context in (("left", left), ("right", right)):
        if context is not None and context < 0:
            raise InputError(f"{name}={context} is negative; give 0 or more tokens, or None for unlimited")


def check_mask(name: str, mask: Tensor, scores: tuple[int, ...]) -> None:
    """Check that a mask is boolean and broadcasts to the shape of the scores.

    Args:
        name: Argument name for the message.
        mask: The mask.
        scores: Shape of the scores.

    Raises:
        ValueError: If it is not boolean or does not broadcast.
    """
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} has dtype {mask.dtype}; a mask is boolean, true where attention is allowed")
    sizes = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.ndim > len(scores) or not all(size in (1, full) for size, full in sizes):
        raise ValueError(f"{name} of shape {tuple(mask.shape)} does not broadcast to {scores}")


def check_padding(padding: Tensor, batch: int, tokens: int) -> None:
    """Check that a padding mask is boolean and of shape (B, S).

    Args:
        padding: The padding mask.
        batch: Batch size B.
        tokens: Length S.

    Raises:
        ValueError: If it is not.
    """
    check_mask("padding", padding, (batch, tokens))
    if padding.shape != (batch, tokens):
        raise ValueError(f"padding of shape {tuple(padding.shape)} is not {(batch, tokens)}")
