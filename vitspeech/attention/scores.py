"""Scores (how queries and keys are compared) and normalizers (how scores become weights).

A score transforms queries and keys (`prepare`) and then compares them in one of two ways, which every kernel supports:
`scale` · q·k, or v·tanh(q + k) with v = `additive_vector`. To add one, subclass `Score` and pass the class, or register
it under a name:

    @register_score("bilinear")
    class Bilinear(Score):
        def __init__(self, heads: int, width: int) -> None: ...
        def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]: ...

Shapes: B batch, H heads, T query tokens, S source tokens, K head width.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.errors import InputError, named


class Score(nn.Module):
    """The base class of scores; by itself the dot product q·k (Luong et al. 2015, arXiv:1508.04025, eq. 8).

    A subclass may override `prepare`, and in its constructor set `scale` to a number or `additive_vector` to a
    parameter. If its `prepare` returns the keys unchanged, it can set `keeps_keys`, which makes relative positions
    faster.

    Args:
        heads: Number of heads H.
        width: Head width K.

    Attributes:
        scale: Factor of the dot product, a number. A learned factor belongs in `prepare`.
        additive_vector: v of the additive score (H, K); `None` compares by the dot product.
        keeps_keys: Whether `prepare` returns the keys unchanged; false for a class that overrides it without saying so.

    Shape:
        query (B, H, T, K), key (B, H, S, K) -> (B, H, T, S)
    """

    scale = 1.0
    keeps_keys = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        stated = next(vars(parent) for parent in cls.__mro__ if vars(parent).keys() & {"prepare", "keeps_keys"})
        cls.keeps_keys = stated.get("keeps_keys", False)
        for name in ("forward", "__call__"):
            if name in vars(cls):
                raise TypeError(
                    f"{cls.__name__}.{name} would never be called: attention computes scale · q·k, or v·tanh(q + k), "
                    "of what prepare(query, key) returns; override prepare, scale or additive_vector"
                )

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.register_parameter("additive_vector", None)

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Transform queries and keys before they are compared, each token independently; the shapes stay."""
        return query, key

    @property
    def linear_in_key(self) -> bool:
        """Whether the score of a query and a sum of keys is known to be the sum of their scores."""
        return self.keeps_keys and self.additive_vector is None

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """The scores of all pairs: query (B, H, T, K), key (B, H, S, K) -> (B, H, T, S)."""
        return compare(*self.prepare(query, key), self.scale, self.additive_vector)


SCORES: dict[str, type[Score]] = {}
NORMALIZERS = ("softmax", "relu")
ScoreClass = TypeVar("ScoreClass", bound=type[Score])


def register_score(name: str) -> Callable[[ScoreClass], ScoreClass]:
    """Register a subclass of `Score` under a name that `score` arguments then accept.

    A config may use the name if the module that registers it is trusted: trusted modules are imported first.

    Args:
        name: Without a dot, since in configs names with dots are import paths.

    Raises:
        InputError: If the name has a dot, or is registered for another class.
        TypeError: If the class is not a subclass of `Score`.
    """
    if "." in name:
        raise InputError(f"the name {name!r} of a score has a dot: in configs, names with dots are import paths")

    def register(score: ScoreClass) -> ScoreClass:
        check_score(score)
        same = (
            getattr(SCORES.get(name, score), part) == getattr(score, part) for part in ("__module__", "__qualname__")
        )
        if not all(same):  # a module that is loaded again may register its class again
            raise InputError(f"the score {name!r} is already registered: {SCORES[name].__qualname__}")
        SCORES[name] = score
        return score

    return register


def make_score(score: str | type[Score], heads: int, width: int) -> Score:
    """Construct a score for H heads of width K, from a registered name or a subclass of `Score`."""
    if isinstance(score, str):
        score = named(SCORES, "score", score)
    check_score(score)
    module = score(heads, width)
    if not isinstance(module.scale, int | float):
        raise InputError(f"{score.__name__}.scale is not a number; multiply by a learned scale in prepare")
    return module


def check_score(score: Any) -> None:
    """Refuse what is not a subclass of `Score`."""
    if not (isinstance(score, type) and issubclass(score, Score)):
        raise TypeError(f"score={getattr(score, '__name__', score)!r} is not a subclass of vitspeech.Score")


