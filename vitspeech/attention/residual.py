"""What the blocks of encoder and decoder share: residual branches with a layer norm before or after, and the MLP.

Shapes: B batch, T tokens, D model width.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention.config import DecoderConfig, EncoderConfig
from vitspeech.attention.scores import named
from vitspeech.errors import check_fraction

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU}


class DropPath(nn.Module):
    """Stochastic depth (Huang et al. 2016, arXiv:1603.09382): drops a residual branch for random samples in training.

    The branch of the remaining samples is scaled by 1 / (1 - prob), which keeps its expectation.

    Args:
        prob: Probability of dropping the branch of a sample, from 0 to below 1.

    Shape:
        (B, …) -> (B, …)

    Raises:
        InputError: If `prob` is outside that range.
    """

    def __init__(self, prob: float) -> None:
        super().__init__()
        check_fraction("drop_path", prob)
        self.prob = prob

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.prob == 0:
            return branch
        shape = (branch.shape[0],) + (1,) * (branch.ndim - 1)
        mask = torch.rand(shape, device=branch.device) >= self.prob
        return branch * (mask / (1 - self.prob)).to(branch.dtype)


class ResidualBlock(nn.Module):
    """A block of residual branches f, each with its own layer norm.

    Pre-norm computes x + f(norm(x)) (Xiong et al. 2020, arXiv:2002.04745), post-norm norm(x + f(x)) (Vaswani et al.
    2017, arXiv:1706.03762, sec. 3.1). Call `leave(x, f(enter(x, norm)), norm)`.

    Args:
        config: Its `norm` and `dropout` are used.
        drop_path: Probability of dropping a branch; see `DropPath`.
    """

    def __init__(self, config: EncoderConfig | DecoderConfig, drop_path: float = 0.0) -> None:
        super().__init__()
        self.pre_norm = named(("pre", "post"), "norm", config.norm) == "pre"
        self.dropout = nn.Dropout(config.dropout)
        self.drop_path = DropPath(drop_path)

    def enter(self, x: Tensor, norm: nn.Module) -> Tensor:
        """The input of a branch: (B, T, D) -> (B, T, D)."""
        return norm(x) if self.pre_norm else x

    def leave(self, x: Tensor, branch: Tensor, norm: nn.Module) -> Tensor:
        """Add the output of a branch to x: two (B, T, D) -> (B, T, D)."""
        x = x + self.drop_path(self.dropout(branch))
        return x if self.pre_norm else norm(x)


def make_mlp(width: int, config: EncoderConfig | DecoderConfig) -> nn.Sequential:
    """The MLP of a block: (B, T, D) -> (B, T, D).

    Raises:
        InputError: If the activation is unknown.
    """
    hidden = int(width * config.mlp_ratio)
    activation = named(ACTIVATIONS, "activation", config.activation)()
    return nn.Sequential(nn.Linear(width, hidden), activation, nn.Dropout(config.dropout), nn.Linear(hidden, width))


def final_norm(width: int, config: EncoderConfig | DecoderConfig) -> nn.Module:
    """The layer norm after the last block, which post-norm blocks do not need."""
    return nn.LayerNorm(width) if config.norm == "pre" else nn.Identity()
