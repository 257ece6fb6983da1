"""Truncated attention by PyTorch's compiled block-sparse kernel, on CUDA alone: on CPU it has no backward.

Shapes: B batch, H heads, T tokens, K head width.
"""

import functools

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from vitspeech.attention.masks import window_counts

NARROWEST_HEAD = 16  # of the kernel's matrix products


def serves(query: Tensor, value: Tensor) -> bool:
    """Whether the kernel is there for such tensors."""
    narrow = min(query.shape[3], value.shape[3]) < NARROWEST_HEAD
    return query.device.type == "cuda" and query.dtype != torch.float64 and not narrow


def attend(
    query: Tensor, key: Tensor, value: Tensor, left: int, right: int, padding: Tensor | None, scale: float
) -> Tensor:
    """softmax(QKᵀ · scale)V over keys t-left .. t+right that are not padding; zeros where there is none.

    Shape:
        (B, H, T, K), (B, H, T, K), (B, H, T, V), padding (B, T) or None -> (B, H, T, V)
    """
    if query.numel() == 0:
        return value + 0 * (query.sum() + key.sum())  # gradients for all three
    mask = block_mask(query, left, right, padding)
    attended = kernel(query.device.type)(query, key, value, block_mask=mask, scale=scale)
    if padding is None:
        return attended
    counts = window_counts(padding, query.shape[2], left, right, query.device)
    return attended.masked_fill((counts == 0)[:, None, :, None], 0)


@functools.cache
def kernel(device: str):
    """The kernel, compiled where that is what makes it one."""
    return torch.compile(flex_attention) if device == "cuda" else flex_attention


def block_mask(query: Tensor, left: int, right: int, padding: Tensor | None) -> BlockMask:
    """Which blocks of pairs are to be looked at; without padding the same for every batch of that length."""
    if padding is None:
        return window_blocks(query.shape[2], left, right, query.device)

    def allowed(batch: Tensor, head: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return (s - t >= -left) & (s - t <= right) & padding[batch, s]

    batch, _, tokens, _ = query.shape
    return create_block_mask(allowed, batch, None, tokens, tokens, query.device)


@functools.lru_cache(maxsize=32)
def window_blocks(tokens: int, left: int, right: int, device: torch.device) -> BlockMask:
    """The window's blocks, made once for each length.

    Shape:
        -> (1, 1, T, T) in blocks
    """

    def allowed(batch: Tensor, head: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return (s - t >= -left) & (s - t <= right)

    return create_block_mask(allowed, None, None, tokens, tokens, device)
