"""Positions: added to the tokens (sinusoidal, learned), or used within attention (relative, rotary).

Shapes: B batch, T query tokens, S source tokens, D model width, H heads, K head width, C clipping distance.
"""

import copy
import functools
from collections.abc import Callable
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.errors import InputError, named


class RelativePositions(nn.Module):
    """One learned vector per distance s - t, added to keys and values (Shaw et al. 2018, eq. 3-5).

    arXiv:1803.02155. The score of query t and key s becomes score(q_t, k_s + a^K), the output the weighted sum of
    v_s + a^V; a^K and a^V belong to the distance clipped to -C .. C (eq. 2) and are shared by all heads. If the score
    is linear in the key (`Score.linear_in_key`), no tensor of (T, S, K) is stored: queries are multiplied by the table,
    and the products are skewed into place. Otherwise each query is compared with all sums k_s + a^K, which is slower.

    Args:
        width: Head width K.
        clip: Maximum distance C in tokens; larger distances are clipped to it. The paper uses 16.
    """

    def __init__(self, width: int, clip: int = 16) -> None:
        super().__init__()
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


InAttention = Literal["relative", "rotary"] | nn.Module | None
Positions = Literal["sinusoidal", "learned", "relative", "rotary"] | nn.Module | None

LEARNED = 1024  # rows of a table of learned positions whose length is not given
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
    """
    check_multiple("sinusoidal", width, 2)
    exact = {"dtype": torch.float64, "device": "cpu"}
    wavelengths = 10_000 ** (torch.arange(0, width, 2, **exact) / width)
    angles = torch.arange(first, first + tokens, **exact)[:, None] / wavelengths
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).to(device or torch.get_default_device(), dtype)


def check_multiple(positions: str, width: int, factor: int) -> None:
    """Refuse a width that these positions can't divide into pairs of a sine and a cosine, or into those of two axes."""
    if width % factor:
        raise InputError(f"width={width} is not a multiple of {factor}, which {positions} positions need")