@register_score("scaled_dot")
class ScaledDot(Score):
    """q·k / √K (Vaswani et al. 2017, arXiv:1706.03762, eq. 1); arguments and shape as `Score`."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.scale = 1 / math.sqrt(width)


@register_score("dot")
class Dot(Score):
    """The dot product q·k."""


@register_score("general")
class General(Score):
    """qᵀ W k with one W per head (Luong et al. 2015, arXiv:1508.04025, eq. 8); initialized as `ScaledDot`."""

    keeps_keys = True

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.weight = nn.Parameter(torch.eye(width).expand(heads, -1, -1) / math.sqrt(width))

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query @ self.weight, key


@register_score("additive")
class Additive(Score):
    """vᵀ tanh(W q + U k) with W, U, v per head (Bahdanau et al. 2015, arXiv:1409.0473, app. A.1.2)."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        bound = math.sqrt(3 / width)
        self.query_weight = nn.Parameter(torch.empty(heads, width, width).uniform_(-bound, bound))
        self.key_weight = nn.Parameter(torch.empty(heads, width, width).uniform_(-bound, bound))
        self.additive_vector = nn.Parameter(torch.empty(heads, width).uniform_(-bound, bound))

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that are trained without weight decay."""
        return {"additive_vector"}

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query @ self.query_weight, key @ self.key_weight


@register_score("cosine")
class Cosine(Score):
    """cos(q, k) / τ with one learned temperature τ per head (Liu et al. 2022, arXiv:2111.09883, sec. 3.3).

    As in the paper, τ starts at 0.1 and is at least 0.01. The cosine of a zero vector with any other is 0.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__(heads, width)
        self.log_temperature = nn.Parameter(torch.full((heads, 1, 1), math.log(0.1)))

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that are trained without weight decay."""
        return {"log_temperature"}

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        inverse = (-self.log_temperature).clamp(max=math.log(100)).exp()
        smallest = max(1e-12, torch.finfo(query.dtype).tiny)  # 1e-12, torch's default, is 0 in half precision
        return F.normalize(query, dim=-1, eps=smallest) * inverse, F.normalize(key, dim=-1, eps=smallest)


def compare(query: Tensor, key: Tensor, scale: float = 1.0, additive_vector: Tensor | None = None) -> Tensor:
    """`scale` · q·k, or with `additive_vector` v the sum v·tanh(q + k), which needs K numbers of memory per pair.

    Shape:
        (…, T, K), (…, S, K) with at least one leading dimension; additive_vector (…, K) or None -> (…, T, S)
    """
    if additive_vector is None:
        # Flatten batch and heads before transposing the keys: `matmul` would copy the transposed keys, which is slow.
        products = (query.flatten(0, -3) * scale) @ key.flatten(0, -3).transpose(1, 2)
        return products.view(*query.shape[:-1], key.shape[-2])
    return ((query.unsqueeze(-2) + key.unsqueeze(-3)).tanh() @ additive_vector[..., None, :, None]).squeeze(-1)


def compare_pairs(score: Score, query: Tensor, keys: Tensor) -> Tensor:
    """The scores of keys that differ from query to query; neither is prepared.

    Shape:
        (B, H, T, K), (B, H, T, S, K) -> (B, H, T, S)
    """
    prepared = score.prepare(query, keys.flatten(2, 3))
    query, keys = prepared[0].to(keys.dtype), prepared[1].to(keys.dtype).view(keys.shape)
    if score.additive_vector is None:
        return (keys @ (query * score.scale).unsqueeze(-1)).squeeze(-1)
    return ((query.unsqueeze(-2) + keys).tanh() @ score.additive_vector.to(keys.dtype)[:, None, :, None]).squeeze(-1)


def weights_of(scores: Tensor, mask: Tensor | None = None, normalizer: str = "softmax") -> Tensor:
    """Weights over the allowed keys; all zero, not NaN, for a query that may attend to none.

    With `softmax` they sum to one. `relu` divides max(score, 0) by the number of allowed keys, so that the sum does not
    grow with it (Wortsman et al. 2023, arXiv:2309.08586, sec. 3: ReLU / sequence length).

    Args:
        scores: The score of each query and key.
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
