"""Truncated attention by PyTorch's compiled block-sparse kernel. CUDA only: on CPU it has no backward pass.

Shapes: B batch, H heads, T tokens, K head width.
"""

import copy
import functools

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from vitspeech.attention.masks import window_counts

SIDE = 128  # tokens of a block, PyTorch's default


@torch.compiler.disable
def attend(
    query: Tensor, key: Tensor, value: Tensor, left: int, right: int, padding: Tensor | None, scale: float
) -> Tensor:
    """softmax(QKᵀ · scale)V over the valid keys t-left .. t+right of each query t; zeros for a query without any.

    Excluded from the graph of a compiled network, in which the mask would be computed again in each layer; the kernel
    is compiled by itself.

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
    """The blocks of query-key pairs to compute. All layers and batches of a length share the tensors.

    With padding, every block is masked pair by pair, so that the blocks do not depend on the padding.
    """
    blocks = window_blocks(query.shape[2], left, right, query.device, padding is not None)
    if padding is None:
        return blocks
    within = blocks.mask_mod

    def allowed(batch: Tensor, head: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return within(batch, head, t, s) & padding[batch, s]

    masked = copy.copy(blocks)  # the constructor's arguments differ between versions of torch
    masked.mask_mod = allowed
    return masked


@functools.lru_cache(maxsize=32)
def window_blocks(tokens: int, left: int, right: int, device: torch.device, padded: bool) -> BlockMask:
    """The blocks of a window from their first and last tokens, without a mask of all pairs.

    If `padded`, all blocks are masked pair by pair, those within the window too.

    Shape:
        -> (1, 1, T, T) in blocks
    """

    def within(batch: Tensor, head: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return (s - t >= farthest[0]) & (s - t <= farthest[1])

    with torch.inference_mode(False):  # the cached tensors may be used in training, too
        # In a tensor, since a second window would turn integers into symbols, which the kernel cannot compile.
        farthest = torch.tensor([-left, right], device=device)
        first = torch.arange(0, tokens, SIDE, device=device)
        last = (first + SIDE - 1).clamp(max=tokens - 1)
        # Distances key - query in a block of query block i and key block j: all from least[i, j] to most[i, j].
        least, most = first - last[:, None], last - first[:, None]
        some = (most >= -left) & (least <= right)
        complete = last - first == SIDE - 1
        every = (least >= -left) & (most <= right) & complete & complete[:, None] & (not padded)
        parts = *ordered(some & ~every), *ordered(every)
        return BlockMask.from_kv_blocks(*parts, BLOCK_SIZE=SIDE, mask_mod=within, seq_lengths=(tokens, tokens))


def ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The number of true blocks in each row, and their columns, followed by the other columns.

    Shape:
        (N, N) -> (1, 1, N), (1, 1, N, N)
    """
    columns = blocks.int().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32)[None, None], columns.int()[None, None]
