"""Streaming: an encoder over a sequence that arrives in parts, with the same outputs as on the full sequence.

Every block returns token t as soon as it has input t + right, so outputs are final. This is the truncated encoder
itself, look-ahead included, and not an approximation by chunks. A block stores the keys and values of its last `left`
tokens and the inputs that wait for their look-ahead.

Shapes: B batch, T tokens, D model width, H heads, K = D / H head width, W waiting tokens, P stored past tokens.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitspeech.attention.masks import window_mask
from vitspeech.attention.positions import SinusoidalPositions
from vitspeech.errors import InputError

if TYPE_CHECKING:
    from vitspeech.attention.encoder import Encoder, EncoderBlock

PART = 128  # tokens processed at once, which bounds the memory of a long push


class EncoderStream:
    """Streams a sequence through an encoder and returns each output as soon as it is final.

    The first output comes with token Σ right (over the blocks), then one with every token; `flush` returns the rest.
    With a limited `left` in every block, memory and time per token are constant; with `left=None` they grow.

    Args:
        encoder: In evaluation mode, with a limited `right` in every block.

    Raises:
        InputError: If the look-ahead of a block is unlimited, the encoder is in training mode, or its positions are a
            table with an end, which a stream does not have.
    """

    def __init__(self, encoder: "Encoder") -> None:
        if None in encoder.right:
            raise InputError(
                f"right={encoder.right} is unlimited: no output is final before the end; limit it to stream"
            )
        if encoder.training:
            raise InputError("the encoder is in training mode, with dropout; call eval() first")
        if not isinstance(encoder.positions, SinusoidalPositions | None):
            raise InputError("learned positions end after their table; stream with sinusoidal, relative or rotary ones")
        self.encoder = encoder
        self.restart()

    def restart(self) -> None:
        """Discard all state: the next token is the first of a sequence."""
        self.blocks = [BlockStream(block) for block in self.encoder.blocks]
        self.position = 0

    def push(self, x: Tensor) -> Tensor:
        """Push the next tokens and return the outputs that have become final: (B, T, D) -> (B, T', D)."""
        final = []
        for part in x.split(PART, dim=1):
            part = self.encoder.add_positions(part, self.position)
            self.position += part.shape[1]
            for block in self.blocks:
                part = block.push(part)
            final.append(self.encoder.norm(part))
        return torch.cat(final, dim=1) if final else x

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
    """The state of one block: inputs that wait for their look-ahead, and the stored past.

    Shape:
        waiting (B, W, D), query (B, H, W, K); key, value (B, H, P + W, K), past tokens first
    """

    def __init__(self, block: "EncoderBlock") -> None:
        self.block, self.left, self.right = block, block.attention.left, block.attention.right
        self.waiting: Tensor | None = None
        self.past = self.position = 0

    def push(self, x: Tensor) -> Tensor:
        """Push inputs (B, T, D) and return the outputs whose look-ahead is complete (B, T', D)."""
        if not x.shape[1]:
            return x  # no new input, no new output: most pushes of an audio stream
        attention = self.block.attention
        query, key, value = attention.project(self.block.enter(x, self.block.attention_norm), None, self.position)
        query, key = attention.prepared(query, key, value)
        self.position += x.shape[1]
        if self.waiting is not None:
            x = torch.cat((self.waiting, x), dim=1)
            query = torch.cat((self.query, query), dim=2)
            key, value = torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2)
        self.waiting, self.query, self.key, self.value = x, query, key, value
        return self.finished(max(x.shape[1] - self.right, 0))

    def flush(self, like: Tensor) -> Tensor:
        """Return the outputs of all waiting inputs, whose look-ahead ends with the sequence."""
        return like[:, :0] if self.waiting is None else self.finished(self.waiting.shape[1])

    def finished(self, count: int) -> Tensor:
        """The outputs of the first `count` waiting inputs, which then become past."""
        x, query = self.waiting[:, :count], self.query[:, :, :count]
        if not count:
            return x
        keys, mask = self.key.shape[2], None
        # A single query at the end of its look-ahead attends to all stored keys: no mask is needed.
        if count > 1 or keys > self.past + 1 + self.right:
            # The window relative to the first stored key, `past` tokens before the first query.
            back = None if self.left is None else self.left - self.past
            mask = window_mask(count, keys, back, self.past + self.right, x.device)
        attended = self.block.attention.attend_cached(query, self.key, self.value, mask, first=-self.past)
        past = self.past + count if self.left is None else min(self.past + count, self.left)
        discarded = self.past + count - past
        self.past = past
        # Copies, since a view would keep the full past in memory.
        self.waiting, self.query = self.waiting[:, count:].clone(), self.query[:, :, count:].clone()
        self.key, self.value = self.key[:, :, discarded:].clone(), self.value[:, :, discarded:].clone()
        return self.block.finish(x, attended)
