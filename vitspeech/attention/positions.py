"""Positions: added to the tokens (sinusoidal, learned) or used within attention (relative, rotary).

Shapes: B batch, T query tokens, S source tokens, D model width, H heads, K head width, C clipping distance.
"""

import functools
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.errors import InputError

PAGE = 256  # positions whose rotations are computed at once and kept


def sinusoidal(
    tokens: int,
    width: int,
    first: int = 0,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same (Vaswani et al. 2017, sec. 3.5).

    Row 0 is position `first`. The values are computed in double precision on the CPU, since not every device has it,
    and rounded once.

    Shape:
        -> (T, D)

    Raises:
        InputError: If `width` is odd.
    """
    if width % 2:
        raise InputError(f"width={width} is odd; sinusoidal positions pair a sine with a cosine")
    exact = {"dtype": torch.float64, "device": "cpu"}
    wavelengths = 10_000 ** (torch.arange(0, width, 2, **exact) / width)
    angles = torch.arange(first, first + tokens, **exact)[:, None] / wavelengths
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).to(device or torch.get_default_device(), dtype)


def sinusoidal_2d(rows: int, columns: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """2-D sinusoidal positions in raster order: half of the width encodes the row, half the column.

    Shape:
        -> (rows · columns, D)

    Raises:
        InputError: If `width` is not a multiple of four.
    """
    if width % 4:
        raise InputError(f"width={width} is not a multiple of 4; 2-D positions halve it into sine-cosine pairs")
    row = sinusoidal(rows, width // 2, dtype=dtype)[:, None].expand(-1, columns, -1)
    column = sinusoidal(columns, width // 2, dtype=dtype)[None].expand(rows, -1, -1)
    return torch.cat((row, column), dim=-1).flatten(0, 1)


class FixedPositions(nn.Module):
    """Adds fixed positions, such as `sinusoidal` or `sinusoidal_2d`.

    Args:
        table: One row per token. Give it in float64 if the module may be converted to that (`module.double()`): every
            conversion starts from this table, which stays on its device as it is.

    Shape:
        table (T, D); (B, T', D) -> (B, T', D) for any T' up to T

    Raises:
        InputError: If a sequence is longer than the table.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.exact = table
        # Not part of the state dictionary: it follows from the configuration.
        self.register_buffer("table", table.to(torch.get_default_dtype()), persistent=False)

    def _apply(self, convert: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(convert, recurse)
        self.table = self.exact.to(self.table)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return x + rows_for(x, self.table).to(x.dtype)


class LearnedPositions(nn.Module):
    """Adds one learned vector per position (Dosovitskiy et al. 2021, arXiv:2010.11929, sec. 3.1).

    Args:
        tokens: Maximum length T.
        width: Model width D.

    Shape:
        (B, T', D) -> (B, T', D) for any T' up to T

    Raises:
        InputError: If a sequence is longer than T.
    """

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(tokens, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that are trained without weight decay."""
        return {"table"}

    def forward(self, x: Tensor) -> Tensor:
        return x + rows_for(x, self.table).to(x.dtype)


def rows_for(x: Tensor, table: Tensor) -> Tensor:
    """The first rows of the table, one for each token of `x`."""
    if x.shape[-2] > table.shape[0]:
        raise InputError(f"a sequence of {x.shape[-2]} tokens is longer than the {table.shape[0]} positions")
    return table[: x.shape[-2]]


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


class Rotary(nn.Module):
    """Rotary positions: rotates each pair of query and key elements by an angle proportional to the position.

    Su et al. 2021 (arXiv:2104.09864, eq. 34): pair i is rotated by p / 10000^(2i/K), so that q·k depends on positions
    through their distance only. There are no weights and no maximum length.

    Args:
        width: Head width K.

    Shape:
        query (B, H, T, K), key (B, H, S, K) -> the same

    Raises:
        InputError: If `width` is odd.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise InputError(f"width={width} of a head is odd; rotary positions rotate pairs")
        self.width = width

    def forward(self, query: Tensor, key: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys at positions `first`, `first` + 1, …."""
        queries, keys = query.shape[-2], key.shape[-2]
        rotation = rotations(queries, self.width, first, query)
        same = rotation if keys == queries else rotations(keys, self.width, first, key)
        return rotate(query, *rotation), rotate(key, *same)


def rotate(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Rotate each pair of `x` by its angle: (…, T, K), twice (T, K / 2) -> (…, T, K)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


def rotations(tokens: int, width: int, first: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Sine and cosine of the angles of all pairs at positions `first`, `first` + 1, …, as `like`: (T, K / 2) each.

    They are rows of cached pages, which all layers share, as do the sequences of a stream and of other lengths.
    """
    if torch.compiler.is_compiling():  # a traced graph computes its own
        table = sinusoidal(tokens, width, first, like.device, like.dtype)
        return table[:, 0::2], table[:, 1::2]
    low, high = first // PAGE, -(-(first + tokens) // PAGE)
    sine, cosine = pages(low, high, width, like.device, like.dtype)
    rows = slice(first - low * PAGE, first - low * PAGE + tokens)
    return sine[rows], cosine[rows]


@functools.lru_cache(maxsize=16)
def pages(low: int, high: int, width: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Sine and cosine at the positions of the pages `low` to `high` - 1: (P, K / 2) each."""
    with torch.inference_mode(False):  # the cached tensors may be used in training, too
        table = sinusoidal((high - low) * PAGE, width, low * PAGE, device, dtype)
        return table[:, 0::2].contiguous(), table[:, 1::2].contiguous()


IN_ATTENTION = {"relative": RelativePositions, "rotary": Rotary}
