"""The transformer encoder: a stack of blocks of self-attention and MLP, and a convolution between them if asked for.

Shapes: B batch, T tokens, D model width, H heads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from vitspeech.attention.block import EncoderBlock, final_norm
from vitspeech.attention.config import EncoderConfig
from vitspeech.attention.positions import Positions, split_positions
from vitspeech.attention.streaming import EncoderStream


class Encoder(nn.Module):
    """A stack of `EncoderBlock`s, and a last layer norm if they are pre-norm.

    Args:
        width: Model width D.
        config: An `EncoderConfig`, a dictionary of its fields, or `None` for the defaults.
        positions: `sinusoidal` or `learned` are added to the input (and the sum is dropped out, Vaswani et al. 2017,
            sec. 5.4), `relative` and `rotary` act in the attention of every block; or a module of one of these kinds,
            or `None`. `learned` has 1,024 positions; for others pass `LearnedPositions`.

    Attributes:
        left: Past context of the attention of each block in tokens.
        right: Look-ahead of the attention of each block in tokens.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)
    """

    def __init__(
        self, width: int, config: EncoderConfig | Mapping[str, Any] | None = None, *, positions: Positions = None
    ) -> None:
        super().__init__()
        config = EncoderConfig.of(config)
        configs = config.per_block()
        self.width = width
        self.left, self.right = [config.left for config in configs], [config.right for config in configs]
        self.positions, in_attention = split_positions(positions, width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(EncoderBlock(width, config, positions=in_attention) for config in configs)
        self.norm = final_norm(width, config)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Encode tokens: x (B, T, D), padding (B, T), true for valid tokens, or None -> (B, T, D)."""
        return self.outputs(x, padding, [len(self.blocks)])[0]

    def outputs(self, x: Tensor, padding: Tensor | None, depths: Sequence[int]) -> list[Tensor]:
        """The outputs after the numbers of blocks in `depths`, ascending, with the last norm: each (B, T, D)."""
        x, outputs = self.add_positions(x), []
        for number, block in enumerate(self.blocks, 1):
            x = block(x, padding)
            if number in depths:
                outputs.append(self.norm(x))
        return outputs

    def add_positions(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the positions `first`, `first` + 1, …, if the encoder adds any: (B, T, D) -> (B, T, D)."""
        return x if self.positions is None else self.dropout(self.positions(x, first))

    @property
    def receptive_field(self) -> tuple[int | None, int | None]:
        """Past context and look-ahead of one output through all blocks, in tokens; `None` is unlimited."""
        reaches = zip(*(block.receptive_field for block in self.blocks), strict=True)
        return tuple(None if None in contexts else sum(contexts) for contexts in reaches)

    def stream(self) -> EncoderStream:
        """A stream through the encoder; see `EncoderStream`."""
        return EncoderStream(self)
