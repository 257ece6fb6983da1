"""The fully connected sliding window: each token's output is an MLP of the tokens within a fixed window.

Shapes: B batch, T tokens, D model width.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.attention.streaming import check_streamable
from vitspeech.errors import check_fraction, check_number


class Window(nn.Linear):
    """A linear layer over the concatenated tokens t - left .. t + right; zeros stand for tokens beyond either end.

    Shape:
        (B, T, D) -> (B, T, features)
    """

    def __init__(self, width: int, features: int, left: int, right: int) -> None:
        super().__init__((left + 1 + right) * width, features)
        self.left, self.right = left, right

    def forward(self, x: Tensor) -> Tensor:
        return self.within(F.pad(x, (0, 0, self.left, self.right)))

    def within(self, x: Tensor) -> Tensor:
        """The outputs whose window lies within the tokens: (B, T, D) -> (B, T - left - right, features)."""
        # A convolution computes the same product without storing the overlapping windows.
        weight = self.weight.unflatten(1, (self.left + 1 + self.right, -1)).transpose(1, 2)
        return F.conv1d(x.transpose(1, 2), weight, self.bias).transpose(1, 2)


class WindowMLP(nn.Module):
    """A multilayer perceptron over a sliding window, which takes the place of the encoder in every speech model.

    All tokens of the window are connected to all hidden units, as in the hybrid recognizers before recurrence (Bourlard
    and Morgan 1994; Hinton et al. 2012, doi:10.1109/MSP.2012.2205597). Its parameters grow with the window, those of
    self-attention do not, and no output depends on anything outside of the window. It can be streamed.

    In a config: `encoder: {class_path: vitspeech.WindowMLP, init_args: {left: 8, right: 8}}`.

    Args:
        width: Model width D, that of the tokens.
        left: Tokens of the window before the current one.
        right: Tokens of the window after it; 0 is causal.
        hidden: Width of the hidden layers.
        depth: Number of hidden layers; the first one sees the window, the others its output.
        dropout: Dropout probability of the hidden layers.

    Attributes:
        receptive_field: (left, right).

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)
    """

    def __init__(
        self,
        width: int = 128,
        left: int = 8,
        right: int = 8,
        *,
        hidden: int = 512,
        depth: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, number, low in (("left", left, 0), ("right", right, 0), ("hidden", hidden, 1), ("depth", depth, 1)):
            check_number(name, number, low)
        check_fraction("dropout", dropout)
        self.width, self.receptive_field = width, (left, right)

        def layer(linear: nn.Linear) -> nn.Sequential:
            return nn.Sequential(linear, nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(dropout))

        others = (layer(nn.Linear(hidden, hidden)) for _ in range(depth - 1))
        self.blocks = nn.ModuleList([layer(Window(width, hidden, left, right)), *others])
        self.output = nn.Linear(hidden, width)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Encode tokens: x (B, T, D), padding (B, T), true for valid tokens, or None -> (B, T, D)."""
        if padding is not None:
            x = x * padding[..., None]  # as beyond the end of a sequence that is not padded
        for block in self.blocks:
            x = block(x)
        return self.output(x)

    def stream(self) -> "WindowStream":
        """A stream through the encoder; see `WindowStream`."""
        return WindowStream(self)


class WindowStream:
    """Streams a sequence through a `WindowMLP`: the output of a token comes with the last token of its window.

    Args:
        encoder: In evaluation mode; an `InputError` otherwise.
    """

    def __init__(self, encoder: WindowMLP) -> None:
        check_streamable(encoder)
        self.encoder = encoder
        self.restart()

    def restart(self) -> None:
        """Discard all state: the next token is the first of a sequence."""
        self.kept: Tensor | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """All that is stored."""
        return [] if self.kept is None else [self.kept]

    @torch.no_grad()
    def push(self, x: Tensor) -> Tensor:
        """Push the next tokens and return the outputs that have become final: (B, T, D) -> (B, T', D)."""
        if not x.shape[1]:
            return x
        left, right = self.encoder.receptive_field
        start = F.pad(x[:, :0], (0, 0, left, 0)) if self.kept is None else self.kept
        tokens = torch.cat((start, x), dim=1)
        self.kept = tokens[:, max(tokens.shape[1] - left - right, 0) :].clone()
        if tokens.shape[1] <= left + right:
            return x[:, :0]
        return self.outputs(tokens)

    @torch.no_grad()
    def flush(self, like: Tensor) -> Tensor:
        """End the sequence: return the remaining outputs and restart: (B, any, D) -> (B, up to right, D)."""
        kept, (left, right) = self.kept, self.encoder.receptive_field
        self.restart()
        if kept is None or kept.shape[1] <= left:
            return like[:, :0]
        return self.outputs(F.pad(kept, (0, 0, 0, right)))

    def outputs(self, tokens: Tensor) -> Tensor:
        """The outputs whose windows lie within the tokens."""
        (window, *rest), *others = self.encoder.blocks
        x = window.within(tokens)
        for layer in rest:
            x = layer(x)
        for block in others:
            x = block(x)
        return self.encoder.output(x)
