"""A streaming speech model as one step: the next samples and a state in, one row of logits and the next state out.

`AudioStream` grows and shrinks its tensors. A step has tensors of fixed shapes and no special cases, so that it is one
graph: flags mark the start, the look-ahead and the end of a recording. A state of zeros begins a recording.

Shapes: C classes, D model width, H heads, K head width, L past tokens of a block, R its look-ahead, M mel bins,
F rows of logits of a token: one, or of a labeler one for each frame.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder
from vitspeech.attention.block import EncoderBlock
from vitspeech.attention.positions import SinusoidalPositions, rotate_real
from vitspeech.attention.scores import SCORES
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.export.encoder_steps import ConvolutionStep, RecurrentStep, WindowStep
from vitspeech.export.token_step import TokenStep

# q·k of rotated vectors depends on their distance only, so positions within the window do; other scores need those in
# the recording.
BY_DISTANCE = {SCORES[name] for name in ("scaled_dot", "dot", "cosine")}


class StateLayout:
    """The parts of a flat state (1, S), in the order in which they are declared."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def declare(self, *shape: int) -> None:
        """Add a part of this shape."""
        self.shapes.append(shape)

    @property
    def size(self) -> int:
        """Numbers in the state S."""
        return sum(map(math.prod, self.shapes))

    def split(self, state: Tensor) -> list[Tensor]:
        """The parts of a state: (1, S) -> tensors of the declared shapes."""
        parts = state[0].split([math.prod(shape) for shape in self.shapes])
        return [part.view(shape) if len(shape) > 1 else part for part, shape in zip(parts, self.shapes, strict=True)]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`."""
        return torch.cat([part.reshape(-1) if part.ndim > 1 else part for part in parts])[None]


class StreamStep(nn.Module):
    """One token of a stream: `hop_samples` samples in, the logits of the token Σ right steps before out.

    Token i begins `lead_in_samples` before the samples of a step that ends it, so a caller puts `lead_in_samples` zeros
    before a recording, and gives `valid` = 1 from step `first_step` on. To end a recording, it gives `steps_ahead`
    steps of any samples with `valid` = 0. The rows whose `valid_out` is 1 are those of `AudioStream`.

    Args:
        network: A speech model in evaluation mode that `vitspeech.stream` accepts, whose encoder is attention with a
            limited past context, a `RecurrentEncoder` or a `WindowMLP`.
        attention: Whether the attention weights of each block are returned besides.

    Attributes:
        state_size: Numbers in the state S.

    Shape:
        samples within ±1 (1, N), valid (1,), state (1, S) -> logits (rows, C), valid_out (1,), state_out (1, S), and
        with `attention` the weights (1, H, L + 1 + R) of each block; keys before and after the recording have the
        weight 0. There is one row, or one for each frame that a token of a `SpeechLabeler` labels.

    Raises:
        InputError: If the encoder is another one, its past context is unlimited, or it has no attention weights.
    """

    def __init__(self, network: nn.Module, *, attention: bool = False) -> None:
        super().__init__()
        encoder, name = network.encoder, type(network).__name__
        self.network, self.attention = network, attention
        self.front = TokenStep(network.tokens)
        if isinstance(encoder, Encoder):
            check_attention(encoder, name)
            blocks = [step for block in encoder.blocks for step in steps_of(block)]
            self.last, self.positions = encoder.norm, encoder.positions
        elif isinstance(encoder, RecurrentEncoder):
            blocks, self.last, self.positions = map(RecurrentStep, encoder.blocks), encoder.output, None
        elif isinstance(encoder, WindowMLP):
            blocks, self.last, self.positions = [WindowStep(encoder)], encoder.output, None
        else:
            raise InputError(f"{name} can't be exported as a stream: its encoder {type(encoder).__name__} is none of "
                             "Encoder, RecurrentEncoder and WindowMLP")  # fmt: skip
        if attention and not isinstance(encoder, Encoder):
            raise InputError(f"{name} has no attention weights: its encoder is a {type(encoder).__name__}")
        self.blocks = nn.ModuleList(blocks)
        self.counts = any(block.counts for block in self.blocks) or self.positions is not None
        self.layout = StateLayout()
        for part in (self.front, *self.blocks):
            part.declare(self.layout)
        if self.counts:
            self.layout.declare(1)

    @property
    def state_size(self) -> int:
        return self.layout.size

    @property
    def hop_samples(self) -> int:
        """Samples of a step."""
        return self.network.tokens.hop_samples

    @property
    def lead_in_samples(self) -> int:
        """Zeros before a recording, so that its first token ends with a step."""
        return -self.network.tokens.window_samples % self.hop_samples

    @property
    def first_step(self) -> int:
        """The step that ends the first token, from 0."""
        return (self.lead_in_samples + self.network.tokens.window_samples) // self.hop_samples - 1

    @property
    def steps_ahead(self) -> int:
        """Look-ahead of all blocks: steps without audio that end a recording."""
        return self.network.encoder.receptive_field[1]

    def forward(self, samples: Tensor, valid: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        parts = self.layout.split(state)
        token, *kept = self.front(samples, *parts[: self.front.parts])
        new, parts, weights = list(kept), parts[self.front.parts :], []
        position = parts.pop() if self.counts else None
        if self.counts:
            # Counts on without audio, while tokens that wait for their look-ahead come out.
            new_position = position + torch.maximum(valid, (position > 0).to(valid))
        if self.positions is not None:
            token = token + torch.stack(angles(position, token.shape[-1]), dim=-1).flatten().to(token)
        for block in self.blocks:
            token, valid, its_weights, *kept = block(token, valid, position, *parts[: block.parts])
            new, parts = new + kept, parts[block.parts :]
            weights += [] if its_weights is None else [its_weights]
            position = position - block.right if self.counts else None
        if self.counts:
            new.append(new_position)
        logits = self.network.frame_logits(self.last(token).view(1, 1, -1)).flatten(0, 1)
        return logits, valid, self.layout.join(new), *(weights if self.attention else [])


def steps_of(block: EncoderBlock) -> list[nn.Module]:
    """The steps of a block: that of its attention, and that of its convolution if it has one."""
    return [BlockStep(block)] if block.convolution is None else [BlockStep(block), ConvolutionStep(block)]


def has_fixed_state(encoder: Encoder) -> bool:
    """Whether an encoder can be streamed with a state of fixed size, for any time."""
    is_limited = None not in (*encoder.left, *encoder.right)
    return is_limited and isinstance(encoder.positions, SinusoidalPositions | None)


def check_attention(encoder: Encoder, name: str) -> None:
    """Check that an encoder can be streamed with a state of fixed size.

    Raises:
        InputError: If it can't be.
    """
    if None in (*encoder.left, *encoder.right):
        raise InputError(f"{name} can't be exported as a stream: left={encoder.left}, right={encoder.right} of a block "
                         "is unlimited, so its state would grow; train it with a limited `left`, or export a "
                         "classifier with --offline")  # fmt: skip
    if not has_fixed_state(encoder):
        raise InputError(f"{name} can't be exported as a stream: learned positions end after their table")


def angles(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Sine and cosine of positions (P,), as in `vitspeech.attention.positions.sinusoidal`: two (P, width / 2)."""
    rates = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    turns = positions.double()[:, None] * rates
    return turns.sin(), turns.cos()


class BlockStep(nn.Module):
    """One block, or its attention if it has a convolution: a token in, the token R before it out.

    The state has the last R tokens, which wait for their look-ahead, and a row for each of the last L + R: key, value
    and flag. Keys are stored without rotary positions, which are places in the window.

    The cost of a step is mostly its number of operations: tokens are rows (1, D), for which a linear layer is one
    operation, one layer computes keys and values, and the pairs that rotary positions rotate are put into two halves,
    which changes no product q·k.
    """

    parts = 2

    def __init__(self, block: EncoderBlock) -> None:
        super().__init__()
        attention = block.attention
        self.block, self.left, self.right = block, attention.left, attention.right
        self.heads, self.rotary, self.width = attention.heads, attention.rotary, attention.query.out_features
        self.counts = self.rotary is not None and type(attention.score) not in BY_DISTANCE
        order = torch.arange(self.width)
        if self.rotary is not None and not self.counts:
            order = order.view(self.heads, -1, 2).transpose(1, 2).flatten()  # in each head, the first ones of all pairs
        self.query, self.key_value = (
            joined(order, attention.query),
            joined(order, attention.key, attention.value),
        )
        places = torch.arange(-self.left, self.right + 1.0)
        self.register_buffer("places", places, persistent=False)
        if self.rotary is not None:
            sine, cosine = (turns.to(attention.key.weight) for turns in angles(places, self.rotary.width))
            self.register_buffer("sine", torch.cat((-sine, sine), dim=1), persistent=False)
            self.register_buffer("cosine", torch.cat((cosine, cosine), dim=1), persistent=False)

    def declare(self, layout: StateLayout) -> None:
        """Declare waiting tokens, and rows of key, value and flag."""
        layout.declare(self.right * self.width)
        layout.declare((self.left + self.right) * (2 * self.width + 1))

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple[Tensor, ...]:
        attention, block, width = self.block.attention, self.block, self.width
        waiting = torch.cat((state[0], token.view(-1)))
        entered = block.pre_norm(token, block.attention_norm)
        rows = torch.cat((state[1], self.key_value(entered).view(-1), valid))
        keys, values, flags = rows.view(-1, 2 * width + 1).split((width, width, 1), dim=1)
        first = waiting[:width].view(1, -1)
        query = self.split_heads(self.query(block.pre_norm(first, block.attention_norm)))
        query, keys = self.rotated(query, self.split_heads(keys), position)
        values = self.split_heads(values)
        query, keys = attention.score_inputs(query, keys, values)
        attended, weights = attention.attend_prepared(query, keys, values, flags.view(-1) > 0.5, first=-self.left)
        token = block.add_residual(first, attention.output(attended.reshape(1, -1)), block.attention_norm)
        if block.convolution is None:
            token = block.mlp_branch(token)
        return token, flags[self.left], weights.flatten(2), waiting[width:], rows[2 * width + 1 :]

    def rotated(self, query: Tensor, keys: Tensor, position: Tensor | None) -> tuple[Tensor, Tensor]:
        """Query and keys with rotary positions, if there are any: (1, H, 1, K), (1, H, L + 1 + R, K) -> the same."""
        if self.rotary is None:
            return query, keys
        if not self.counts:  # the query is at place 0, where nothing is rotated
            halves = keys.chunk(2, dim=-1)
            return query, keys * self.cosine + torch.cat(halves[::-1], dim=-1) * self.sine
        sine, cosine = (turns.to(keys) for turns in angles(self.places + (position - self.right), self.rotary.width))
        now = slice(self.left, self.left + 1)
        return rotate_real(query, sine[now], cosine[now]), rotate_real(keys, sine, cosine)

    def split_heads(self, rows: Tensor) -> Tensor:
        """Split the model width into heads: (T, D) -> (1, H, T, K)."""
        return rows.reshape(1, len(rows), self.heads, -1).transpose(1, 2)


def joined(order: Tensor, first: nn.Linear, *others: nn.Linear) -> nn.Linear:
    """One linear layer with the outputs of several; those of the first one are in the given order (D,)."""
    layer = nn.Linear(first.in_features, sum(each.out_features for each in (first, *others)), first.bias is not None)
    layer.weight.data = torch.cat([first.weight.detach()[order], *(each.weight.detach() for each in others)])
    if first.bias is not None:
        layer.bias.data = torch.cat([first.bias.detach()[order], *(each.bias.detach() for each in others)])
    return layer
