"""Measures of attention heads: distance, entropy, direction, and likeness to a convolution.

Attention distance follows Dosovitskiy et al. 2021 (arXiv:2010.11929) and Raghu et al. 2021 (arXiv:2108.08810),
diagonality Zhang et al. 2021 (arXiv:2011.04906). A row of weights holds the weights of all keys for one query. Measures
are means over queries after each row is divided by its sum; rows that are all zero (ReLU attention, or padding outside
an image) are left out. They are computed in double precision, whatever the precision of the weights.

Shapes: B batch, H heads, T tokens, A axes of token positions (rows and columns, or time alone), L layers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken, MultiHeadAttention, window_mask
from vitspeech.errors import InputError
from vitspeech.receptive.heads.weights import attention_weights, unwrapped

ROUNDING = 8  # weights within that many units of relative precision of uniform attention count as uniform


@dataclass(frozen=True)
class HeadMeasures:
    """The measures of each head, means over the inputs: (L, H) each; distances have the unit of the positions.

    Args:
        layers: Names of the attention layers, in the order in which they run.
        distance: `mean_distance`.
        relative_distance: `relative_distance`; 1 for uniform attention.
        entropy: `entropy`; 1 for uniform attention, 0 for a single key.
        convolution_likeness: `ConvolutionLikeness` of the normalized rows; 1 if the same kernel applies at every
            position.
        diagonality: `diagonality`; 1 if each token attends to itself only. `None` if positions are not times.
        look_back: The part of `distance` due to keys in the past; `None` if positions are not times.
        look_ahead: The part due to keys in the future; `look_back + look_ahead` is `distance`.
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
    network: nn.Module, inputs: Tensor, positions: Tensor, *, class_tokens: int = 0, batch: int = 8
) -> HeadMeasures:
    """Run the network on the inputs and measure each attention head.

    The keys that a query may attend to are its window in `MultiHeadAttention`, and all keys in other layers.

    Args:
        network: In evaluation mode; see `attention_weights` for the supported networks.
        inputs: The network's input, on its device.
        positions: The centers of the tokens, in px, or in ms on a single axis (time).
        class_tokens: Number of leading tokens without a position; see `class_tokens_of`.
        batch: Inputs per forward pass.

    Shape:
        positions (T, A)

    Raises:
        NotRecomputable: As `attention_weights`.
    """
    positions = positions.to(inputs.device)
    batches, likeness = [], {}
    with attention_weights(network) as weights:
        for part in inputs.split(batch):
            network(part)
            tokens = common_tokens(weights)
            if tokens - class_tokens != len(positions):
                raise InputError(
                    f"{tokens} tokens, {class_tokens} of them class tokens, have {len(positions)} positions"
                )
            layers = []
            for name, layer in weights.items():
                allowed = allowed_pairs(network.get_submodule(name), tokens, class_tokens)
                layer = normalize_rows(layer[..., class_tokens:, class_tokens:])
                likeness.setdefault(name, ConvolutionLikeness(positions, allowed)).update(layer)
                layers.append(measures(layer, positions, allowed))
            batches.append({name: torch.stack([layer[name] for layer in layers]) for name in layers[0]})
    means = {name: torch.cat([part[name] for part in batches], 1).nanmean(1).cpu() for name in batches[0]}
    convolution_likeness = torch.stack([layer.compute() for layer in likeness.values()]).cpu()
    return HeadMeasures(list(likeness), convolution_likeness=convolution_likeness, **means)


def measures(weights: Tensor, positions: Tensor, allowed: Tensor | None) -> dict[str, Tensor]:
    """All measures of one layer that are means over inputs: (B, H, T, T) -> (B, H) each."""
    result = {
        "distance": mean_distance(weights, positions),
        "relative_distance": relative_distance(weights, positions, allowed),
        "entropy": entropy(weights, allowed),
    }
    if positions.shape[1] == 1:
        result["diagonality"] = diagonality(weights)
        result["look_back"], result["look_ahead"] = directed_distances(weights, positions[:, 0])
    return result


