"""One token through convolutions, and through encoders that are not attention, with the interface of `BlockStep`.

Shapes: D model width, H hidden width, L left and R right tokens of a window.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention.block import EncoderBlock
from vitspeech.encoders.recurrent import RecurrentBlock
from vitspeech.encoders.window_mlp import WindowMLP


class RecurrentStep(nn.Module):
    """A causal LSTM or GRU layer: its state is left as it is by tokens that are not valid.

    Shape:
        token (1, D), valid (1,), position, state (1, 1, H), one or two -> token (1, H), valid (1,), no weights, state
    """

    right, counts = 0, False

    def __init__(self, block: RecurrentBlock) -> None:
        super().__init__()
        self.block = block
        self.parts = 2 if isinstance(block.layer, nn.LSTM) else 1

    def declare(self, layout: "StateLayout") -> None:  # noqa: F821
        """Declare the hidden and the cell state."""
        for _ in range(self.parts):
            layout.declare(1, 1, self.block.layer.hidden_size)

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple:
        token, new = self.block.step(token.view(1, 1, -1), state if self.parts == 2 else state[0])
        new = new if self.parts == 2 else (new,)
        kept = [torch.where(valid > 0.5, after, before) for after, before in zip(new, state, strict=True)]
        return token.view(1, -1), valid, None, *kept


class ConvolutionStep(nn.Module):
    """The convolution of a block, and the MLP after it.

    The state has the last R tokens, which wait for their look-ahead, the last L + R gated tokens, zeros where they are
    not valid, and flags of the last R.

    Shape:
        token (1, D), valid (1,), position, state (R D,), (L + R, D) and (R,) -> token (1, D), valid (1,), no weights,
        state
    """

    parts, counts = 3, False

    def __init__(self, block: EncoderBlock) -> None:
        super().__init__()
        module = block.convolution
        self.block, self.left, self.right, self.width = block, module.left, module.right, module.leave.in_features
        kernel = module.depthwise.weight.detach()[:, 0].t().contiguous()
        self.register_buffer("kernel", kernel, persistent=False)

    def declare(self, layout: "StateLayout") -> None:  # noqa: F821
        """Declare waiting tokens, gated tokens and flags."""
        layout.declare(self.right * self.width)
        layout.declare(self.left + self.right, self.width)
        layout.declare(self.right)

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple:
        block, module = self.block, self.block.convolution
        waiting = torch.cat((state[0], token.view(-1)))
        gated = torch.cat((state[1], module.gate(block.pre_norm(token, block.convolution_norm)) * valid))
        flags = torch.cat((state[2], valid))
        mixed = module.finish((gated * self.kernel).sum(0, keepdim=True) + module.depthwise.bias)
        token = block.mlp_branch(block.add_residual(waiting[: self.width].view(1, -1), mixed, block.convolution_norm))
        return token, flags[:1], None, waiting[self.width :], gated[1:], flags[1:]


class WindowStep(nn.Module):
    """A `WindowMLP`: the state has the last L + R tokens, zeros where they are not valid, and flags of the last R.

    Shape:
        token (1, D), valid (1,), position, state (1, L + R, D) and (R,) -> token (1, D), valid (1,), no weights, state
    """

    parts, counts = 2, False

    def __init__(self, encoder: WindowMLP) -> None:
        super().__init__()
        self.encoder = encoder
        self.left, self.right = encoder.receptive_field

    def declare(self, layout: "StateLayout") -> None:  # noqa: F821
        """Declare tokens and flags."""
        layout.declare(1, self.left + self.right, self.encoder.width)
        layout.declare(self.right)

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple:
        tokens = torch.cat((state[0], (token * valid)[None]), dim=1)
        flags = torch.cat((state[1], valid))
        (window, *rest), *others = self.encoder.blocks
        token = window.within(tokens)
        for layer in (*rest, *others):
            token = layer(token)
        return token.view(1, -1), flags[:1], None, tokens[:, 1:], flags[1:]
