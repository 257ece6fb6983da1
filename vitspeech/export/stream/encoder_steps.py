"""One token through encoders that are not attention, with the interface of `AttentionStep`.

Shapes: D model width, H hidden width, L left and R right tokens of a window.
"""

import torch
from torch import Tensor, nn

from vitspeech.encoders.recurrent import RecurrentBlock
from vitspeech.encoders.window_mlp import WindowMLP
from vitspeech.export.stream.state_layout import StateLayout


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

    def declare(self, layout: StateLayout) -> None:
        """Declare the hidden and the cell state."""
        for _ in range(self.parts):
            layout.declare(1, 1, self.block.layer.hidden_size)

    def forward(self, token: Tensor, valid: Tensor, position: Tensor | None, *state: Tensor) -> tuple:
        token, new = self.block.step(token.view(1, 1, -1), state if self.parts == 2 else state[0])
        new = new if self.parts == 2 else (new,)
        kept = [torch.where(valid > 0.5, after, before) for after, before in zip(new, state, strict=True)]
        return token.view(1, -1), valid, None, *kept


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

    def declare(self, layout: StateLayout) -> None:
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
