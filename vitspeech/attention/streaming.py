"""Streaming: an encoder over a sequence that arrives in parts, with the same outputs as on the full sequence.

Every block returns token t as soon as it has input t + right, so outputs are final. This is the truncated encoder
itself, look-ahead included, and not an approximation by chunks. A block stores the keys and values of its last `left`
tokens and the inputs that wait for their look-ahead.

Shapes: B batch, T tokens, D model width, H heads, K = D / H head width, W waiting tokens, P stored past tokens.
"""

from typing import Protocol

import torch
from torch import Tensor

from vitspeech.attention.block import EncoderBlock
from vitspeech.attention.masks import window_mask
from vitspeech.attention.positions import SinusoidalPositions
from vitspeech.errors import InputError

PART = 128  # tokens processed at once, which bounds the memory of a long push
FEW = 8  # tokens of a push up to which a convolution is faster as a product


class Streamable(Protocol):
    """An encoder whose `stream()` takes tokens as they arrive: attention, recurrent layers, a sliding window.

    The stream has `push(x)`, which returns the outputs that have become final, `flush(like)`, which returns the rest
    and begins a new sequence, as does `restart()`, and `tensors`, all that it stores.

    Attributes:
        receptive_field: Past context and look-ahead of one output in tokens; `None` is unlimited.
        training: Whether it is in training mode.
    """

    receptive_field: tuple[int | None, int | None]
    training: bool


def check_streamable(encoder: Streamable) -> None:
    """Refuse an encoder whose outputs are not final before the end, or change from call to call."""
    if encoder.receptive_field[1] is None:
        raise InputError(
            "the look-ahead is unlimited (`right: null`, bidirectional): no output is final before the end"
        )
    if encoder.training:
        raise InputError("the encoder is in training mode, with dropout; call eval() first")


class EncoderStream:
    """Streams a sequence through an encoder and returns each output as soon as it is final.

    The first output comes with token Σ right (over the blocks and their convolutions), then one with every token;
    `flush` returns the rest.
    With a limited `left` in every block, memory and time per token are constant; with `left=None` they grow. Outputs
    have no gradients.

    Args:
        encoder: An `Encoder` in evaluation mode, with a limited `right` in every block.
    """

    def __init__(self, encoder: Streamable) -> None:
        check_streamable(encoder)
        if not isinstance(encoder.positions, SinusoidalPositions | None):
            raise InputError("learned positions end after their table; stream with sinusoidal, relative or rotary ones")
        self.encoder = encoder
        self.restart()

    def restart(self) -> None:
        """Discard all state: the next token is the first of a sequence."""
        self.blocks = [BlockStream(block) for block in self.encoder.blocks]
        self.position = 0

    @property
    def tensors(self) -> list[Tensor]:
        """All that is stored."""
        return [tensor for block in self.blocks for tensor in block.tensors]

    @torch.no_grad()
    def push(self, x: Tensor) -> Tensor:
        """Push the next tokens and return the outputs that have become final: (B, T, D) -> (B, T', D)."""
        final = []
        for part in x.split(PART, dim=1):
            # A copy: waiting views of `x` would keep all of it in memory.
            part = self.encoder.add_positions(part.clone(), self.position)
            self.position += part.shape[1]
            for block in self.blocks:
                part = block.push(part)
            final.append(self.encoder.norm(part))
        return final[0] if len(final) == 1 else torch.cat(final, dim=1)

    @torch.no_grad()
    def flush(self, like: Tensor) -> Tensor:
        """End the sequence: return the remaining outputs and restart.

        Shape:
            like (B, any, D), for batch size and dtype -> (B, up to Σ right, D)
        """
        x = like[:, :0]
        for block in self.blocks:
            x = torch.cat((block.push(x), block.flush(x)), dim=1)
        self.restart()
        return self.encoder.norm(x)


