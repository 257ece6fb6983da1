"""Truncated attention by PyTorch's compiled block-sparse kernel. CUDA only: on CPU it has no backward pass.

Shapes: B batch, H heads, T tokens, K head width.
"""

import functools

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from vitspeech.attention.masks import window_counts


def attend(
    query: Tensor, key: Tensor, value: Tensor, left: int, right: int, padding: Tensor | None, scale: float
) -> Tensor:
    """softmax(QKᵀ · scale)V over the valid keys t-left .. t+right of each query t; zeros for a query without any.

    Shape:
        (B, H, T, K), (B, H, T, K), (B, H, T, V), padding (B, T) or None -> (B, H, T, V)
    """
    if query.numel() == 0:
        return value + 0 * (query.sum() + key.sum())  # so that all three have gradients
    mask = block_mask(query, left, right, padding)
    attended = kernel(query.device.type)(query, key, value, block_mask=mask, scale=scale)
    if padding is None:
        return attended
    counts = window_counts(padding, query.shape[2], left, right, query.device)
    return attended.masked_fill((counts == 0)[:, None, :, None], 0)


@functools.cache
def kernel(device: str):
    """`flex_attention`, compiled on CUDA; elsewhere as it is, for tests."""
    return torch.compile(flex_attention) if device == "cuda" else flex_attention


def block_mask(query: Tensor, left: int, right: int, padding: Tensor | None) -> BlockMask:
    """The blocks of query-key pairs to compute; without padding they depend on the length alone."""
    if padding is None:
        return window_blocks(query.shape[2], left, right, query.device)

    def allowed(batch: Tensor, head: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return (s - t >= -left) & (s - t <= right) & padding[batch, s]

    batch, _, tokens, _ = query.shape
    return create_block_mask(allowed, batch, None, tokens, tokens, query.device)


@functools.lru_cache(maxsize=32)
def window_blocks(tokens: int, left: int, right: int, device: torch.device) -> BlockMask:
    """The blocks of a window, cached by length.

    Shape:
        -> (1, 1, T, T) in blocks
    """

    def allowed(batch: Tensor, head: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return (s - t >= -left) & (s - t <= right)

    return create_block_mask(allowed, None, None, tokens, tokens, device)