def sinusoidal_2d(rows: int, columns: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """2-D sinusoidal positions in raster order: half of the width encodes the row, half the column.

    Shape:
        -> (rows · columns, D)
    """
    check_multiple("sinusoidal 2-D", width, 4)
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

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the positions `first`, `first` + 1, …."""
        return x + rows_for(x, self.table, first).to(x.dtype)


class SinusoidalPositions(nn.Module):
    """Adds `sinusoidal` positions to sequences of any length (Vaswani et al. 2017, arXiv:1706.03762, sec. 3.5).

    Args:
        width: Model width D.

    Shape:
        (B, T, D) -> (B, T, D)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        check_multiple("sinusoidal", width, 2)
        self.width = width

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the positions `first`, `first` + 1, …."""
        if torch.compiler.is_compiling():  # a traced graph computes its own table
            return x + sinusoidal(x.shape[-2], self.width, first, x.device, x.dtype)
        rotation = rotations(x.shape[-2], self.width, first, x)
        return x + torch.stack((rotation.imag, rotation.real), dim=-1).flatten(-2).to(x.dtype)


class LearnedPositions(nn.Module):
    """Adds one learned vector per position (Dosovitskiy et al. 2021, arXiv:2010.11929, sec. 3.1).

    Args:
        tokens: Maximum length T.
        width: Model width D.

    Shape:
        (B, T', D) -> (B, T', D) for any T' up to T
    """

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(tokens, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that are trained without weight decay."""
        return {"table"}

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the positions `first`, `first` + 1, …."""
        return x + rows_for(x, self.table, first).to(x.dtype)


def rows_for(x: Tensor, table: Tensor, first: int = 0) -> Tensor:
    """The rows of the table from `first` on, one for each token of `x`: (…, T, D), (P, D) -> (T, D)."""
    end = first + x.shape[-2]
    if end > table.shape[0]:
        raise InputError(f"a sequence of {end} tokens is longer than the {table.shape[0]} positions")
    return table[first:end]


class Rotary(nn.Module):
    """Rotary positions: rotates each pair of query and key elements by an angle proportional to the position.

    Su et al. 2021 (arXiv:2104.09864, eq. 34): pair i is rotated by p / 10000^(2i/K), so that q·k depends on positions
    through their distance only. There are no weights and no maximum length.

    Args:
        width: Head width K.

    Shape:
        query (B, H, T, K), key (B, H, S, K) -> the same
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        check_multiple("rotary", width, 2)
        self.width = width

    def forward(self, query: Tensor, key: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys at positions `first`, `first` + 1, …: (B, H, T, K), (B, H, S, K) -> the same."""
        queries, keys = query.shape[-2], key.shape[-2]
        if torch.compiler.is_compiling():  # a traced graph computes its own angles
            return self.in_graph(query, first), self.in_graph(key, first)
        rotation = rotations(queries, self.width, first, query)
        if queries == 1 and query.shape == key.shape:
            # In a stream an operation costs more than a copy.
            return rotate(torch.cat((query, key)), rotation).chunk(2)
        same = rotation if keys == queries else rotations(keys, self.width, first, key)
        return rotate(query, rotation), rotate(key, same)

    def in_graph(self, x: Tensor, first: int) -> Tensor:
        """`x`, rotated in a compiled or exported graph."""
        table = sinusoidal(x.shape[-2], self.width, first, x.device, x.dtype)
        return rotate_real(x, table[:, 0::2], table[:, 1::2])


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate each pair of `x` by a product of complex numbers: (…, T, K), complex (T, K / 2) -> (…, T, K).

    Half precision is multiplied in single precision. One product of neighbors in memory takes a quarter of the time of
    the sums and products of `rotate_real`.
    """
    pairs = x.to(real_dtype(x)).contiguous().unflatten(-1, (-1, 2))
    return torch.view_as_real(torch.view_as_complex(pairs) * rotation).flatten(-2).to(x.dtype)


def rotate_real(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """`rotate` without complex numbers, which compiled and exported graphs don't have; sine, cosine (T, K / 2)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


def real_dtype(x: Tensor) -> torch.dtype:
    """The dtype of `x`, or single precision if that has more digits."""
    return torch.promote_types(x.dtype, torch.float32)


def rotations(tokens: int, width: int, first: int, like: Tensor) -> Tensor:
    """cos φ + i sin φ of the angles φ of all pairs at positions `first`, `first` + 1, …, for `like`: (T, K / 2).

    They are rows of cached pages, shared by all layers, the pushes of a stream, and sequences of different lengths.
    """
    low, high = first // PAGE, -(-(first + tokens) // PAGE)
    return pages(low, high, width, like.device, real_dtype(like))[first - low * PAGE : first - low * PAGE + tokens]


@functools.lru_cache(maxsize=16)
def pages(low: int, high: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """cos φ + i sin φ at the positions of the pages `low` to `high` - 1: (P, K / 2), complex."""
    with torch.inference_mode(False):  # the cached tensors may be used in training, too
        table = sinusoidal((high - low) * PAGE, width, low * PAGE, device, dtype)
        return torch.complex(table[:, 1::2], table[:, 0::2])


IN_ATTENTION = {"relative": RelativePositions, "rotary": Rotary}
ADDED = {"sinusoidal": SinusoidalPositions, "learned": lambda width: LearnedPositions(LEARNED, width)}


def split_positions(positions: str | nn.Module | None, width: int) -> tuple[nn.Module | None, str | nn.Module | None]:
    """Positions that are added to tokens of width D, and positions for attention; at most one is not `None`."""
    if isinstance(positions, str):
        named(ADDED | IN_ATTENTION, "positions", positions)
    if isinstance(positions, str) and positions in ADDED:
        return ADDED[positions](width), None
    if isinstance(positions, FixedPositions | SinusoidalPositions | LearnedPositions):
        own = positions.width if isinstance(positions, SinusoidalPositions) else positions.table.shape[1]
        if own != width:
            raise InputError(f"positions have width={own}, but the tokens have width={width}")
        return copy.deepcopy(positions), None
    return None, positions


class Rotary2d(Rotary):
    """Rotary positions on a grid: half of the pairs of a head are rotated by the row, half by the column.

    The axial form of Heo et al. 2024 (arXiv:2403.13298, eq. 9 and 10): pair i of an axis is rotated by
    p / 100^(4i/K), so that q·k depends on the distances in rows and columns. There are no weights.

    Args:
        width: Head width K, a multiple of 4.
        rows: Rows of the grid.
        columns: Columns of the grid. Tokens are in raster order.
        leading: Tokens in front of the grid that are not rotated, such as a class token.

    Shape:
        query (B, H, T, K), key (B, H, T, K) -> the same, with T = leading + rows · columns
    """

    def __init__(self, width: int, rows: int, columns: int, leading: int = 0) -> None:
        super().__init__(width)
        check_multiple("rotary_2d", width, 4)
        self.rows, self.columns, self.leading = rows, columns, leading

    def forward(self, query: Tensor, key: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys, both (B, H, T, K) -> the same; the tokens are all of an image, so `first` is 0."""
        grid = (self.rows, self.columns, self.leading, self.width, query.device)
        if torch.compiler.is_compiling():
            angles = grid_angles(*grid, query.dtype)
            return rotate_real(query, *angles), rotate_real(key, *angles)
        rotation = grid_rotations(*grid, real_dtype(query))
        return rotate(query, rotation), rotate(key, rotation)


def grid_angles(
    rows: int, columns: int, leading: int, width: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Sine and cosine of the angles of all pairs, computed in double precision and rounded once: (T, K / 2) each."""
    exact = {"dtype": torch.float64, "device": "cpu"}
    wavelengths = 100 ** (torch.arange(0, width, 4, **exact) / width)
    row = (torch.arange(rows, **exact)[:, None] / wavelengths)[:, None].expand(-1, columns, -1)
    column = (torch.arange(columns, **exact)[:, None] / wavelengths).expand(rows, -1, -1)
    angles = torch.cat((row, column), dim=-1).flatten(0, 1)
    angles = torch.cat((angles.new_zeros(leading, width // 2), angles))
    return angles.sin().to(device, dtype), angles.cos().to(device, dtype)


@functools.lru_cache(maxsize=16)
def grid_rotations(
    rows: int, columns: int, leading: int, width: int, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """cos φ + i sin φ of the angles φ of `grid_angles`, kept for all layers and steps: (T, K / 2), complex."""
    with torch.inference_mode(False):  # the cached tensors may be used in training, too
        sine, cosine = grid_angles(rows, columns, leading, width, device, dtype)
        return torch.complex(cosine, sine)
