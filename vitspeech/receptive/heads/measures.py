"""What attention heads look at, in numbers: how far, how widely, to which side, and how much like a convolution.

A row of weights is what one query gives to each key. Measures are means over queries, of which each row is divided by
its sum; a query that gives nothing to any key (by ReLU, or beyond an image's border) is left out. Computed in double
precision, whatever the weights' is.

Shapes: B batch, H heads, T tokens, A axes on which places lie (rows and columns, or time alone), L layers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken, MultiHeadAttention, window_mask
from vitspeech.receptive.heads.weights import unwrapped, written_out

ROUNDING = 8  # how many units of relative precision weights may be off uniform ones and count as uniform


@dataclass(frozen=True)
class HeadMeasures:
    """Every head's measures, means over the inputs: each (L, H); distances are in the unit of the places.

    Args:
        layers: Names of the attention layers, in the order in which they run.
        distance: `mean_distance`.
        relative_distance: `relative_distance`: 1 is that of uniform attention.
        entropy: `entropy`: 1 is uniform, 0 a single key.
        convolution_likeness: `ConvolutionLikeness`: 1 is the same kernel at every place.
        diagonality: `diagonality`: 1 is itself alone; `None` where places are not moments.
        look_back: What keys in the past add to `distance`; `None` likewise.
        look_ahead: What keys in the future add; both together are `distance`.
    """

    layers: list[str]
    distance: Tensor
    relative_distance: Tensor
    entropy: Tensor
    convolution_likeness: Tensor
    diagonality: Tensor | None = None
    look_back: Tensor | None = None
    look_ahead: Tensor | None = None


@torch.no_grad()
def head_measures(
    network: nn.Module, inputs: Tensor, places: Tensor, *, class_tokens: int = 0, batch: int = 32
) -> HeadMeasures:
    """Run the network on the inputs and measure each of its heads.

    The keys that a query may see are its window in `MultiHeadAttention`, and all in other layers.

    Args:
        network: In evaluation mode; `written_out` says what is known.
        inputs: As the network takes them, on its device.
        places: The centers of the tokens: px, or ms on a single axis, on which places are moments.
        class_tokens: How many first tokens have no place; `class_tokens_of` says it.
        batch: Inputs at once.

    Shape:
        places (T, A)

    Raises:
        NotRecomputable: As `written_out`.
        ValueError: If layers differ in heads or tokens, or the tokens are not as many as the places.
    """
    places = places.to(inputs.device)
    measured, likeness = [], {}
    with written_out(network) as weights:
        for part in inputs.split(batch):
            network(part)
            tokens = check_sizes(weights)[1]
            if tokens - class_tokens != len(places):
                raise ValueError(f"{tokens} tokens, {class_tokens} of them without a place, have {len(places)} places")
            rows = []
            for name, layer in weights.items():
                allowed = allowed_pairs(network.get_submodule(name), tokens, class_tokens)
                layer = without_class_tokens(layer, class_tokens)
                likeness.setdefault(name, ConvolutionLikeness(places, allowed)).update(layer)
                rows.append(measures(layer, places, allowed))
            measured.append({name: torch.stack([row[name] for row in rows]) for name in rows[0]})
    means = {name: torch.cat([part[name] for part in measured], 1).nanmean(1).cpu() for name in measured[0]}
    like = torch.stack([layer.compute() for layer in likeness.values()]).cpu()
    return HeadMeasures(list(likeness), convolution_likeness=like, **means)


def measures(weights: Tensor, places: Tensor, allowed: Tensor | None) -> dict[str, Tensor]:
    """All measures of one layer that are means over inputs: (B, H, T, T) -> each (B, H)."""
    found = {
        "distance": mean_distance(weights, places),
        "relative_distance": relative_distance(weights, places, allowed),
        "entropy": entropy(weights, allowed),
    }
    if places.shape[1] == 1:
        found["diagonality"] = diagonality(weights)
        found["look_back"], found["look_ahead"] = look(weights, places[:, 0])
    return found


def without_class_tokens(weights: Tensor, class_tokens: int) -> Tensor:
    """The rows and columns of tokens that have a place, each row divided by its sum; as they are if all have one.

    Shape:
        (B, H, T, T) -> (B, H, T - class_tokens, T - class_tokens)

    Raises:
        ValueError: If no token is left.
    """
    if not 0 <= class_tokens < weights.shape[-1]:
        raise ValueError(f"class_tokens={class_tokens} of {weights.shape[-1]} tokens leaves none that has a place")
    return normalized(weights[..., class_tokens:, class_tokens:]) if class_tokens else weights


def mean_distance(weights: Tensor, places: Tensor) -> Tensor:
    """How far a query's keys lie from it: the mean over queries of Σ_k A[q, k] ‖place_k − place_q‖.

    Itself, at distance 0, is one of the keys (Dosovitskiy et al. 2021, arXiv:2010.11929, app. D.7; Raghu et al. 2021,
    arXiv:2108.08810, sec. 4).

    Shape:
        weights (B, H, T, T), places (T, A) -> (B, H), in the unit of the places
    """
    return over_queries(weights, torch.linalg.vector_norm((places - places[:, None]).double(), dim=-1))


def relative_distance(weights: Tensor, places: Tensor, allowed: Tensor | None = None) -> Tensor:
    """`mean_distance` divided by that of uniform attention over the keys that a query may see.

    NaN if no query may see another token than itself.

    Args:
        weights: A layer's.
        places: The tokens' centers.
        allowed: True for keys that a query may see; `None` allows all.

    Shape:
        weights (B, H, T, T), places (T, A), allowed (T, T) -> (B, H)
    """
    return mean_distance(weights, places) / mean_distance(uniform(places, allowed)[None, None], places)


def entropy(weights: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The mean entropy of rows as a share of the largest possible, log of the number of keys that a query may see.

    0 · log 0 is 0. A query that may see one key alone has no choice and is left out; NaN if there is no other.

    Shape:
        weights (B, H, T, T), allowed (T, T) or None -> (B, H)
    """
    shares = normalized(weights.double())
    choices = shares.new_full(shares.shape[-1:], shares.shape[-1]) if allowed is None else allowed.sum(-1).double()
    rows = -torch.special.xlogy(shares, shares).sum(-1) / choices.log()
    return mean_where(rows, (shares.sum(-1) > 0) & (choices > 1))


