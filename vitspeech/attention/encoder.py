"""The transformer encoder: a stack of blocks of self-attention and MLP, and a convolution between them if asked for.

Shapes: B batch, T tokens, D model width, H heads.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from vitspeech.attention.block import ConvolutionModule, ResidualBlock, final_norm, make_mlp
from vitspeech.attention.config import EncoderConfig
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.attention.positions import split_positions
from vitspeech.attention.streaming import EncoderStream

InAttention = Literal["relative", "rotary"] | nn.Module | None
Positions = Literal["sinusoidal", "learned", "relative", "rotary"] | nn.Module | None


class EncoderBlock(ResidualBlock):
    """A transformer block: self-attention, then an MLP, each with a residual and a layer norm before or after.

    With `convolution`, a `ConvolutionModule` between them is a third such branch.

    Args:
        width: Model width D.
        config: Settings of this block: its contexts are single numbers, `drop_path` is the block's own.
        positions: As in `MultiHeadAttention`.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)

    Raises:
        InputError: As `MultiHeadAttention`, or if `drop_path` is out of range or a name is unknown.
    """

    def __init__(
        self, width: int, config: EncoderConfig | Mapping[str, Any] | None = None, *, positions: InAttention = None
    ) -> None:
        config = EncoderConfig.of(config)
        super().__init__(config, config.drop_path)
        self.attention_norm = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(
            width,
            config.heads,
            left=config.left,
            right=config.right,
            dropout=config.dropout,
            score=config.score,
            normalizer=config.normalizer,
            positions=positions,
        )
        self.convolution = make_convolution(width, config)
        if self.convolution is not None:
            self.convolution_norm = nn.LayerNorm(width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = make_mlp(width, config)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        x = self.leave(x, self.attention(self.enter(x, self.attention_norm), padding=padding), self.attention_norm)
        if self.convolution is not None:
            mixed = self.convolution(self.enter(x, self.convolution_norm), padding)
            x = self.leave(x, mixed, self.convolution_norm)
        return self.finish(x)

    def finish(self, x: Tensor) -> Tensor:
        """The last branch of the block, the MLP: (B, T, D) -> (B, T, D)."""
        return self.leave(x, self.mlp(self.enter(x, self.mlp_norm)), self.mlp_norm)

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """Past context and look-ahead of the block in tokens; `None` is unlimited."""
        reaches = [(self.attention.left, self.attention.right)]
        if self.convolution is not None:
            reaches.append((self.convolution.left, self.convolution.right))
        return tuple(None if None in contexts else sum(contexts) for contexts in zip(*reaches, strict=True))


def make_convolution(width: int, config: EncoderConfig) -> ConvolutionModule | None:
    """The convolution module of a block, `None` without one.

    Raises:
        InputError: As `ConvolutionModule`.
    """
    if not config.convolution:
        return None
    right = config.convolution_right
    if right is None:
        right = config.convolution // 2 if config.right is None else 0
    return ConvolutionModule(width, config.convolution, right)


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

    Raises:
        InputError: As `EncoderBlock`, or if `depth` is below 1, a list of contexts does not have `depth` entries, or a
            sequence is longer than the learned positions.
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
        return self.outputs(x, padding, [len(self.blocks)])[0]

    def outputs(self, x: Tensor, padding: Tensor | None, depths: Sequence[int]) -> list[Tensor]:
        """The outputs after each number of blocks in `depths`, with the last norm: (B, T, D) -> a list of (B, T, D).

        Args:
            x: As in `forward`.
            padding: As in `forward`.
            depths: Numbers of blocks in ascending order, from 1 to the depth of the encoder.
        """
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
    def reach(self) -> tuple[int | None, int | None]:
        """Past context and look-ahead of one output through all blocks, in tokens; `None` is unlimited."""
        reaches = zip(*(block.reach for block in self.blocks), strict=True)
        return tuple(None if None in contexts else sum(contexts) for contexts in reaches)

    def stream(self) -> EncoderStream:
        """A stream through the encoder; see `EncoderStream`."""
        return EncoderStream(self)
