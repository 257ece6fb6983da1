"""The encoder over a sequence that arrives in parts, with the outputs of the whole sequence at once.

Every block gives out token t as soon as its input t + right is there, so what comes out is final: not an
approximation by chunks, but the truncated encoder itself, look-ahead included. A block keeps the keys and values of
its last `left` tokens and the inputs that still wait for their look-ahead, and nothing else.

Shapes: B batch, T tokens, D model width, H heads, K = D / H head width, W waiting tokens, P past tokens kept.
"""

import torch
from torch import Tensor

from vitspeech.attention.encoder import Encoder, EncoderBlock
from vitspeech.attention.masks import window_mask

PART = 128  # tokens at a time: attention of a part over itself and its window stays small however much is pushed


class EncoderStream:
    """An encoder's outputs, token by token as they become final.

    The first output comes with token Σ right (over the blocks), each further token brings one, and `flush` the rest.
    With a limited `left` in every block memory and the cost of a token stay constant; with `left=None` they grow.

    Args:
        encoder: In evaluation mode; every block's `right` is limited.

    Raises:
        ValueError: If a block looks ahead without a limit, or the encoder is in training.
    """

    def __init__(self, encoder: Encoder) -> None:
        if None in encoder.right:
            raise ValueError(
                f"right={encoder.right} is unlimited: no output is final before the end; limit it to stream"
            )
        if encoder.training:
            raise ValueError("the encoder is in training, where it drops at random; call eval() first")
        self.encoder = encoder
        self.restart()

    def restart(self) -> None:
        """Forget everything: the next token is the first."""
        self.blocks = [BlockStream(block) for block in self.encoder.blocks]

    def push(self, x: Tensor) -> Tensor:
        """The next tokens in, the outputs that have become final out: (B, T, D) -> (B, T', D)."""
        final = []
        for part in x.split(PART, dim=1):
            for block in self.blocks:
                part = block.push(part)
            final.append(self.encoder.norm(part))
        return torch.cat(final, dim=1) if final else x

    def flush(self, like: Tensor) -> Tensor:
        """The outputs that waited for tokens that won't come; the stream is then as new.

        Shape:
            like (B, any, D), for batch and precision -> (B, up to Σ right, D)
        """
        x = like[:, :0]
        for block in self.blocks:
            x = torch.cat((block.push(x), block.flush(x)), dim=1)
        self.restart()
        return self.encoder.norm(x)


class BlockStream:
    """One block of the encoder: what of its input still waits, and what it keeps of the past.

    Shape:
        waiting (B, W, D), query (B, H, W, K); key, value (B, H, P + W, K), of which the first P are the past
    """

    def __init__(self, block: EncoderBlock) -> None:
        self.block, self.left, self.right = block, block.attention.left, block.attention.right
        self.waiting: Tensor | None = None
        self.past = self.position = 0

    def push(self, x: Tensor) -> Tensor:
        """Take inputs (B, T, D), give the outputs whose look-ahead is there (B, T', D)."""
        if not x.shape[1]:
            return x  # nothing new, so nothing is final that was not: the most pushes of a stream of sound
        attention = self.block.attention
        query, key, value = attention.project(self.block.attention_norm(x), None, self.position)
        query, key = attention.prepared(query, key, value)
        self.position += x.shape[1]
        if self.waiting is not None:
            x = torch.cat((self.waiting, x), dim=1)
            query = torch.cat((self.query, query), dim=2)
            key, value = torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2)
        self.waiting, self.query, self.key, self.value = x, query, key, value
        return self.finished(max(x.shape[1] - self.right, 0))

    def flush(self, like: Tensor) -> Tensor:
        """Give the outputs of all that waits: its look-ahead ends with the sequence. None waits where none came."""
        return like[:, :0] if self.waiting is None else self.finished(self.waiting.shape[1])

    def finished(self, count: int) -> Tensor:
        """The outputs of the first `count` that wait, which then become past."""
        x, query = self.waiting[:, :count], self.query[:, :, :count]
        if not count:
            return x
        keys, mask = self.key.shape[2], None
        # A lone query that waits for nothing more sees all that is kept.
        if count > 1 or keys > self.past + 1 + self.right:
            # The window counted from the first key kept, which lies `past` before the first query.
            back = None if self.left is None else self.left - self.past
            mask = window_mask(count, keys, back, self.past + self.right, x.device)
        attended = self.block.attention.attend_cached(query, self.key, self.value, mask, first=-self.past)
        past = self.past + count if self.left is None else min(self.past + count, self.left)
        forgotten = self.past + count - past
        self.past = past
        # Copies: a view would keep the whole past alive.
        self.waiting, self.query = self.waiting[:, count:].clone(), self.query[:, :, count:].clone()
        self.key, self.value = self.key[:, :, forgotten:].clone(), self.value[:, :, forgotten:].clone()
        return self.block.finish(x, attended)
