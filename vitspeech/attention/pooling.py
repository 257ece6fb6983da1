"""Pooling of tokens into one vector: mean, class token, self-attentive.

Every pooling has two steps: `prepare` runs before the encoder (where a class token is added), `forward` after it.
`factor` is the width of the result as a multiple of the model width.

Shapes: B batch, T tokens, D model width, A hidden width of the pooling's attention, R hops.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention.scores import weights_of
from vitspeech.errors import check_number, named


class MeanPooling(nn.Module):
    """Mean over the valid tokens.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, D)
    """

    factor = 1

    def prepare(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        if padding is None:
            return x.mean(1)
        return (x * padding[..., None]).sum(1) / padding.sum(1, keepdim=True).clamp(min=1)


class ClassToken(nn.Module):
    """A learned token in front of the others, whose encoding is the pooled vector.

    Devlin et al. 2019 (arXiv:1810.04805); for images Dosovitskiy et al. 2021 (arXiv:2010.11929).

    Args:
        width: Model width D.

    Shape:
        prepare: (B, T, D) -> (B, 1 + T, D); forward: (B, 1 + T, D) -> (B, D)
    """

    factor = 1

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(width))
        nn.init.trunc_normal_(self.token, std=0.02)

    def prepare(self, x: Tensor) -> Tensor:
        return torch.cat((self.token.to(x.dtype).expand(x.shape[0], 1, -1), x), dim=1)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        return x[:, 0]


class SelfAttentivePooling(nn.Module):
    """A = softmax(W2 tanh(W1 Hᵀ)), M = A H (Lin et al. 2017, arXiv:1703.03130, eq. 6).

    Each hop is a row of A, with its own weights of the tokens. `penalty` keeps the hops different. One hop without a
    hidden layer (`hidden=0`) is the sequence pooling of Compact Transformers (arXiv:2104.05704).

    Args:
        width: Model width D.
        hidden: Hidden width A; 0 leaves out W1 and tanh.
        hops: Number of hops R, whose results are concatenated.
        penalty: Weight of `redundancy_penalty`; a forward pass in training stores the product in `auxiliary_loss`.

    Shape:
        x (B, T, D), padding (B, T) or None -> (B, R · D)
    """

    def __init__(self, width: int, hidden: int = 64, hops: int = 1, penalty: float = 0.0) -> None:
        super().__init__()
        check_number("hops", hops, 1)
        check_number("penalty", penalty, 0)
        self.factor = hops
        self.penalty = penalty
        self.auxiliary_loss: Tensor | None = None
        self.project = nn.Sequential(nn.Linear(width, hidden, bias=False), nn.Tanh()) if hidden else nn.Identity()
        self.score = nn.Linear(hidden or width, hops, bias=False)

    def prepare(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Pool tokens: x (B, T, D), padding (B, T), true for valid tokens, or None -> (B, R · D)."""
        weights = self.weights(x, padding)
        penalized = self.training and self.penalty > 0
        self.auxiliary_loss = self.penalty * redundancy_penalty(weights) if penalized else None
        return (weights @ x).flatten(1)

    def weights(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """The weights A of each token in each hop: (B, R, T)."""
        return weights_of(self.score(self.project(x)).transpose(1, 2), None if padding is None else padding[:, None])


def redundancy_penalty(weights: Tensor) -> Tensor:
    """‖A Aᵀ − I‖²_F, averaged over the batch; zero if each hop attends to one token of its own (eq. 8).

    Shape:
        (B, R, T) -> ()
    """
    identity = torch.eye(weights.shape[1], device=weights.device, dtype=weights.dtype)
    return (weights @ weights.transpose(1, 2) - identity).square().sum((1, 2)).mean()


POOLINGS = {"mean": lambda width: MeanPooling(), "class": ClassToken, "self_attentive": SelfAttentivePooling}


def make_pooling(pooling: str | nn.Module, width: int) -> nn.Module:
    """The pooling with that name for model width D; a module is returned as it is."""
    return pooling if isinstance(pooling, nn.Module) else named(POOLINGS, "pooling", pooling)(width)