def mean_distance(weights: Tensor, positions: Tensor) -> Tensor:
    """Mean attention distance: the mean over queries of Σ_k A[q, k] ‖position_k − position_q‖.

    The query itself, at distance 0, is one of the keys (Dosovitskiy et al. 2021, arXiv:2010.11929, app. D.7; Raghu et
    al. 2021, arXiv:2108.08810, sec. 4). Weights (B, H, T, T), positions (T, A) -> (B, H), in the positions' unit.
    """
    return mean_over_queries(weights, torch.linalg.vector_norm((positions - positions[:, None]).double(), dim=-1))


def relative_distance(weights: Tensor, positions: Tensor, allowed: Tensor | None = None) -> Tensor:
    """`mean_distance` divided by that of uniform attention over the keys that a query may attend to.

    NaN if each query may attend to itself only. Weights (B, H, T, T), positions (T, A), allowed (T, T) -> (B, H).
    """
    uniform = uniform_attention(positions, allowed)[None, None]
    return mean_distance(weights, positions) / mean_distance(uniform, positions)


def entropy(weights: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The mean entropy of rows divided by its maximum, the logarithm of the number of keys a query may attend to.

    0 · log 0 is 0. Queries with a single allowed key are left out; NaN if there are no others. Weights (B, H, T, T),
    allowed (T, T) -> (B, H).
    """
    p = normalize_rows(weights.double())
    keys = p.new_full(p.shape[-1:], p.shape[-1]) if allowed is None else allowed.sum(-1).double()
    rows = -torch.special.xlogy(p, p).sum(-1) / keys.log()
    return masked_mean(rows, (p.sum(-1) > 0) & (keys > 1))


def diagonality(weights: Tensor) -> Tensor:
    """The mean over queries of 1 − Σ_k A[q, k] |q − k| / max_k |q − k|; 1 if each token attends to itself only.

    Zhang, Loweimi, Bell and Renals 2021 (arXiv:2011.04906). The maximum is over the whole utterance, also for windowed
    attention: (B, H, T, T) -> (B, H).
    """
    order = torch.arange(weights.shape[-1], device=weights.device, dtype=torch.double)
    distance = (order - order[:, None]).abs()
    return mean_over_queries(weights, 1 - distance / distance.amax(-1, keepdim=True).clamp(min=1))


def directed_distances(weights: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of `mean_distance` due to keys before and after their query: (B, H, T, T), (T,) -> (B, H) each."""
    ahead = (times - times[:, None]).double()
    return mean_over_queries(weights, (-ahead).clamp(min=0)), mean_over_queries(weights, ahead.clamp(min=0))


class ConvolutionLikeness:
    """How well one kernel, the same at every position, explains a head: 1 − Σ (A − K[k − q])² / Σ (A − U)².

    K(δ) is the mean of A over all inputs and pairs with k − q = δ; U is uniform attention over the keys a query may
    attend to. Rows of A that are all zero are left out of the sums; a head without other rows has NaN. The value is 1
    for a convolution and 0 for a head that a kernel explains no better than U. It may be negative where windows are
    truncated at a border, which no kernel explains. Heads that are uniform up to rounding have 1, since a constant
    kernel explains them.

    Args:
        positions: The centers of the tokens on a grid (T, A).
        allowed: True for keys that a query may attend to (T, T); `None` allows all.
    """

    def __init__(self, positions: Tensor, allowed: Tensor | None = None) -> None:
        self.shift = relative_positions(positions).flatten()
        self.shifts = int(self.shift.max()) + 1
        self.uniform = uniform_attention(positions, allowed)
        self.by_shift, self.pairs, self.squares, self.from_uniform, self.of_uniform = 0.0, 0.0, 0.0, 0.0, 0.0
        self.precision = 0.0

    def update(self, weights: Tensor) -> None:
        """Add a batch of inputs (B, H, T, T)."""
        exact = weights.double()
        rows = exact.any(-1).double()  # 0 for rows that are all zero
        self.by_shift = self.by_shift + self.sum_by_shift(exact.sum(0))
        self.pairs = self.pairs + self.sum_by_shift(rows.sum(0)[..., None].expand_as(exact[0]))
        self.squares = self.squares + exact.square().sum((0, 2, 3))
        self.from_uniform = self.from_uniform + (rows * (exact - self.uniform).square().sum(-1)).sum((0, 2))
        self.of_uniform = self.of_uniform + rows.sum(0) @ self.uniform.square().sum(-1)
        self.precision = torch.finfo(weights.dtype).eps

    def sum_by_shift(self, values: Tensor) -> Tensor:
        """The sum over pairs of query and key with the same k − q: (H, T, T) -> (H, shifts)."""
        return values.new_zeros(len(values), self.shifts).index_add_(1, self.shift, values.flatten(1))

    def compute(self) -> Tensor:
        """The likeness of each head over all inputs added: (H,)."""
        explained = (self.by_shift.square() / self.pairs.clamp(min=1)).sum(-1)
        likeness = 1 - (self.squares - explained).clamp(min=0) / self.from_uniform
        rounding = (ROUNDING * self.precision) ** 2 * self.of_uniform
        return likeness.masked_fill((self.from_uniform <= rounding) & (self.of_uniform > 0), 1)


def relative_positions(positions: Tensor) -> Tensor:
    """An index for k − q on the grid of the positions, equal for pairs with the same offset: (T, A) -> (T, T)."""
    index = torch.zeros(len(positions), len(positions), dtype=torch.long, device=positions.device)
    for axis in positions.unbind(1):
        lines, line = axis.unique(return_inverse=True)
        index = index * (2 * len(lines) - 1) + line - line[:, None] + len(lines) - 1
    return index


def uniform_attention(positions: Tensor, allowed: Tensor | None) -> Tensor:
    """Equal weights for all keys that a query may attend to: (T, T)."""
    if allowed is None:
        allowed = torch.ones(len(positions), len(positions), device=positions.device)
    return normalize_rows(allowed.double())


def normalize_rows(weights: Tensor) -> Tensor:
    """Divide each row by its sum; rows of zeros stay zero."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def mean_over_queries(weights: Tensor, values: Tensor) -> Tensor:
    """The mean over queries of Σ_k A[q, k] values[q, k]: (B, H, T, T), (T, T) -> (B, H)."""
    p = normalize_rows(weights.double())
    return masked_mean((p * values).sum(-1), p.sum(-1) > 0)


def masked_mean(rows: Tensor, mask: Tensor) -> Tensor:
    """The mean over the queries where the mask is True, NaN if there are none: (B, H, T) twice -> (B, H)."""
    return rows.where(mask, 0).sum(-1) / mask.sum(-1)


def common_tokens(weights: Mapping[str, Tensor]) -> int:
    """The number of tokens; it and the number of heads must be equal in all layers."""
    sizes = {name: tuple(layer.shape[1:3]) for name, layer in weights.items()}
    if len(set(sizes.values())) != 1:
        raise InputError(f"layers differ in (heads, tokens) and fit no common table: {sizes}")
    return next(iter(sizes.values()))[1]


def allowed_pairs(layer: nn.Module, tokens: int, class_tokens: int) -> Tensor | None:
    """The keys that a query may attend to in that layer, without class tokens; `None` allows all."""
    if not isinstance(layer, MultiHeadAttention) or (layer.left is None and layer.right is None):
        return None
    device = layer.query.weight.device
    return window_mask(tokens, tokens, layer.left, layer.right, device)[class_tokens:, class_tokens:]


def class_tokens_of(network: nn.Module) -> int:
    """Number of leading tokens without a position, class tokens and registers, in our networks and timm's."""
    if isinstance(getattr(network, "pooling", None), ClassToken):
        return 1
    return getattr(unwrapped(network), "num_prefix_tokens", 0)
