"""The block of the encoder and its parts: residual branches with a layer norm, MLP, convolution module.

The blocks of the decoder share the branches and the MLP.

Shapes: B batch, T tokens, D model width, K kernel size.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.attention.config import DecoderConfig, EncoderConfig
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.attention.positions import InAttention
from vitspeech.errors import check_number, named

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU}


class DropPath(nn.Module):
    """Stochastic depth (Huang et al. 2016, arXiv:1603.09382): drops a residual branch for random samples in training.

    The branch of the remaining samples is scaled by 1 / (1 - prob), which keeps its expectation.

    Args:
        prob: Probability of dropping the branch of a sample, from 0 to below 1.

    Shape:
        (B, …) -> (B, …)
    """

    def __init__(self, prob: float) -> None:
        super().__init__()
        self.prob = prob

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.prob == 0:
            return branch
        shape = (branch.shape[0],) + (1,) * (branch.ndim - 1)
        mask = torch.rand(shape, device=branch.device) >= self.prob
        return branch * (mask / (1 - self.prob)).to(branch.dtype)


class ResidualBlock(nn.Module):
    """A block of residual branches f, each with its own layer norm; the last one is an MLP, `mlp` after `mlp_norm`.

    Pre-norm computes x + f(norm(x)) (Xiong et al. 2020, arXiv:2002.04745), post-norm norm(x + f(x)) (Vaswani et al.
    2017, arXiv:1706.03762, sec. 3.1). Call `add_residual(x, f(pre_norm(x, norm)), norm)`.

    Args:
        config: Its `norm` and `dropout` are used.
        drop_path: Probability of dropping a branch; see `DropPath`.
    """

    def __init__(self, config: EncoderConfig | DecoderConfig, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm_first = named(("pre", "post"), "norm", config.norm) == "pre"
        self.dropout = nn.Dropout(config.dropout)
        self.drop_path = DropPath(drop_path)

    def pre_norm(self, x: Tensor, norm: nn.Module) -> Tensor:
        """The input of a branch: (B, T, D) -> (B, T, D)."""
        return norm(x) if self.norm_first else x

    def add_residual(self, x: Tensor, branch: Tensor, norm: nn.Module) -> Tensor:
        """Add the output of a branch to x: two (B, T, D) -> (B, T, D)."""
        x = x + self.drop_path(self.dropout(branch))
        return x if self.norm_first else norm(x)

    def mlp_branch(self, x: Tensor) -> Tensor:
        """The last branch of a block, its MLP: (B, T, D) -> (B, T, D)."""
        return self.add_residual(x, self.mlp(self.pre_norm(x, self.mlp_norm)), self.mlp_norm)


def make_mlp(width: int, config: EncoderConfig | DecoderConfig) -> nn.Sequential:
    """The MLP of a block: (B, T, D) -> (B, T, D)."""
    hidden = int(width * config.mlp_ratio)
    activation = named(ACTIVATIONS, "activation", config.activation)()
    return nn.Sequential(nn.Linear(width, hidden), activation, nn.Dropout(config.dropout), nn.Linear(hidden, width))


def final_norm(width: int, config: EncoderConfig | DecoderConfig) -> nn.Module:
    """The layer norm after the last block, which post-norm blocks do not need."""
    return nn.LayerNorm(width) if config.norm == "pre" else nn.Identity()


class ConvolutionModule(nn.Module):
    """Pointwise layer with a gate (GLU), depthwise convolution, norm, SiLU, pointwise layer (Gulati et al. 2020).

    arXiv:2005.08100, sec. 2.2, with a layer norm in place of the batch norm, so that neither padding nor the other
    utterances of a batch matter, and a stream equals the full sequence. Tokens before the first and after the last
    count as zeros.

    Args:
        width: Model width D.
        kernel: Tokens that the convolution covers, K.
        right: How many of these follow the current token: its look-ahead. The other K - 1 - `right` precede it.

    Attributes:
        left: Tokens before the current one.
        right: Tokens after it.

    Shape:
        x (B, T, D), padding (B, T), true for valid tokens, or None -> (B, T, D)
    """

    def __init__(self, width: int, kernel: int, right: int = 0) -> None:
        super().__init__()
        check_number("convolution_right", right, 0, kernel - 1)
        self.left, self.right = kernel - 1 - right, right
        self.enter = nn.Linear(width, 2 * width)
        self.depthwise = nn.Conv1d(width, width, kernel, groups=width)
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, width)

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that are trained without weight decay."""
        return {"depthwise.weight"}

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        gated = self.gate(x)
        if padding is not None:
            gated = gated * padding[..., None]
        return self.mix(F.pad(gated, (0, 0, self.left, self.right)))

    def gate(self, x: Tensor) -> Tensor:
        """What the convolution takes: (B, T, D) -> (B, T, D)."""
        return F.glu(self.enter(x), dim=-1)

    def mix(self, gated: Tensor) -> Tensor:
        """The rest of the module, without padding: gated tokens (B, T + K - 1, D) -> (B, T, D)."""
        # As an image of one row, tokens lie channels last as they are: faster on CPU than Conv1d on their transpose.
        row = gated.transpose(1, 2)[:, :, None].contiguous(memory_format=torch.channels_last)
        if row.is_cpu and row.dtype in (torch.bfloat16, torch.float16):
            # oneDNN 3.10 (torch 2.11) does not return from its bf16 kernel for some shapes, such as (3, 46, 144) on two
            # threads; its fp32 kernel does.
            with torch.autocast("cpu", enabled=False):
                mixed = self.convolve(row.float(), self.depthwise.weight.float(), self.depthwise.bias.float())
            mixed = mixed.to(row.dtype)
        else:
            mixed = self.convolve(row, self.depthwise.weight, self.depthwise.bias)
        return self.finish(mixed[:, :, 0].transpose(1, 2))

    def mix_few(self, gated: Tensor) -> Tensor:
        """`mix` for the few tokens of a push, without the time that a convolution takes to start."""
        windows = gated.unfold(1, self.depthwise.kernel_size[0], 1)
        return self.finish((windows * self.depthwise.weight[:, 0]).sum(-1) + self.depthwise.bias)

    @staticmethod
    def convolve(row: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Depthwise convolution of rows (B, D, 1, T + K - 1) -> (B, D, 1, T)."""
        return F.conv2d(row, weight[:, :, None], bias, groups=len(bias))

    def finish(self, mixed: Tensor) -> Tensor:
        """What follows the convolution: (..., D) -> (..., D)."""
        return self.leave(F.silu(self.norm(mixed)))


class EncoderBlock(ResidualBlock):
    """A transformer block: self-attention, then an MLP, each with a residual and a layer norm before or after.

    With `convolution`, a `ConvolutionModule` between them is a third such branch.

    Args:
        width: Model width D.
        config: Settings of this block: its contexts are single numbers, `drop_path` is the block's own.
        positions: As in `MultiHeadAttention`.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, T, D)
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
        x = self.add_residual(
            x, self.attention(self.pre_norm(x, self.attention_norm), padding=padding), self.attention_norm
        )
        if self.convolution is not None:
            mixed = self.convolution(self.pre_norm(x, self.convolution_norm), padding)
            x = self.add_residual(x, mixed, self.convolution_norm)
        return self.mlp_branch(x)

    @property
    def receptive_field(self) -> tuple[int | None, int | None]:
        """Past context and look-ahead of the block in tokens; `None` is unlimited."""
        reaches = [(self.attention.left, self.attention.right)]
        if self.convolution is not None:
            reaches.append((self.convolution.left, self.convolution.right))
        return tuple(None if None in contexts else sum(contexts) for contexts in zip(*reaches, strict=True))


def make_convolution(width: int, config: EncoderConfig) -> ConvolutionModule | None:
    """The convolution module of a block, `None` without one."""
    if not config.convolution:
        return None
    right = config.convolution_right
    if right is None:
        right = config.convolution // 2 if config.right is None else 0
    return ConvolutionModule(width, config.convolution, right)
