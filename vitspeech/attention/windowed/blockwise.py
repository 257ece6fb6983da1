"""Truncated attention by blocks, forward and backward, in matrix products that fit into a CPU cache.

The backward pass recomputes the weights from queries and keys instead of storing them (as Dao et al. 2022,
arXiv:2205.14135, do on GPUs). It is written by hand: autograd through overlapping slabs would allocate a full gradient
for each, and compiled it is silently wrong (PyTorch issue 191837).

Shapes: B batch, H heads, T tokens, K head width, M blocks at once, R queries per block, W keys per slab, C clip.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vitspeech.attention.positions import distances, skew, unskew
from vitspeech.attention.windowed.blocks import BLOCK, SCORES_AT_ONCE, WIDE_AT_ONCE, Buffers, Part, Piece, parts, pieces

BUFFERS = Buffers()


@dataclass(frozen=True)
class Window:
    """The arguments of blockwise attention that have no gradient.

    Args:
        left: Past context in tokens, below T.
        right: Look-ahead in tokens, below T.
        scale: Factor of the dot products.
        normalizer: `softmax` or `relu`.
        greatest: (B, T), the greatest score of each key: infinity, or the lowest finite number for padding.
        factor: (B or 1, T), factor of the output of each query: 0 if it may attend to nothing.
        dropout: Dropout probability of the weights.
        seed: Seed of the dropout mask, the same in both passes.
        block: Number of queries of an inner block.
    """

    left: int
    right: int
    scale: float
    normalizer: str = "softmax"
    greatest: Tensor | None = None
    factor: Tensor | None = None
    dropout: float = 0.0
    seed: int = 0
    block: int = BLOCK


class Blockwise(torch.autograd.Function):
    """query, key, value (B, H, T, K), v of the additive score (H, K), tables of relative positions (2C + 1, K).

    The result is (B, H, T, K).
    """

    @staticmethod
    def forward(ctx: Any, query, key, value, additive, relative_key, relative_value, window: Window) -> Tensor:
        ctx.save_for_backward(query, key, value, additive, relative_key, relative_value)
        ctx.window = window
        attended = query.new_empty((*query.shape[:3], value.shape[3]))
        with torch.autocast(query.device.type, enabled=False):
            for part, band in all_parts(query, additive, window):
                step = Step(part, band, window, query, key, value, additive, relative_key, relative_value)
                result = part.queries(attended)
                step.attend(result)
                if step.factor is not None:
                    result.mul_(step.factor)
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, window = ctx.saved_tensors, ctx.window
        query, key, value = inputs[:3]
        # Several slabs add to the same rows; the gradients of small tables are summed in single precision.
        grads = [query.new_empty(query.shape), key.new_zeros(key.shape), value.new_zeros(value.shape)]
        exact = torch.promote_types(query.dtype, torch.float32)
        grads += [None if table is None else torch.zeros_like(table, dtype=exact) for table in inputs[3:]]
        with torch.autocast(query.device.type, enabled=False):
            for part, band in all_parts(query, inputs[3], window):
                Step(part, band, window, *inputs).propagate(gradient, *grads)
        grads[3:] = [None if grad is None else grad.to(query.dtype) for grad in grads[3:]]
        return *grads, None


def all_parts(query: Tensor, additive: Tensor | None, window: Window) -> Iterator[tuple[Part, Tensor]]:
    """All numbered parts, whose scores fit into the cache, each with its `band_of`."""
    batch, heads, tokens, width = query.shape
    number = 0
    for piece in pieces(tokens, window.left, window.right, window.block):
        at_once = SCORES_AT_ONCE.get(query.device.type, SCORES_AT_ONCE["cuda"])
        if piece.blocks == 1 or additive is not None:
            at_once = max(at_once, WIDE_AT_ONCE)
        size = piece.queries * piece.keys * (1 if additive is None else width)
        band = band_of(piece, window, query)
        for part in parts(piece, batch, heads, at_once // size, number):
            yield part, band
            number += 1


class Step:
    """The computation of one part: its queries (M, R, K), keys and values (M, W, K), in place or copied to buffers."""

    def __init__(
        self, part: Part, band: Tensor, window: Window, query, key, value, additive, relative_key, relative_value
    ) -> None:
        self.part, self.band, self.window = part, band, window
        self.scale = window.scale if additive is None else 1.0
        # A query that may attend to nothing is zero, so that no score of it overflows to -inf.
        self.factor = None if window.factor is None else part.queries(per_query(window.factor, query))
        self.query = matrices("query", part.queries(query), None if window.normalizer == "relu" else self.factor)
        self.key = matrices("key", part.keys(key))
        self.value = matrices("value", part.keys(value))
        self.after = self.scale  # the factor of products with queries
        if query.dtype == torch.float16:  # products may overflow
            self.query, self.after = self.query * self.scale, 1.0
        self.additive = None if additive is None else self.by_block(additive)
        self.tables = None
        if relative_key is not None:
            piece, clip = part.piece, relative_key.shape[0] // 2
            self.rows = distances(piece.key - piece.query, piece.queries, piece.keys, clip, query.device)
            self.tables = relative_key[self.rows], relative_value[self.rows]

    def attend(self, result: Tensor) -> None:
        """Write the outputs of the blocks (B', H', N, R, K), before the factor of the window."""
        weights = self.dropped(self.weights())
        attended = torch.bmm(weights, self.value, out=self.output(result))
        if self.tables is not None:
            attended += unskew(weights) @ self.tables[1]
        self.put(attended, result)

    def weights(self) -> Tensor:
        """The weights before dropout (M, R, W)."""
        scores = self.buffer("scores", *self.query.shape[:2], self.key.shape[1])
        if self.additive is None:
            torch.baddbmm(scores, self.query, self.key.transpose(1, 2), beta=0, alpha=self.after, out=scores)
        else:
            torch.bmm(self.sums().flatten(1, 2), self.additive[:, :, None], out=scores.view(len(scores), -1, 1))
        if self.tables is not None:
            scores += skew(self.after * (self.query @ self.tables[0].T), scores.shape[2])
        # Replaced rather than lowered by adding, after which large scores may be -inf or win. `minimum` is as fast.
        torch.minimum(scores, self.band, out=scores)
        if self.window.greatest is not None:
            self.hide_padding(scores)
        if self.window.normalizer == "relu":
            return scores.relu_()
        return torch.softmax(scores, -1, out=scores)

    def propagate(
        self, gradient: Tensor, d_query, d_key, d_value, d_additive, d_relative_key, d_relative_value
    ) -> None:
        """Write the gradients of the queries, and add this part's contribution to all other gradients."""
        part = self.part
        d_attended = matrices("d_attended", part.queries(gradient), self.factor)
        weights = self.weights()
        d_weights = torch.bmm(d_attended, self.value.transpose(1, 2), out=self.buffer("d_weights", *weights.shape))
        dropped = self.dropped(weights)
        d_values = torch.bmm(dropped.transpose(1, 2), d_attended, out=self.buffer("d_slab", *self.value.shape))
        self.spread(d_value, d_values)
        if self.tables is not None:
            d_weights += skew(d_attended @ self.tables[1].T, weights.shape[2])
            self.collect(d_relative_value, dropped, d_attended)
        self.dropped(d_weights, out=d_weights)
        d_scores, target = self.through_normalizer(weights, d_weights), part.queries(d_query)
        if self.additive is None:
            d_rows = self.output(target)
            torch.baddbmm(d_rows, d_scores, self.key, beta=0, alpha=self.scale, out=d_rows)
            d_keys = self.buffer("d_slab", *self.key.shape)
            torch.baddbmm(d_keys, d_scores.transpose(1, 2), self.query, beta=0, alpha=self.after, out=d_keys)
            self.spread(d_key, d_keys)
        else:
            d_rows = self.through_additive(d_scores, d_key, d_additive)
        if self.tables is not None:
            d_rows += self.scale * (unskew(d_scores) @ self.tables[0])
            self.collect(d_relative_key, d_scores, self.after * self.query)
        self.put(d_rows, target)

    def through_normalizer(self, weights: Tensor, d_weights: Tensor) -> Tensor:
        """The gradient of the scores, written in place of that of the weights."""
        if self.window.normalizer == "relu":
            return d_weights.mul_(weights > 0)
        return torch.ops.aten._softmax_backward_data.out(d_weights, weights, -1, weights.dtype, grad_input=d_weights)

    def sums(self) -> Tensor:
        """tanh(q + k) for every pair (M, R, W, K)."""
        shape = (*self.query.shape[:2], *self.key.shape[1:])
        sums = torch.add(self.query[:, :, None], self.key[:, None], out=self.buffer("sums", *shape))
        return sums.tanh_()

    def through_additive(self, d_scores: Tensor, d_key: Tensor, d_additive: Tensor) -> Tensor:
        """For v·tanh(q + k): add the gradients of keys and v, return those of the queries (M, R, K)."""
        sums = self.sums()
        d_by_block = (d_scores.flatten(1)[:, None] @ sums.flatten(1, 2))[:, 0]
        heads = d_by_block.view(*self.outer(), -1).to(d_additive.dtype).sum((0, 2))
        d_additive[self.part.heads] += heads
        d_sums = sums.square_().neg_().add_(1).mul_(self.additive[:, None, None]).mul_(d_scores[..., None])
        self.spread(d_key, d_sums.sum(1))
        return d_sums.sum(2)

    def dropped(self, weights: Tensor, out: Tensor | None = None) -> Tensor:
        """Dropout with the same mask at every call."""
        if self.window.dropout == 0:
            return weights
        generator = torch.Generator(weights.device).manual_seed(self.window.seed + self.part.number)
        mask = self.buffer("mask", *weights.shape).bernoulli_(1 - self.window.dropout, generator=generator)
        return torch.mul(weights, mask.div_(1 - self.window.dropout), out=mask if out is None else out)

    def hide_padding(self, scores: Tensor) -> None:
        """Replace the scores of padded keys by the lowest finite number, since the softmax of a row of -inf is NaN."""
        rows = self.part.keys(self.window.greatest[:, None, :, None].expand(-1, self.part.heads.stop, -1, -1))
        scores = scores.view(*self.outer(), *scores.shape[1:])
        torch.minimum(scores, rows.transpose(3, 4), out=scores)

    def spread(self, target: Tensor, slabs: Tensor) -> None:
        """Add the rows of the slabs (M, W, K) to those of `target` (B, H, T, K); neighboring slabs overlap."""
        slabs, step = slabs.view(*self.outer(), *slabs.shape[1:]), self.part.piece.queries
        for start in range(0, slabs.shape[3], step):
            rows = slabs[:, :, :, start : start + step]
            self.part.keys(target, start, rows.shape[3]).add_(rows)

    def collect(self, table: Tensor, pairs: Tensor, vectors: Tensor) -> None:
        """Add to each row of a table the vectors (M, R, K), weighted by the pairs (M, R, W) of its distance."""
        by_distance = unskew(pairs).flatten(0, 1).T @ vectors.flatten(0, 1)
        table.index_add_(0, self.rows, by_distance.to(table.dtype))

    def by_block(self, per_head: Tensor) -> Tensor:
        """Repeat the rows of the heads for each block: (H, K) -> (M, K)."""
        batch, heads, blocks = self.outer()
        return per_head[self.part.heads][None, :, None].expand(batch, heads, blocks, -1).flatten(0, 2)

    def outer(self) -> tuple[int, int, int]:
        """Number of sequences, heads and blocks, whose product is M."""
        part = self.part
        blocks = part.blocks
        heads = part.heads.stop - part.heads.start
        return self.query.shape[0] // (heads * blocks), heads, blocks

    def output(self, rows: Tensor) -> Tensor:
        """Where a product writes rows (B', H', N, R, K): there, as (M, R, K), or into a buffer."""
        in_place = rows.shape[:2] == (1, 1) and rows[0, 0].is_contiguous()
        return rows[0, 0] if in_place else self.buffer("rows", len(self.query), *rows.shape[3:])

    def put(self, product: Tensor, rows: Tensor) -> None:
        """Copy a product to its rows, if it was not written there."""
        if product.data_ptr() != rows.data_ptr():
            rows.copy_(product.view(rows.shape))

    def buffer(self, name: str, *shape: int) -> Tensor:
        return BUFFERS(name, shape, self.query)