def diagonality(weights: Tensor) -> Tensor:
    """How near keys lie to their query: the mean of 1 − Σ_k A[q, k] |q − k| / max_k |q − k|, 1 for itself alone.

    Zhang, Loweimi, Bell and Renals 2021 (arXiv:2011.04906). The farthest token is that of the whole utterance, also
    where a window hides it.

    Shape:
        (B, H, T, T) -> (B, H)
    """
    order = torch.arange(weights.shape[-1], device=weights.device, dtype=torch.double)
    apart = (order - order[:, None]).abs()
    return over_queries(weights, 1 - apart / apart.amax(-1, keepdim=True).clamp(min=1))


def look(weights: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
    """What keys before and after their query add to `mean_distance`.

    Shape:
        weights (B, H, T, T), times (T,) -> back (B, H), ahead (B, H), in the unit of the times
    """
    ahead = (times - times[:, None]).double()
    return over_queries(weights, (-ahead).clamp(min=0)), over_queries(weights, ahead.clamp(min=0))


class ConvolutionLikeness:
    """How well one kernel, the same at every place, explains a head: 1 − Σ (A − K[k − q])² / Σ (A − U)².

    K(δ) is the mean of A over all inputs and pairs with k − q = δ; U is uniform attention over the keys a query may
    see. 1 is a convolution. 0 is no better than uniform, and where windows are cut at a border, which no kernel
    explains, it may be worse. A head that is uniform but for rounding is explained by a constant kernel: 1.

    Args:
        places: The tokens' centers on a grid (T, A).
        allowed: True for keys that a query may see (T, T); `None` allows all.
    """

    def __init__(self, places: Tensor, allowed: Tensor | None = None) -> None:
        self.shift = shifts(places).flatten()
        self.pairs = self.shift.bincount()
        self.uniform = uniform(places, allowed).flatten()
        self.inputs, self.by_shift, self.squares, self.from_uniform, self.precision = 0, 0.0, 0.0, 0.0, 0.0

    def update(self, weights: Tensor) -> None:
        """Add a batch of inputs (B, H, T, T)."""
        precise = weights.double().flatten(2)
        sums = precise.new_zeros(weights.shape[1], len(self.pairs))
        self.by_shift = self.by_shift + sums.index_add_(1, self.shift, precise.sum(0))
        self.squares = self.squares + precise.square().sum((0, 2))
        self.from_uniform = self.from_uniform + (precise - self.uniform).square().sum((0, 2))
        self.inputs += len(weights)
        self.precision = torch.finfo(weights.dtype).eps

    def compute(self) -> Tensor:
        """The likeness of each head to a convolution over all inputs so far: (H,)."""
        explained = (self.by_shift.square() / (self.inputs * self.pairs).clamp(min=1)).sum(-1)
        likeness = 1 - (self.squares - explained).clamp(min=0) / self.from_uniform
        rounding = self.inputs * (ROUNDING * self.precision * self.uniform).square().sum()
        return likeness.masked_fill(self.from_uniform <= rounding, 1)


def shifts(places: Tensor) -> Tensor:
    """A number for k − q on the grid of the places, the same for pairs that lie alike: (T, A) -> (T, T)."""
    number = torch.zeros(len(places), len(places), dtype=torch.long, device=places.device)
    for axis in places.unbind(1):
        lines, line = axis.unique(return_inverse=True)
        number = number * (2 * len(lines) - 1) + line - line[:, None] + len(lines) - 1
    return number


def uniform(places: Tensor, allowed: Tensor | None) -> Tensor:
    """Attention shared equally among the keys that a query may see: (T, T)."""
    if allowed is None:
        allowed = torch.ones(len(places), len(places), device=places.device)
    return normalized(allowed.double())


def normalized(weights: Tensor) -> Tensor:
    """Each row divided by its sum; zeros stay zeros."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def over_queries(weights: Tensor, values: Tensor) -> Tensor:
    """The mean over queries of what their keys are worth: (B, H, T, T), (T, T) -> (B, H)."""
    shares = normalized(weights.double())
    return mean_where((shares * values).sum(-1), shares.sum(-1) > 0)


def mean_where(rows: Tensor, counted: Tensor) -> Tensor:
    """The mean over the queries that count, NaN if none does: twice (B, H, T) -> (B, H)."""
    return rows.where(counted, 0).sum(-1) / counted.sum(-1)


def check_sizes(weights: Mapping[str, Tensor]) -> tuple[int, int]:
    """The heads and tokens of all layers.

    Raises:
        ValueError: If layers differ.
    """
    sizes = {name: tuple(layer.shape[1:3]) for name, layer in weights.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"layers differ in (heads, tokens) and fit no common table: {sizes}")
    return next(iter(sizes.values()))


def allowed_pairs(layer: nn.Module, tokens: int, class_tokens: int) -> Tensor | None:
    """Which keys that have a place a query may see in that layer; `None` allows all.

    Shape:
        -> (T, T) without class tokens
    """
    if not isinstance(layer, MultiHeadAttention) or (layer.left is None and layer.right is None):
        return None
    device = layer.query.weight.device
    return window_mask(tokens, tokens, layer.left, layer.right, device)[class_tokens:, class_tokens:]


def class_tokens_of(network: nn.Module) -> int:
    """How many first tokens of a network of ours or of timm stand for no place: class tokens, registers."""
    if isinstance(getattr(network, "pooling", None), ClassToken):
        return 1
    return getattr(unwrapped(network), "num_prefix_tokens", 0)
