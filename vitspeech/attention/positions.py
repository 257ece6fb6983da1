"""Where a token stands, added to what it says: sinusoidal (1-D, 2-D) and learned positions.

Shapes: B batch, T tokens, D model width.
"""

import torch
from torch import Tensor, nn


def sinusoidal(tokens: int, width: int) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same (Vaswani et al. 2017, sec. 3.5).

    Shape:
        -> (T, D)

    Raises:
        ValueError: If `width` is odd.
    """
    if width % 2:
        raise ValueError(f"width={width} is odd; sinusoidal positions pair a sine with a cosine")
    wavelengths = 10_000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(tokens, dtype=torch.float64)[:, None] / wavelengths
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
