"""A streaming speech model as one step: the next samples and a state in, one row of logits and the next state out.

`AudioStream` grows and shrinks its tensors. A step has tensors of fixed shapes and no special cases, so that it is one
graph: flags mark the start, the look-ahead and the end of a recording. A state of zeros begins a recording.

Shapes: C classes, D model width, H heads, L past tokens of a block, R its look-ahead, F rows of logits of a token: one,
or of a labeler one for each frame, M mel bins.
"""

import math

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.export.stream.block_steps import RecurrentStep, WindowStep, angles, has_fixed_state, steps_of
from vitspeech.frontends import SpeechFrontend
from vitspeech.frontends.frames import ConvolutionalFrames


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
            if not has_fixed_state(encoder):
                reason = "learned positions end after their table" if None not in encoder.receptive_field else (
                    f"left={encoder.left}, right={encoder.right} of a block is unlimited, so its state would grow; "
                    "train it with a limited `left`, or export a classifier with --offline"
                )  # fmt: skip
                raise InputError(f"{name} can't be exported as a stream: {reason}")
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
        self.shapes = [shape for part in (self.front, *self.blocks) for shape in part.shapes] + [(1,)] * self.counts
        self.state_size = sum(map(math.prod, self.shapes))

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
        flat = state[0].split([math.prod(shape) for shape in self.shapes])
        parts = [part.view(shape) if len(shape) > 1 else part for part, shape in zip(flat, self.shapes, strict=True)]
        token, *kept = self.front(samples, *parts[: len(self.front.shapes)])
        new, parts, weights = list(kept), parts[len(self.front.shapes) :], []
        position = parts.pop() if self.counts else None
        if self.counts:
            # Counts on without audio, while tokens that wait for their look-ahead come out.
            new_position = position + torch.maximum(valid, (position > 0).to(valid))
        if self.positions is not None:
            token = token + torch.stack(angles(position, token.shape[-1]), dim=-1).flatten().to(token)
        for block in self.blocks:
            token, valid, its_weights, *kept = block(token, valid, position, *parts[: len(block.shapes)])
            new, parts = new + kept, parts[len(block.shapes) :]
            weights += [] if its_weights is None else [its_weights]
            position = position - block.right if self.counts else None
        if self.counts:
            new.append(new_position)
        logits = self.network.frame_logits(self.last(token).view(1, 1, -1)).flatten(0, 1)
        new_state = torch.cat([part.reshape(-1) if part.ndim > 1 else part for part in new])[None]
        return logits, valid, new_state, *(weights if self.attention else [])


class TokenStep(nn.Module):
    """The next token, and the samples and frames that the token after it shares with it.

    Shape:
        samples (1, N) and the two parts of the state -> token (1, D), and the two parts of the next state
    """

    def __init__(self, tokens: SpeechFrontend) -> None:
        super().__init__()
        self.log_mel, self.frames = tokens.log_mel, tokens.frames
        if isinstance(tokens.frames, ConvolutionalFrames):
            self.frames = LinearStem(tokens.frames)
        self.overlap = tokens.log_mel.window_samples - tokens.log_mel.hop_samples
        self.receptive_field = tokens.frames.receptive_field
        self.stored = max(self.receptive_field - tokens.frames.stride, 0)
        self.shapes = [(1, self.overlap), (1, self.stored, self.log_mel.mels)]

    def forward(self, samples: Tensor, overlap: Tensor, stored: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        samples = torch.cat((overlap, samples), dim=1)
        frames = torch.cat((stored, self.log_mel(samples)), dim=1)
        token = self.frames(frames[:, frames.shape[1] - self.receptive_field :]).view(1, -1)
        return token, samples[:, samples.shape[1] - self.overlap :], frames[:, frames.shape[1] - self.stored :]


class LinearStem(nn.Module):
    """The two convolutions of `ConvolutionalFrames` for one token, as linear layers that include the batch norms.

    Frames lie one after the other in memory, so the input of a convolution at one place is a slice; for one token a
    linear layer is several times as fast as a convolution.

    Shape:
        frames (1, R, M) -> (1, D)
    """

    def __init__(self, frames: ConvolutionalFrames) -> None:
        super().__init__()
        narrow, first_norm, self.activation, strided, last_norm = frames.stem
        self.mels, self.size, self.places = narrow.in_channels, narrow.kernel_size[0], strided.kernel_size[0]
        self.narrow, self.strided = linear(narrow, first_norm), linear(strided, last_norm)

    def forward(self, frames: Tensor) -> Tensor:
        flat = frames.view(-1)
        parts = [flat[place * self.mels : (place + self.size) * self.mels] for place in range(self.places)]
        hidden = self.activation(self.narrow(torch.stack(parts)))
        return self.strided(hidden.view(1, -1))


def linear(convolution: nn.Conv1d, norm: nn.BatchNorm1d) -> nn.Linear:
    """A convolution over time and its batch norm at one place: (1, steps · channels) -> (1, D)."""
    # In double precision, so that the folded weights are rounded once.
    scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    layer = nn.Linear(convolution.kernel_size[0] * convolution.in_channels, convolution.out_channels)
    weight, bias = convolution.weight * scale[:, None, None], norm.bias - norm.running_mean * scale
    layer.weight.data = weight.transpose(1, 2).flatten(1).detach().to(convolution.weight)
    layer.bias.data = bias.detach().to(convolution.weight)
    return layer
