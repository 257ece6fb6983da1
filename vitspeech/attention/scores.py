"""How relevant key s is to query t, and how scores become weights.

A score prepares queries and keys and then compares them in one of two ways, so that whatever computes attention
(dense, by blocks, fused) has to know only these two: `scale · q·k`, and `energy · tanh(q + k)`.

Shapes: B batch, H heads, T query tokens, S source tokens, K head width.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Score(nn.Module):
    """The dot product q·k (Luong et al. 2015, arXiv:1508.04025, eq. 8), and what the other scores share.

    Args:
        heads: Number of heads H.
        width: Head width K.

    Attributes:
        scale: What the dot product is multiplied by.
        energy: v of the additive score (H, K); `None` compares by the dot product.

    Shape:
        query (B, H, T, K), key (B, H, S, K) -> (B, H, T, S)
    """

    scale = 1.0

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.register_parameter("energy", None)

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """What is to be compared in place of the queries and the keys, in the same shapes."""
        return query, key

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return compare(*self.prepare(query, key), self.scale, self.energy)


class Dot(Score):
    """q·k, as it is."""


class ScaledDot(Score):
    """q·k / √K (Vaswani et al. 2017, arXiv:1706.03762, eq. 1); arguments and shape as `Score`."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.scale = 1 / math.sqrt(width)


class General(Score):
    """qᵀ W k with a W for each head (Luong et al. 2015, arXiv:1508.04025, eq. 8); starts as `ScaledDot`."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.weight = nn.Parameter(torch.eye(width).expand(heads, -1, -1) / math.sqrt(width))

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query @ self.weight, key


class Additive(Score):
    """vᵀ tanh(W q + U k) with W, U, v for each head (Bahdanau et al. 2015, arXiv:1409.0473, app. A.1.2)."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        bound = math.sqrt(3 / width)
        self.query_weight = nn.Parameter(torch.empty(heads, width, width).uniform_(-bound, bound))
        self.key_weight = nn.Parameter(torch.empty(heads, width, width).uniform_(-bound, bound))
        self.energy = nn.Parameter(torch.empty(heads, width).uniform_(-bound, bound))

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query @ self.query_weight, key @ self.key_weight


class Cosine(Score):
    """cos(q, k) / τ with a learned temperature τ for each head (Liu et al. 2022, arXiv:2111.09883, sec. 3.3).

    As there, τ starts at 0.1 and does not fall below 0.01. A vector of zeros has the cosine 0 with every other.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.log_temperature = nn.Parameter(torch.full((heads, 1, 1), math.log(0.1)))

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        inverse = (-self.log_temperature).clamp(max=math.log(100)).exp()
        return F.normalize(query, dim=-1) * inverse, F.normalize(key, dim=-1)


SCORES = {"scaled_dot": ScaledDot, "dot": Dot, "general": General, "additive": Additive, "cosine": Cosine}
NORMALIZERS = ("softmax", "relu")


def compare(query: Tensor, key: Tensor, scale: float = 1.0, energy: Tensor | None = None) -> Tensor:
    """`scale` · q·k, or with `energy` v the sum v·tanh(q + k), which needs memory for K numbers a pair.

    Shape:
        (…, T, K), (…, S, K), at least one dimension before; energy (…, K) or None -> (…, T, S)
    """
    if energy is None:
        # Heads one after the other before keys are transposed: `matmul` would copy the transposed keys, which is slow.
        products = (query.flatten(0, -3) * scale) @ key.flatten(0, -3).transpose(1, 2)
        return products.view(*query.shape[:-1], key.shape[-2])
    return ((query.unsqueeze(-2) + key.unsqueeze(-3)).tanh() @ energy[..., None, :, None]).squeeze(-1)


def weights_of(scores: Tensor, mask: Tensor | None = None, normalizer: str = "softmax") -> Tensor:
    """Weights over the allowed keys; a query that may attend to none gets weights of zero, not NaN.

    `softmax` makes them sum to one. `relu` divides max(score, 0) by the number of allowed keys, so that the sum does
    not grow with it (Wortsman et al. 2023, arXiv:2309.08586, sec. 3: ReLU / sequence length).

    Args:
        scores: How relevant each key is to each query.
        mask: True where attention is allowed, broadcastable to `scores`; `None` allows everything.
        normalizer: `softmax` or `relu`.

    Shape:
        (…, T, S) -> (…, T, S)
    """
    hidden = None if mask is None else ~mask
    if normalizer == "relu":
        counts = scores.shape[-1] if mask is None else mask.expand(scores.shape).sum(-1, keepdim=True).clamp(min=1)
        weights = scores.relu() / counts
    elif hidden is None:
        return scores.softmax(-1)
    else:
        # The lowest finite number rather than -inf: a row of -inf is NaN in softmax and in its gradient.
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
    return weights if hidden is None else weights.masked_fill(hidden, 0)


def named(choices: Any, argument: str, name: str) -> Any:
    """The choice of that name; an unknown one is an error that lists the known.

    Raises:
        ValueError: If `name` is none of the choices.
    """
    if name not in choices:
        raise ValueError(f"{argument}={name!r} is unknown; known: {', '.join(choices)}")
    return choices[name] if isinstance(choices, dict) else name
