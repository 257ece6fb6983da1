"""Where a token stands: added to what it says (sinusoidal, learned), or told in the comparison (relative, rotary).

Shapes: B batch, T query tokens, S source tokens, D model width, H heads, K head width, C clipping distance.
"""

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def sinusoidal(tokens: int, width: int, first: int = 0, device: torch.device | None = None) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same (Vaswani et al. 2017, sec. 3.5).

    The first row is that of position `first`.

    Shape:
        -> (T, D)

    Raises:
        ValueError: If `width` is odd.
    """
    if width % 2:
        raise ValueError(f"width={width} is odd; sinusoidal positions pair a sine with a cosine")
    wavelengths = 10_000 ** (torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)
    angles = torch.arange(first, first + tokens, dtype=torch.float64, device=device)[:, None] / wavelengths
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


def sinusoidal_2d(rows: int, columns: int, width: int) -> Tensor:
    """Half of the width tells the row, half the column, each as in `sinusoidal`; tokens are in raster order.

    Shape:
        -> (rows · columns, D)

    Raises:
        ValueError: If `width` is not a multiple of four.
    """
    if width % 4:
        raise ValueError(f"width={width} is not a multiple of 4; 2-D positions halve it into sine-cosine pairs")
    row = sinusoidal(rows, width // 2)[:, None].expand(-1, columns, -1)
    column = sinusoidal(columns, width // 2)[None].expand(rows, -1, -1)
    return torch.cat((row, column), dim=-1).flatten(0, 1)


class FixedPositions(nn.Module):
    """Adds a table of positions that is not trained: `sinusoidal` or `sinusoidal_2d`.

    Args:
        table: One row a token.

    Shape:
        table (T, D); (B, T', D) -> (B, T', D) for any T' up to T

    Raises:
        ValueError: If a sequence is longer than the table.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        # Recomputed from the configuration, so it is no part of a checkpoint.
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + rows_for(x, self.table).to(x.dtype)


class LearnedPositions(nn.Module):
    """Adds one trained vector a position (Dosovitskiy et al. 2021, arXiv:2010.11929, sec. 3.1).

    Args:
        tokens: The longest sequence T.
        width: Model width D.

    Shape:
        (B, T', D) -> (B, T', D) for any T' up to T

    Raises:
        ValueError: If a sequence is longer than T.
    """

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(tokens, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + rows_for(x, self.table).to(x.dtype)


def rows_for(x: Tensor, table: Tensor) -> Tensor:
    """The table's first rows, one for each token of `x`."""
    if x.shape[-2] > table.shape[0]:
        raise ValueError(f"a sequence of {x.shape[-2]} tokens is longer than the {table.shape[0]} positions")
    return table[: x.shape[-2]]


class RelativePositions(nn.Module):
    """A trained vector for each distance s - t, added to the keys and to the values (Shaw et al. 2018, eq. 3-5).

    arXiv:1803.02155. The score of query t and key s becomes q_t·(k_s + a^K), the result the weighted sum of
    v_s + a^V; a^K and a^V are those of the distance clipped to -C .. C (eq. 2), the same for all heads. No
    tensor of (T, S, K) is made: queries are multiplied with the table, and the products skewed into place.

    Args:
        width: Head width K.
        clip: Distance C in tokens from which on all are alike; 16 is the paper's.

    Raises:
        ValueError: If `clip` is negative.
    """

    def __init__(self, width: int, clip: int = 16) -> None:
        super().__init__()
        if clip < 0:
            raise ValueError(f"clip={clip} is negative")
        self.width, self.clip = width, clip
        self.key = nn.Parameter(torch.empty(2 * clip + 1, width))
        self.value = nn.Parameter(torch.empty(2 * clip + 1, width))
        for table in (self.key, self.value):
            nn.init.trunc_normal_(table, std=0.02)

    def scores(self, query: Tensor, keys: int, first: int = 0) -> Tensor:
        """q_t·a^K of every pair: (…, T, K) -> (…, T, S). `first` is as in `distances`."""
        index = distances(first, query.shape[-2], keys, self.clip, query.device)
        return skew(query @ self.key.to(query.dtype)[index].T, keys)

    def values(self, weights: Tensor, first: int = 0) -> Tensor:
        """The weighted sum of a^V: (…, T, S) -> (…, T, K). `first` is as in `distances`."""
        index = distances(first, *weights.shape[-2:], self.clip, weights.device)
        return unskew(weights) @ self.value.to(weights.dtype)[index]


def distances(first: int, queries: int, keys: int, clip: int, device: torch.device) -> Tensor:
    """The table's row for each distance key - query, from `first` - (T - 1) on: (T + S,).

    `first` is the distance of the first key from the first query.
    """
    distance = torch.arange(first - queries + 1, first + keys + 1, device=device)
    return distance.clamp(-clip, clip) + clip


def skew(by_distance: Tensor, keys: int) -> Tensor:
    """Columns by distance to columns by key, by reshaping: (…, T, T + S) -> (…, T, S)."""
    queries = by_distance.shape[-2]
    # Rows shorter by one start one column later each: what lay on a diagonal lies in a column.
    shifted = by_distance.flatten(-2)[..., queries - 1 : queries - 1 + queries * (queries + keys - 1)]
    return shifted.unflatten(-1, (queries, queries + keys - 1))[..., :keys]


def unskew(by_key: Tensor) -> Tensor:
    """The way back, zero where a distance has no key: (…, T, S) -> (…, T, T + S)."""
    queries, keys = by_key.shape[-2:]
    shifted = F.pad(by_key, (0, queries - 1)).flatten(-2)
    return F.pad(shifted, (queries - 1, 1)).unflatten(-1, (queries, queries + keys))


class Rotary(nn.Module):
    """Turns each pair of a query's and a key's numbers by an angle that grows with the position.

    Su et al. 2021 (arXiv:2104.09864, eq. 34): pair i turns by p / 10000^(2i/K), so that q·k depends on the
    distance alone. It has no weights and knows no longest sequence.

    Args:
        width: Head width K.

    Shape:
        query (B, H, T, K), key (B, H, S, K) -> the same

    Raises:
        ValueError: If `width` is odd.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"width={width} of a head is odd; rotary positions turn pairs")
        self.width = width

    def forward(self, query: Tensor, key: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Both as seen from positions `first`, `first` + 1, …."""
        table = self.table(max(query.shape[-2], key.shape[-2]), first, query)
        return self.turned(query, table), self.turned(key, table)

    def table(self, tokens: int, first: int, like: Tensor) -> Tensor:
        """Sine and cosine of each pair's angle at each position: (T, K)."""
        made = one_position if tokens == 1 else functools.partial(sinusoidal, tokens)
        return made(self.width, first, like.device).to(like.dtype)

    def turned(self, x: Tensor, table: Tensor) -> Tensor:
        """`x` at the table's first positions: (…, T, K) -> (…, T, K)."""
        sine, cosine = table[: x.shape[-2], 0::2], table[: x.shape[-2], 1::2]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


@functools.lru_cache(maxsize=512)
def one_position(width: int, first: int, device: torch.device) -> Tensor:
    """`sinusoidal` of a lone position, kept: the blocks of a stream ask for it a few tokens apart."""
    with torch.inference_mode(False):  # what is kept may be asked for in training, too
        return sinusoidal(1, width, first, device)


IN_ATTENTION = {"relative": RelativePositions, "rotary": Rotary}