def matrices(name: str, rows: Tensor, factor: Tensor | None = None) -> Tensor:
    """Blocks or (overlapping) slabs (B', H', N, rows, K) as factors of products (M, rows, K): a view, or a buffer.

    Products in single precision read the rows of one head where they are, which saves a copy; those in half precision
    would copy them. `factor` multiplies each row: (B', H', N, rows, 1).
    """
    in_place = rows.dtype in (torch.float32, torch.float64) and rows.shape[:2] == (1, 1) and rows.stride(-1) == 1
    if in_place and factor is None:
        return rows[0, 0]
    shape = (rows.shape[0] * rows.shape[1] * rows.shape[2], *rows.shape[3:])
    buffer = BUFFERS(name, shape, rows)
    if factor is None:
        buffer.view(rows.shape).copy_(rows)
    else:
        torch.mul(rows, factor, out=buffer.view(rows.shape))
    return buffer


def per_query(factor: Tensor, like: Tensor) -> Tensor:
    """Expand (B or 1, T) to (B, H, T, 1) as a view."""
    return factor[:, None, :, None].expand(*like.shape[:3], 1)


def band_of(piece: Piece, window: Window, like: Tensor) -> Tensor:
    """The greatest scores of a block (R, W): infinity within the window, -infinity outside."""
    key = torch.arange(piece.key, piece.key + piece.keys, device=like.device)
    distance = key - torch.arange(piece.query, piece.query + piece.queries, device=like.device)[:, None]
    outside = (distance < -window.left) | (distance > window.right)
    return like.new_full(outside.shape, torch.inf).masked_fill_(outside, -torch.inf)
