"""Relative positions: learned vectors for distances, added to keys and values within attention.

Shapes: T query tokens, S source tokens, H heads, K head width, C clipping distance.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.errors import InputError


class RelativePositions(nn.Module):
    """One learned vector per distance s - t, added to keys and values (Shaw et al. 2018, eq. 3-5).

    arXiv:1803.02155. The score of query t and key s becomes score(q_t, k_s + a^K), the output the weighted sum of
    v_s + a^V; a^K and a^V belong to the distance clipped to -C .. C (eq. 2) and are shared by all heads. If the score
    is linear in the key (`Score.linear_in_key`), no tensor of (T, S, K) is stored: queries are multiplied by the table,
    and the products are skewed into place. Otherwise each query is compared with all sums k_s + a^K, which is slower.

    Args:
        width: Head width K.
        clip: Maximum distance C in tokens; larger distances are clipped to it. The paper uses 16.

    Raises:
        InputError: If `clip` is negative.
    """

    def __init__(self, width: int, clip: int = 16) -> None:
        super().__init__()
        if clip < 0:
            raise InputError(f"clip={clip} is negative")
        self.width, self.clip = width, clip
        self.key = nn.Parameter(torch.empty(2 * clip + 1, width))
        self.value = nn.Parameter(torch.empty(2 * clip + 1, width))
        for table in (self.key, self.value):
            nn.init.trunc_normal_(table, std=0.02)

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that are trained without weight decay."""
        return {"key", "value"}

    def scores(self, query: Tensor, keys: int, first: int = 0) -> Tensor:
        """q_t·a^K for every pair: (…, T, K) -> (…, T, S); `first` as in `distances`."""
        index = distances(first, query.shape[-2], keys, self.clip, query.device)
        return skew(query @ rows_at(index, self.key, query.dtype).T, keys)

    def keys(self, key: Tensor, queries: int, first: int = 0) -> Tensor:
        """k_s + a^K for every pair: (…, S, K) -> (…, T, S, K); `first` as in `distances`."""
        index = distances(first, queries, key.shape[-2], self.clip, key.device)
        pairs = torch.arange(key.shape[-2], device=key.device) - torch.arange(queries, device=key.device)[:, None]
        return key.unsqueeze(-3) + rows_at(index[pairs + queries - 1], self.key, key.dtype)

    def values(self, weights: Tensor, first: int = 0) -> Tensor:
        """The weighted sum of a^V: (…, T, S) -> (…, T, K); `first` as in `distances`."""
        index = distances(first, *weights.shape[-2:], self.clip, weights.device)
        return unskew(weights) @ rows_at(index, self.value, weights.dtype)


def distances(first: int, queries: int, keys: int, clip: int, device: torch.device) -> Tensor:
    """The row of the table for each distance key - query, from `first` - (T - 1) on: (T + S,).

    `first` is the distance of the first key from the first query.
    """
    distance = torch.arange(first - queries + 1, first + keys + 1, device=device)
    return distance.clamp(-clip, clip) + clip


def rows_at(index: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows of a table in a dtype.

    Clipped distances repeat a row many times. Its gradient is their sum, which a half precision cannot hold, so the
    rows are gathered in single precision at least and converted afterwards.
    """
    return table.to(torch.promote_types(table.dtype, torch.float32))[index].to(dtype)


def skew(by_distance: Tensor, keys: int) -> Tensor:
    """Reshape columns by distance into columns by key: (…, T, T + S) -> (…, T, S)."""
    queries = by_distance.shape[-2]
    if not queries:
        return by_distance
    # With rows one element shorter, each row starts one column later: diagonals become columns.
    shifted = by_distance.flatten(-2)[..., queries - 1 : queries - 1 + queries * (queries + keys - 1)]
    return shifted.unflatten(-1, (queries, queries + keys - 1))[..., :keys]


def unskew(by_key: Tensor) -> Tensor:
    """The inverse of `skew`, zero for distances without a key: (…, T, S) -> (…, T, T + S)."""
    queries, keys = by_key.shape[-2:]
    if not queries:
        return by_key
    shifted = F.pad(by_key, (0, queries - 1)).flatten(-2)
    return F.pad(shifted, (queries - 1, 1)).unflatten(-1, (queries, queries + keys))
