"""Rotary positions of patches in rows and columns.

Shapes: B batch, T tokens, H heads, K head width.
"""

import functools

import torch
from torch import Tensor

from vitspeech.attention.positions import Rotary, real_dtype, rotate, rotate_real
from vitspeech.errors import InputError, check_number


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

    Raises:
        InputError: If `width` is not a multiple of 4, or there is another number of tokens.
    """

    def __init__(self, width: int, rows: int, columns: int, leading: int = 0) -> None:
        super().__init__(width)
        if width % 4:
            raise InputError(
                f"width={width} of a head is not a multiple of 4; rotary_2d rotates pairs by row and column"
            )
        for name, value, least in (("rows", rows, 1), ("columns", columns, 1), ("leading", leading, 0)):
            check_number(name, value, least)
        self.rows, self.columns, self.leading = rows, columns, leading

    def forward(self, query: Tensor, key: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys; the tokens are all of an image, so `first` must be 0."""
        tokens = self.leading + self.rows * self.columns
        if first or {query.shape[-2], key.shape[-2]} != {tokens}:
            raise InputError(
                f"rotary_2d has positions for {tokens} tokens, all at once; there are {query.shape[-2]} queries and "
                f"{key.shape[-2]} keys from {first} on"
            )
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
