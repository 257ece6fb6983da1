"""One token through a block of an encoder: attention, its convolution, a recurrent layer or a window of tokens.

A step takes the token (1, D), `valid` (1,), the token's position or `None`, and the parts of its state, whose shapes
are `shapes`; it returns the token `right` steps before, whether that is valid, its attention weights or `None`, and the
next state. `counts` tells whether it needs positions.

Shapes: D model width, H heads or the hidden width, K head width, L past tokens, R look-ahead.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder
from vitspeech.attention.block import EncoderBlock
from vitspeech.attention.positions import SinusoidalPositions, rotate_real
from vitspeech.attention.scores import SCORES
from vitspeech.encoders.recurrent import RecurrentBlock
from vitspeech.encoders.window_mlp import WindowMLP

# q·k of rotated vectors depends on their distance only, so positions within the window do; other scores need those in
# the recording.
BY_DISTANCE = {SCORES[name] for name in ("scaled_dot", "dot", "cosine")}


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
