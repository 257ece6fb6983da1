"""How a window over a sequence is cut into blocks of queries, each with the slab of keys that it sees.

Every key of a block's window lies in its slab, so nothing of T x T is ever held.

Shapes: B batch, H heads, T tokens, K head width, N blocks, R queries a block, W keys a slab.
"""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 32  # queries: fewer waste less of the slab, more feed the matrix product better; 32 won at windows of 65
LONE_BLOCK = 128  # queries of a block that has its own slab: borders, and windows about as long as the sequence
SCORES_AT_ONCE = {"cpu": 3 * 2**17, "cuda": 2**26}  # of which a CPU's second-level cache holds one to two tensors
WIDE_AT_ONCE = 2**20  # of lone blocks, which have long slabs, and of pairs that each hold a vector
HELD_AT_MOST = 2**21  # numbers of one buffer


@dataclass(frozen=True)
class Piece:
    """N blocks of R queries, each R after the one before; their slabs of W keys likewise."""

    query: int
    queries: int
    blocks: int
    key: int
    keys: int


def pieces(tokens: int, left: int, right: int, block: int = BLOCK) -> list[Piece]:
    """Every query once: the inner blocks with whole slabs together, each block at a border by itself.

    Args:
        tokens: Sequence length T.
        left: Past context, below T.
        right: Look-ahead, below T.
        block: Queries of an inner block.
    """
    first, last = -(-left // block), (tokens - right) // block
    if last - first < 2:
        first = last = 0
    inner = [Piece(first * block, block, last - first, first * block - left, left + block + right)]
    lone = [*range(0, first * block, LONE_BLOCK), *range(last * block, tokens, LONE_BLOCK)]
    made = inner if last else []
    for query in lone:
        end = min(query + LONE_BLOCK, first * block if query < first * block else tokens)
        key = max(query - left, 0)
        made.append(Piece(query, end - query, 1, key, min(end + right, tokens) - key))
    return made


@dataclass(frozen=True)
class Part:
    """Some of a piece's blocks in some of the heads: what is computed at once."""

    piece: Piece
    batch: slice
    heads: slice
    first: int
    blocks: int
    number: int

    def queries(self, tensor: Tensor) -> Tensor:
        """The blocks' rows of a (B, H, T, K) tensor, without a copy: (B', H', N, R, K)."""
        return self.rows(tensor, self.piece.query, 0, self.piece.queries)

    def keys(self, tensor: Tensor, start: int = 0, count: int | None = None) -> Tensor:
        """The slabs' rows, or `count` of each from `start` on: (B', H', N, W, K)."""
        return self.rows(tensor, self.piece.key, start, self.piece.keys if count is None else count)

    def rows(self, tensor: Tensor, base: int, start: int, count: int) -> Tensor:
        part = tensor[self.batch, self.heads]
        batch, head, row, column = part.stride()
        offset = part.storage_offset() + (base + self.first * self.piece.queries + start) * row
        size = (*part.shape[:2], self.blocks, count, part.shape[3])
        return part.as_strided(size, (batch, head, self.piece.queries * row, row, column), offset)


def parts(piece: Piece, batch: int, heads: int, blocks: int, number: int) -> Iterator[Part]:
    """Cut a piece of all sequences and heads into parts of about `blocks` blocks; `number` numbers the first."""
    blocks = max(blocks, 1)
    sequences = max(blocks // (piece.blocks * heads), 1)
    together = min(max(blocks // piece.blocks, 1), heads)
    for b in range(0, batch, sequences):
        for h in range(0, heads, together):
            for n in range(0, piece.blocks, blocks):
                rows = slice(b, min(b + sequences, batch)), slice(h, min(h + together, heads))
                yield Part(piece, *rows, n, min(blocks, piece.blocks - n), number)
                number += 1


class Buffers(threading.local):
    """Memory that is used again from part to part and from call to call: fresh pages cost more than products.

    One set a thread; a few MiB in all. On an accelerator the allocator does this already.
    """

    def __init__(self) -> None:
        self.held: dict[tuple[str, torch.dtype], Tensor] = {}

    def __call__(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        size = math.prod(shape)
        if like.device.type != "cpu" or size > HELD_AT_MOST:
            return like.new_empty(shape)
        held = self.held.get((name, like.dtype))
        if held is None or held.numel() < size:
            with torch.inference_mode(False):
                held = self.held[name, like.dtype] = torch.empty(size, dtype=like.dtype)
        return held[:size].view(shape)
