"""A streaming speech model as one step: the next samples and a state in, one row of logits and the next state out.

`AudioStream` grows and shrinks its tensors. A step has tensors of fixed shapes and no special cases, so that it is one
graph: start, look-ahead and end of a recording are told by flags. A state of zeros begins a recording.

Shapes: C classes, D model width, H heads, K head width, L past tokens of a block, R its look-ahead, M mel bins.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder
from vitspeech.attention.encoder import EncoderBlock
from vitspeech.attention.positions import SinusoidalPositions, rotate
from vitspeech.attention.scores import SCORES
from vitspeech.errors import InputError
from vitspeech.export.encoder_steps import RecurrentStep, WindowStep
from vitspeech.frontends import SpeechTokens
from vitspeech.models import WindowMLP
from vitspeech.recurrence import RecurrentEncoder

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
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`."""
        return torch.cat([part.reshape(-1) for part in parts])[None]


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
            blocks, self.last, self.positions = map(BlockStep, encoder.blocks), encoder.norm, encoder.positions
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
        return self.network.encoder.reach[1]

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
            new, parts, weights = new + kept, parts[block.parts :], [*weights, its_weights]
            position = position - block.right if self.counts else None
        if self.counts:
            new.append(new_position)
        logits = self.network.frame_logits(self.last(token))[0]
        return logits, valid, self.layout.join(new), *(weights if self.attention else [])


def check_attention(encoder: Encoder, name: str) -> None:
    """Check that an encoder can be streamed with a state of fixed size.

    Raises:
        InputError: If it can't be.
    """
    if None in (*encoder.left, *encoder.right):
        raise InputError(f"{name} can't be exported as a stream: left={encoder.left}, right={encoder.right} of a block "
                         "is unlimited, so its state would grow; train it with a limited `left`")  # fmt: skip
    if not isinstance(encoder.positions, SinusoidalPositions | None):
        raise InputError(f"{name} can't be exported as a stream: learned positions end after their table")


def angles(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Sine and cosine of positions (P,), as in `vitspeech.attention.positions.sinusoidal`: two (P, width / 2)."""
    rates = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    turns = positions.double()[:, None] * rates
    return turns.sin(), turns.cos()


class TokenStep(nn.Module):
    """The next token: samples (1, N) -> (1, 1, D), and what the one after needs of the samples and of the frames."""

    parts = 2

    def __init__(self, tokens: SpeechTokens) -> None:
        super().__init__()
        self.tokens = tokens
        self.overlap = tokens.log_mel.window_samples - tokens.log_mel.hop_samples
        self.stored = max(tokens.frames.reach - tokens.frames.stride, 0)

    def declare(self, layout: StateLayout) -> None:
        """Declare the samples that the next frames share, and the frames that the next token shares."""
        layout.declare(1, self.overlap)
        layout.declare(1, self.stored, self.tokens.log_mel.mels)

    def forward(self, samples: Tensor, overlap: Tensor, stored: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        samples = torch.cat((overlap, samples), dim=1)
        frames = torch.cat((stored, self.tokens.log_mel(samples)), dim=1)
        used = frames[:, frames.shape[1] - self.tokens.frames.reach :]
        return (
            self.tokens.frames(used),
            samples[:, samples.shape[1] - self.overlap :],
            frames[:, frames.shape[1] - self.stored :],
        )


class BlockStep(nn.Module):
    """One block: a token in, the token R before it out.

    The state has the last R tokens, which wait for their look-ahead, and keys, values and flags of the last L + R.
    Keys are stored without rotary positions, which are places in the window.
    """

    parts = 4

    def __init__(self, block: EncoderBlock) -> None:
        super().__init__()
        self.block, self.left, self.right = block, block.attention.left, block.attention.right
        self.heads, self.rotary = block.attention.heads, block.attention.rotary
        self.counts = self.rotary is not None and type(block.attention.score) not in BY_DISTANCE
        self.register_buffer("places", torch.arange(-self.left, self.right + 1.0), persistent=False)

    def declare(self, layout: StateLayout) -> None:
        """Declare waiting tokens, keys, values and flags."""
        attention, past = self.block.attention, self.left + self.right
        width = attention.query.out_features
        layout.declare(1, self.right, width)
        for _ in range(2):
            layout.declare(1, attention.heads, past, width // attention.heads)
        layout.declare(past)

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple[Tensor, ...]:
        waiting, keys, values, flags = state
        attention, block = self.block.attention, self.block
        entered = block.enter(token, block.attention_norm)
        waiting = torch.cat((waiting, token), dim=1)
        keys = torch.cat((keys, attention.split(attention.key(entered))), dim=2)
        values = torch.cat((values, attention.split(attention.value(entered))), dim=2)
        flags = torch.cat((flags, valid))
        first = waiting[:, :1]
        query = attention.split(attention.query(block.enter(first, block.attention_norm)))
        turned = keys
        if self.rotary is not None:
            places = self.places + (position - self.right) if self.counts else self.places
            sine, cosine = (turns.to(keys) for turns in angles(places, self.rotary.width))
            query = rotate(query, sine[self.left : self.left + 1], cosine[self.left : self.left + 1])
            turned = rotate(keys, sine, cosine)
        query, turned = attention.prepared(query, turned, values)
        attended, weights = attention.attend_prepared(query, turned, values, flags > 0.5, first=-self.left)
        token = block.finish(first, attention.output(attention.joined(attended)))
        kept = waiting[:, 1:], keys[:, :, 1:], values[:, :, 1:], flags[1:]
        return token, flags[self.left : self.left + 1], weights[:, :, 0], *kept
