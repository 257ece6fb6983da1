"""Which query may attend to which key: padding, causal, truncated.

Masks are boolean and true where attention is allowed (the convention of
`torch.nn.functional.scaled_dot_product_attention`); masks combine with `&`.

Shapes: B batch, T query tokens, S source tokens.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def padding_mask(lengths: Tensor, tokens: int) -> Tensor:
    """True for the tokens that are not padding.

    Args:
        lengths: Valid tokens of each sequence.
        tokens: Tokens S that the padded batch has.

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
    """True where key s lies in t-left .. t+right of query t: truncated self-attention.

    Yeh et al. 2019 (arXiv:1910.12977), sec. 2.3. `window_mask(T, T, None, 0)` is the causal mask.

    Args:
        queries: Query tokens T.
        keys: Source tokens S.
        left: Past context in tokens; `None` is unlimited.
        right: Look-ahead in tokens; `None` is unlimited, 0 is causal.
        device: Where the mask is made.

    Shape:
        -> (T, S)

    Raises:
        ValueError: If a context is negative.
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
    """True where key s is not after query t, shape (T, T)."""
    return window_mask(tokens, tokens, None, 0, device)


def window_counts(padding: Tensor | None, tokens: int, left: int, right: int, device: torch.device) -> Tensor:
    """How many valid keys lie in t-left .. t+right of each query t, without looking at pairs.

    Shape:
        padding (B, T) or None -> (B, T), or (1, T) without padding
    """
    valid = torch.ones(1, tokens, dtype=torch.long, device=device) if padding is None else padding.long()
    before = F.pad(valid.cumsum(1), (1, 0))
    position = torch.arange(tokens, device=device)
    return before[:, (position + right + 1).clamp(max=tokens)] - before[:, (position - left).clamp(min=0)]


def check_context(left: int | None, right: int | None) -> None:
    """Refuse a negative context, naming it.

    Raises:
        ValueError: If `left` or `right` is negative.
    """
    for name, context in (("left", left), ("right", right)):
        if context is not None and context < 0:
            raise ValueError(f"{name}={context} is negative; give 0 or more tokens, or None for unlimited")


def check_mask(name: str, mask: Tensor, scores: tuple[int, ...]) -> None:
    """Refuse a mask that is not boolean or does not broadcast to `scores`, naming both shapes.

    Args:
        name: What the caller calls it.
        mask: The mask.
        scores: The shape to broadcast to.

    Raises:
        ValueError: If it is so.
    """
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} has dtype {mask.dtype}; a mask is boolean, true where attention is allowed")
    sizes = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.ndim > len(scores) or not all(size in (1, whole) for size, whole in sizes):
        raise ValueError(f"{name} of shape {tuple(mask.shape)} does not broadcast to {scores}")


def check_padding(padding: Tensor, batch: int, tokens: int) -> None:
    """Refuse padding that is not boolean or not (B, S), naming both shapes.

    Args:
        padding: The padding mask.
        batch: Sequences B.
        tokens: Tokens S of each.

    Raises:
        ValueError: If it is so.
    """
    check_mask("padding", padding, (batch, tokens))
    if padding.shape != (batch, tokens):
        raise ValueError(f"padding of shape {tuple(padding.shape)} is not {(batch, tokens)}")
