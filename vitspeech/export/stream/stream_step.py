"""A streaming speech model as one step: the next samples and a state in, one row of logits and the next state out.

`AudioStream` grows and shrinks its tensors. A step has tensors of fixed shapes and no special cases, so that it is one
graph: flags mark the start, the look-ahead and the end of a recording. A state of zeros begins a recording.

Shapes: C classes, D model width, H heads, L past tokens of a block, R its look-ahead, F rows of logits of a token: one,
or of a labeler one for each frame.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.export.stream.attention_step import angles, check_attention, steps_of
from vitspeech.export.stream.encoder_steps import RecurrentStep, WindowStep
from vitspeech.export.stream.state_layout import StateLayout
from vitspeech.export.stream.token_step import TokenStep


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
        InputError: If the encoder is another one, or its past context is unlimited.
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
