"""The settings of an encoder and of a decoder: every model takes them as `encoder` and `decoder`.

In a config they are nested keys (`encoder: {depth: 6, heads: 4, left: 8}`), in Python a dataclass
(`EncoderConfig(depth=6, left=8)`) or a dictionary with the same keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from vitspeech.attention.scores import Score
from vitspeech.errors import InputError, check_fraction, check_number

Contexts = int | list[int | None] | None


@dataclass(frozen=True)
class Config:
    """A dataclass of settings that can also be given as a dictionary."""

    @classmethod
    def of(cls, value: Self | Mapping[str, Any] | None) -> Self:
        """The settings from a config, from a dictionary of its fields, or the defaults for `None`."""
        if isinstance(value, cls):
            return value
        return cls(**(value or {}))


@dataclass(frozen=True)
class EncoderConfig(Config):
    """Settings of an `Encoder`.

    Args:
        depth: Number of blocks.
        heads: Number of attention heads; must divide the model width.
        left: Past context in tokens, one number for all blocks or a list with one per block; `None` is unlimited.
        right: Look-ahead in tokens, one number or a list; `None` is unlimited, 0 is causal.
        mlp_ratio: Hidden width of the MLP as a multiple of the model width.
        dropout: Dropout probability of attention weights and of both branches' outputs.
        drop_path: Stochastic depth probability of the last block; it grows linearly from 0 in the first block.
        score: How queries and keys are compared: a registered name (`scaled_dot`, `dot`, `general`, `additive`,
            `cosine`, or one of your own), or a subclass of `Score` (in a config, its import path).
        normalizer: How scores become weights: `softmax` or `relu`.
        norm: Layer norm in front of each branch (`pre`, Xiong et al. 2020, arXiv:2002.04745), or after each residual
            sum (`post`, Vaswani et al. 2017). Post-norm needs a warm-up of the learning rate.
        activation: Of the MLP: `gelu`, or `relu` as in Vaswani et al. 2017.
        convolution: Kernel size in tokens of a convolution module between attention and MLP (`ConvolutionModule`,
            Gulati et al. 2020, arXiv:2005.08100); 0 has none.
        convolution_right: Tokens of the kernel after the current one, which add to the look-ahead, one number or a
            list. `None` is half the kernel in a block with an unlimited `right`, and 0 in the others. Unused without
            `convolution`.
    """

    depth: int = 6
    heads: int = 4
    left: Contexts = None
    right: Contexts = None
    mlp_ratio: float = 4.0
    dropout: float = 0.0
    drop_path: float = 0.0
    score: type[Score] | str = "scaled_dot"
    normalizer: Literal["softmax", "relu"] = "softmax"
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["gelu", "relu"] = "gelu"
    convolution: int = 0
    convolution_right: Contexts = None

    def __post_init__(self) -> None:
        check_number("depth", self.depth, 1)
        check_fraction("drop_path", self.drop_path)
        check_fraction("dropout", self.dropout)
        check_number("mlp_ratio", self.mlp_ratio, 0)
        check_number("convolution", self.convolution, 0)

    def per_block(self) -> list[Self]:
        """One config for each block, with its own `left`, `right`, `convolution_right` and `drop_path`."""
        names = ("left", "right", "convolution_right")
        contexts = zip(*(repeated(name, getattr(self, name), self.depth) for name in names), strict=True)
        growth = [number / (self.depth - 1) if self.depth > 1 else 1 for number in range(self.depth)]
        return [
            replace(self, **dict(zip(names, context, strict=True)), drop_path=self.drop_path * factor)
            for context, factor in zip(contexts, growth, strict=True)
        ]


@dataclass(frozen=True)
class DecoderConfig(Config):
    """Settings of a `Decoder`.

    Args:
        depth: Number of blocks.
        heads: Number of attention heads; must divide the model width.
        left: Past context of the self-attention in tokens; `None` is unlimited.
        mlp_ratio: Hidden width of the MLP as a multiple of the model width.
        dropout: Dropout probability of attention weights and of the branches' outputs.
        score: How queries and keys are compared, as in `EncoderConfig`.
        normalizer: How scores become weights: `softmax` or `relu`.
        norm: `pre` or `post`, as in `EncoderConfig`.
        activation: Of the MLP: `gelu` or `relu`.
    """

    depth: int = 2
    heads: int = 4
    left: int | None = None
    mlp_ratio: float = 4.0
    dropout: float = 0.0
    score: type[Score] | str = "scaled_dot"
    normalizer: Literal["softmax", "relu"] = "softmax"
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["gelu", "relu"] = "gelu"

    def __post_init__(self) -> None:
        check_number("depth", self.depth, 1)
        check_fraction("dropout", self.dropout)
        check_number("mlp_ratio", self.mlp_ratio, 0)

    @classmethod
    def like(cls, encoder: EncoderConfig) -> Self:
        """Two blocks with the heads, MLP, dropout, score, normalizer and kind of norm of an encoder."""
        shared = ("heads", "mlp_ratio", "dropout", "score", "normalizer", "norm", "activation")
        return cls(**{name: getattr(encoder, name) for name in shared})


def repeated(name: str, context: Contexts, depth: int) -> list[int | None]:
    """One context per block."""
    contexts = [context] * depth if context is None or isinstance(context, int) else list(context)
    if len(contexts) != depth:
        raise InputError(f"{name}={contexts} has {len(contexts)} entries, but there are depth={depth} blocks")
    return contexts
