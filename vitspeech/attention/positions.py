"""Positions: added to the tokens (sinusoidal, learned) or used within attention (relative, rotary).

Shapes: B batch, T query tokens, S source tokens, D model width, H heads, K head width.
"""

import copy
import functools
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from vitspeech.attention.relative import RelativePositions
from vitspeech.errors import InputError

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

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the positions `first`, `first` + 1, …."""
        return x + rows_for(x, self.table, first).to(x.dtype)


class SinusoidalPositions(nn.Module):
    """Adds `sinusoidal` positions to sequences of any length (Vaswani et al. 2017, arXiv:1706.03762, sec. 3.5).

    Args:
        width: Model width D.

    Shape:
        (B, T, D) -> (B, T, D)

    Raises:
        InputError: If `width` is odd.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise InputError(f"width={width} is odd; sinusoidal positions pair a sine with a cosine")
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

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """Add the positions `first`, `first` + 1, …."""
        return x + rows_for(x, self.table, first).to(x.dtype)


def rows_for(x: Tensor, table: Tensor, first: int = 0) -> Tensor:
    """The rows of the table from `first` on, one for each token of `x`: (…, T, D), (P, D) -> (T, D).

    Raises:
        InputError: If the table has too few.
    """
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
    """Positions that are added to tokens of width D, and positions for attention; at most one is not `None`.

    Args:
        positions: `sinusoidal`, `learned`, `relative`, `rotary`, a module of one of these kinds, or `None`.
        width: Model width D.

    Raises:
        InputError: If the name is unknown, or a module is of another width.
    """
    if isinstance(positions, str) and positions not in IN_ATTENTION | ADDED:
        raise InputError(f"positions={positions!r} is unknown; known: {', '.join(ADDED | IN_ATTENTION)}")
    if isinstance(positions, str) and positions in ADDED:
        return ADDED[positions](width), None
    if isinstance(positions, FixedPositions | SinusoidalPositions | LearnedPositions):
        own = positions.width if isinstance(positions, SinusoidalPositions) else positions.table.shape[1]
        if own != width:
            raise InputError(f"positions have width={own}, but the tokens have width={width}")
        return copy.deepcopy(positions), None
    return None, positions
