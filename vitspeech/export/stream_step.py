"""A streaming speech model as one step: the next samples and a state in, one row of logits and the next state out.

`AudioStream` grows and shrinks its tensors. A step has tensors of fixed shapes and no special cases, so that it is one
graph: flags mark the start, the look-ahead and the end of a recording. A state of zeros begins a recording.

Each block of the encoder has a step of its own: attention, its convolution, a recurrent layer or a window of tokens. It
takes the token (1, D), `valid` (1,), the token's position or `None`, and the parts of its state, whose shapes are
`shapes`; it returns the token `right` steps before, whether that is valid, its attention weights or `None`, and the
next state. `counts` tells whether it needs positions.

Shapes: C classes, D model width, H heads or the hidden width, K head width, L past tokens of a block, R its look-ahead,
F rows of logits of a token: one, or of a labeler one for each frame, M mel bins.
"""

import math

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder
from vitspeech.attention.block import EncoderBlock
from vitspeech.attention.positions import SinusoidalPositions, rotate_real
from vitspeech.attention.scores import SCORES
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.encoders.recurrent import RecurrentBlock
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.frontends.frames import ConvolutionalFrames

# q·k of rotated vectors depends on their distance only, so positions within the window do; other scores need those in
# the recording.
BY_DISTANCE = {SCORES[name] for name in ("scaled_dot", "dot", "cosine")}


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
        hop_samples: Samples N of a step.
        lead_in_samples: Zeros before a recording, so that its first token ends with a step.
        first_step: The step that ends the first token, from 0.
        steps_ahead: Look-ahead of all blocks: steps without audio that end a recording.
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
        self.hop_samples, window = network.tokens.hop_samples, network.tokens.window_samples
        self.lead_in_samples = -window % self.hop_samples
        self.first_step = (self.lead_in_samples + window) // self.hop_samples - 1
        self.steps_ahead = encoder.receptive_field[1]

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


class AttentionStep(nn.Module):
    """One block, or its attention if it has a convolution: a token in, the token R before it out.

    The state has the last R tokens, which wait for their look-ahead, and a row for each of the last L + R: key, value
    and flag. Keys are stored without rotary positions, which are places in the window.

    The cost of a step is mostly its number of operations: tokens are rows (1, D), for which a linear layer is one
    operation, one layer computes keys and values, and the pairs that rotary positions rotate are put into two halves,
    which changes no product q·k.
    """

    def __init__(self, block: EncoderBlock) -> None:
        super().__init__()
        attention = block.attention
        self.block, self.left, self.right = block, attention.left, attention.right
        self.heads, self.rotary, self.width = attention.heads, attention.rotary, attention.query.out_features
        self.shapes = [(self.right * self.width,), ((self.left + self.right) * (2 * self.width + 1),)]
        self.counts = self.rotary is not None and type(attention.score) not in BY_DISTANCE
        order = torch.arange(self.width)
        if self.rotary is not None and not self.counts:
            order = order.view(self.heads, -1, 2).transpose(1, 2).flatten()  # in each head, the first ones of all pairs
        self.query = joined(order, attention.query)
        self.key_value = joined(order, attention.key, attention.value)
        places = torch.arange(-self.left, self.right + 1.0)
        self.register_buffer("places", places, persistent=False)
        if self.rotary is not None:
            sine, cosine = (turns.to(attention.key.weight) for turns in angles(places, self.rotary.width))
            self.register_buffer("sine", torch.cat((-sine, sine), dim=1), persistent=False)
            self.register_buffer("cosine", torch.cat((cosine, cosine), dim=1), persistent=False)

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


class ConvolutionStep(nn.Module):
    """The convolution of a block, and the MLP after it.

    The state has the last R tokens, which wait for their look-ahead, the last L + R gated tokens, zeros where they are
    not valid, and flags of the last R.
    """

    counts = False

    def __init__(self, block: EncoderBlock) -> None:
        super().__init__()
        module = block.convolution
        self.block, self.left, self.right, self.width = block, module.left, module.right, module.leave.in_features
        self.shapes = [(self.right * self.width,), (self.left + self.right, self.width), (self.right,)]
        kernel = module.depthwise.weight.detach()[:, 0].t().contiguous()
        self.register_buffer("kernel", kernel, persistent=False)

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple:
        block, module = self.block, self.block.convolution
        waiting = torch.cat((state[0], token.view(-1)))
        gated = torch.cat((state[1], module.gate(block.pre_norm(token, block.convolution_norm)) * valid))
        flags = torch.cat((state[2], valid))
        mixed = module.finish((gated * self.kernel).sum(0, keepdim=True) + module.depthwise.bias)
        token = block.mlp_branch(block.add_residual(waiting[: self.width].view(1, -1), mixed, block.convolution_norm))
        return token, flags[:1], None, waiting[self.width :], gated[1:], flags[1:]


class RecurrentStep(nn.Module):
    """A causal LSTM or GRU layer: its state is left as it is by tokens that are not valid."""

    right, counts = 0, False

    def __init__(self, block: RecurrentBlock) -> None:
        super().__init__()
        self.block = block
        self.is_lstm = isinstance(block.layer, nn.LSTM)
        self.shapes = [(1, 1, block.layer.hidden_size)] * (2 if self.is_lstm else 1)

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple:
        token, new = self.block.step(token.view(1, 1, -1), state if self.is_lstm else state[0])
        new = new if self.is_lstm else (new,)
        kept = [torch.where(valid > 0.5, after, before) for after, before in zip(new, state, strict=True)]
        return token.view(1, -1), valid, None, *kept


class WindowStep(nn.Module):
    """A `WindowMLP`: the state has the last L + R tokens, zeros where they are not valid, and flags of the last R."""

    counts = False

    def __init__(self, encoder: WindowMLP) -> None:
        super().__init__()
        self.encoder = encoder
        self.left, self.right = encoder.receptive_field
        self.shapes = [(1, self.left + self.right, encoder.width), (self.right,)]

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple:
        tokens = torch.cat((state[0], (token * valid)[None]), dim=1)
        flags = torch.cat((state[1], valid))
        (window, *rest), *others = self.encoder.blocks
        token = window.within(tokens)
        for layer in (*rest, *others):
            token = layer(token)
        return token.view(1, -1), flags[:1], None, tokens[:, 1:], flags[1:]


def steps_of(block: EncoderBlock) -> list[nn.Module]:
    """The steps of a block: that of its attention, and that of its convolution if it has one."""
    return [AttentionStep(block)] if block.convolution is None else [AttentionStep(block), ConvolutionStep(block)]


def has_fixed_state(encoder: Encoder) -> bool:
    """Whether an encoder can be streamed with a state of fixed size, for any time."""
    return None not in encoder.receptive_field and isinstance(encoder.positions, SinusoidalPositions | None)


def angles(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Sine and cosine of positions (P,), as in `vitspeech.attention.positions.sinusoidal`: two (P, width / 2)."""
    rates = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    turns = positions.double()[:, None] * rates
    return turns.sin(), turns.cos()