class BlockStream:
    """The state of one block: inputs that wait for their look-ahead with their queries, and the keys and values stored.

    Keys and values lie in buffers of a fixed size, so that a token is one write; waiting tokens are not copied at all.
    A stream of single tokens would otherwise spend most of its time on copies.

    Shape:
        waiting (B, W, D) and queries (B, H, W, K) in parts; keys, values (B, H, P + W, K), past tokens first
    """

    def __init__(self, block: EncoderBlock) -> None:
        self.block, self.left, self.right = block, block.attention.left, block.attention.right
        self.waiting: list[Tensor] = []
        self.queries: list[Tensor] = []
        window = (self.left or 0) + self.right + 1
        self.keys, self.values = Stored(2 * window), Stored(2 * window)
        self.waits = self.past = self.position = 0
        self.convolution = None if block.convolution is None else ConvolutionStream(block)

    @property
    def tensors(self) -> list[Tensor]:
        """All that is stored."""
        buffers = (self.keys.buffer, self.values.buffer)
        convolution = [] if self.convolution is None else self.convolution.tensors
        return [*self.waiting, *self.queries, *(buffer for buffer in buffers if buffer is not None), *convolution]

    def push(self, x: Tensor) -> Tensor:
        """Push inputs (B, T, D) and return the outputs whose look-ahead is complete (B, T', D)."""
        tokens = x.shape[1]
        if not tokens:
            return x  # no new input, no new output: most pushes of an audio stream
        attention = self.block.attention
        query, key, value = attention.project(self.block.pre_norm(x, self.block.attention_norm), None, self.position)
        query, key = attention.score_inputs(query, key, value)
        self.waiting.append(x)
        self.queries.append(query)
        self.keys.append(key)
        self.values.append(value)
        self.position += tokens
        self.waits += tokens
        return self.finished(self.waits - self.right) if self.waits > self.right else x[:, :0]

    def flush(self, like: Tensor) -> Tensor:
        """Return the outputs of all waiting inputs, whose look-ahead ends with the sequence."""
        last = self.finished(self.waits) if self.waits else like[:, :0]
        return last if self.convolution is None else torch.cat((last, self.convolution.flush(like)), dim=1)

    def finished(self, count: int) -> Tensor:
        """The outputs of the first `count` waiting inputs, at least one, which then become past."""
        x, query = take(self.waiting, count, dim=1), take(self.queries, count, dim=2)
        keys, mask = self.past + self.waits, None
        # A single query at the end of its look-ahead attends to all stored keys: no mask is needed.
        if count > 1 or keys > self.past + 1 + self.right:
            # The window relative to the first stored key, `past` tokens before the first query.
            back = None if self.left is None else self.left - self.past
            mask = window_mask(count, keys, back, self.past + self.right, x.device)
        attention = self.block.attention
        attended = attention.attend_cached(
            query, self.keys.held(), self.values.held(), mask, first=-self.past, fused=True
        )
        past = self.past + count if self.left is None else min(self.past + count, self.left)
        self.keys.discard(self.past + count - past)
        self.values.discard(self.past + count - past)
        self.waits, self.past = self.waits - count, past
        x = self.block.add_residual(x, attended, self.block.attention_norm)
        return self.block.mlp_branch(x) if self.convolution is None else self.convolution.push(x)


class ConvolutionStream:
    """The state of a block's convolution: its inputs that wait for their look-ahead, and the gated tokens stored.

    Shape:
        waiting (B, W, D); gated (B, `left` + W, D), past tokens first, which are zeros before a sequence begins
    """

    def __init__(self, block: EncoderBlock) -> None:
        self.block, self.module = block, block.convolution
        self.waiting = self.gated = None

    @property
    def tensors(self) -> list[Tensor]:
        """All that is stored."""
        return [] if self.waiting is None else [self.waiting, self.gated]

    def push(self, x: Tensor) -> Tensor:
        """Push inputs (B, T, D) and return the outputs of the block whose look-ahead is complete (B, T', D)."""
        return self.finished(x, self.module.gate(self.block.pre_norm(x, self.block.convolution_norm)))

    def flush(self, like: Tensor) -> Tensor:
        """Return the outputs of all waiting inputs, after which there are zeros."""
        if self.waiting is None:
            return like[:, :0]
        return self.finished(self.waiting[:, :0], self.gated.new_zeros(len(like), self.module.right, like.shape[2]))

    def finished(self, x: Tensor, gated: Tensor) -> Tensor:
        """Store inputs and gated tokens, and return the outputs for which there are enough of these."""
        if self.waiting is None:
            self.waiting, self.gated = x[:, :0], gated.new_zeros(len(x), self.module.left, x.shape[2])
        waiting, gated = torch.cat((self.waiting, x), dim=1), torch.cat((self.gated, gated), dim=1)
        count = gated.shape[1] - self.module.left - self.module.right
        if count < 1:
            self.waiting, self.gated = waiting, gated
            return x[:, :0]
        self.waiting, self.gated = waiting[:, count:].clone(), gated[:, count:].clone()
        mix = self.module.mix_few if count <= FEW else self.module.mix
        x = self.block.add_residual(waiting[:, :count], mix(gated), self.block.convolution_norm)
        return self.block.mlp_branch(x)


class Stored:
    """The last tokens of a sequence, in a buffer that only moves when it is full.

    Args:
        size: Minimum size of the buffer in tokens. A new buffer has room for at least twice the tokens to be stored.

    Shape:
        (B, H, T, K)
    """

    def __init__(self, size: int) -> None:
        self.size, self.begin, self.end = size, 0, 0  # the tokens from `begin` to `end` are stored
        self.buffer: Tensor | None = None

    def append(self, x: Tensor) -> None:
        """Store the next tokens."""
        tokens, kept = x.shape[2], self.end - self.begin
        if self.buffer is None or self.end + tokens > self.buffer.shape[2]:
            buffer = x.new_empty(*x.shape[:2], max(self.size, 2 * (kept + tokens)), x.shape[3])
            if kept:
                buffer[:, :, :kept] = self.held()
            self.buffer, self.begin, self.end = buffer, 0, kept
        self.buffer[:, :, self.end : self.end + tokens] = x
        self.end += tokens

    def held(self) -> Tensor:
        """What is stored, as a view: (B, H, T, K)."""
        return self.buffer[:, :, self.begin : self.end]

    def discard(self, tokens: int) -> None:
        """Forget the first tokens."""
        self.begin += tokens


def take(parts: list[Tensor], count: int, dim: int) -> Tensor:
    """Remove the first `count` tokens from a sequence in parts, and return them; `dim` is that of the tokens."""
    if parts[0].shape[dim] < count:
        parts[:] = [torch.cat(parts, dim)]
    first = parts.pop(0)
    if first.shape[dim] == count:
        return first
    taken, rest = first.split((count, first.shape[dim] - count), dim)
    parts.insert(0, rest.clone())  # a view would keep all of it in memory
    return taken
