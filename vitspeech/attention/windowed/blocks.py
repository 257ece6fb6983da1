"""The division of windowed attention into blocks of queries, each with its slab: the keys of all its windows.

No T x T tensor is stored.

Shapes: B batch, H heads, T tokens, K head width, N blocks, R queries per block, W keys per slab.
"""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = (
    32  # queries: smaller blocks waste less of a slab, larger ones multiply faster; 32 was fastest for windows of 65
)
LONE_BLOCK = 128  # queries of a block computed by itself: at the ends, and for windows about as long as the sequence
SCORES_AT_ONCE = {"cpu": 3 * 2**17, "cuda": 2**26}  # a second-level CPU cache holds one or two such tensors
WIDE_AT_ONCE = 2**20  # scores of lone blocks, which have long slabs, and of pairs that hold a vector each
HELD_AT_MOST = 2**21  # elements of one buffer


@dataclass(frozen=True)
class Piece:
    """N consecutive blocks of R queries; their slabs of W keys also start R apart."""

    query: int
    queries: int
    blocks: int
    key: int
    keys: int


def pieces(tokens: int, left: int, right: int, block: int = BLOCK) -> list[Piece]:
    """Cover every query once: one piece for all inner blocks, whose slabs are full, and one for each at an end."""
    first, last = -(-left // block), (tokens - right) // block
    if last - first < 2:
        first = last = 0
    inner = [Piece(first * block, block, last - first, first * block - left, left + block + right)]
    lone = [*range(0, first * block, LONE_BLOCK), *range(last * block, tokens, LONE_BLOCK)]
    result = inner if last else []
    for query in lone:
        end = min(query + LONE_BLOCK, first * block if query < first * block else tokens)
        key = max(query - left, 0)
        result.append(Piece(query, end - query, 1, key, min(end + right, tokens) - key))
    return result


@dataclass(frozen=True)
class Part:
    """A subset of the sequences, heads and blocks of a piece, computed at once."""

    piece: Piece
    batch: slice
    heads: slice
    first: int
    blocks: int
    number: int

    def queries(self, tensor: Tensor) -> Tensor:
        """The rows of the blocks in a (B, H, T, K) tensor, as a view: (B', H', N, R, K)."""
        return self.rows(tensor, self.piece.query, 0, self.piece.queries)

    def keys(self, tensor: Tensor, start: int = 0, count: int | None = None) -> Tensor:
        """The rows of the slabs, or `count` rows of each from `start` on: (B', H', N, W, K)."""
        return self.rows(tensor, self.piece.key, start, self.piece.keys if count is None else count)

    def rows(self, tensor: Tensor, base: int, start: int, count: int) -> Tensor:
        part = tensor[self.batch, self.heads]
        batch, head, row, column = part.stride()
        offset = part.storage_offset() + (base + self.first * self.piece.queries + start) * row
        size = (*part.shape[:2], self.blocks, count, part.shape[3])
        return part.as_strided(size, (batch, head, self.piece.queries * row, row, column), offset)


def parts(piece: Piece, batch: int, heads: int, blocks: int, number: int) -> Iterator[Part]:
    """Divide a piece into parts of about `blocks` blocks, numbered from `number` on."""
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
    """Buffers that are reused between parts and calls, since fresh memory pages cost more than the products.

    One set per thread, a few MiB in total. On accelerators the allocator already does this.
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
