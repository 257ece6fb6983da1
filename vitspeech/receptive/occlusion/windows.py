"""Inputs of which only a window stays visible: what lies outside is replaced.

Shapes: B batch, C channels, R rows, W columns, A axes of the window, P places that the window shows or hides: R·W for
pictures, R for log-mel frames, whose rows are times and whose columns, the mel bins, are shown or hidden together.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

REPLACEMENTS = ("mean", "blur", "shuffle")
BLUR = 1 / 8  # deviation of the blur as a share of the side: outlines go, the layout of light and dark stays


class Windowed:
    """A batch of inputs as seen through a window of any radius.

    What lies outside the window is replaced by
    - `mean`: 0, which is the training set's mean for normalized inputs. The batch's own mean would tell of the batch;
    - `blur`: the same input, blurred by a Gaussian whose deviation is an eighth of the side, over rows and columns;
    - `shuffle`: the places outside in a random order: their colors stay, their arrangement goes. Every input has
      its own order, and log-mel frames stay whole.

    Args:
        inputs: Normalized floats.
        centers: Where each input's window is centered, in rows (and columns); `None` is the exact middle.
        axes: What the window bounds: rows and columns (2, 3), or rows alone (2,).
        random: Draws the order of `shuffle`; `None` is a generator of seed 0.

    Raises:
        ValueError: If the inputs are no batch of floats, or the centers or axes do not fit them.
    """

    def __init__(
        self,
        inputs: Tensor,
        *,
        centers: Tensor | None = None,
        axes: Sequence[int] = (2, 3),
        random: torch.Generator | None = None,
    ) -> None:
        if inputs.dim() != 4 or not inputs.is_floating_point():
            raise ValueError(f"inputs are {inputs.dtype} {tuple(inputs.shape)}, not floats (B, C, rows, columns)")
        self.inputs = inputs
        self.distance = distances(inputs.shape, centers, axes).to(inputs.device)
        self.random = random or torch.Generator().manual_seed(0)

    def masked(self, radius: float, replacement: str) -> Tensor:
        """The inputs as they are where the distance to the center is at most `radius`, elsewhere replaced.

        Args:
            radius: In rows and columns; 0 shows nothing, not even what lies exactly on the center.
            replacement: One of `REPLACEMENTS`.

        Shape:
            -> (B, C, R, W)

        Raises:
            ValueError: If the radius is negative or the replacement unknown.
        """
        if not radius >= 0:
            raise ValueError(f"radius={radius} is negative")
        if replacement not in REPLACEMENTS:
            raise ValueError(f"replacement={replacement!r} is unknown; known: {', '.join(REPLACEMENTS)}")
        visible = (self.distance <= radius) & (radius > 0)
        outside = {"mean": self.mean, "blur": self.blur, "shuffle": self.shuffle}[replacement]
        return torch.where(visible, self.inputs, outside(visible))

    def mean(self, visible: Tensor) -> Tensor:
        """The training set's mean, whatever is visible."""
        return self.inputs.new_zeros(())

    def blur(self, visible: Tensor) -> Tensor:
        """The blurred inputs, whatever is visible."""
        return self.blurred

    def shuffle(self, visible: Tensor) -> Tensor:
        """The inputs with the places that are not visible in a random order."""
        cells = self.inputs.reshape(*self.inputs.shape[:2], self.noise.shape[1], -1)
        shown = visible.expand(len(cells), *visible.shape[1:]).flatten(1)
        # Both lists name the hidden places first: where they are, and, in the order of their noise, what comes there.
        there = shown.byte().argsort(dim=1, stable=True)
        taken = self.noise.masked_fill(shown, 1).argsort(dim=1, stable=True)
        source = taken.scatter(1, there, taken)
        return cells.gather(2, source[:, None, :, None].expand_as(cells)).reshape(self.inputs.shape)

    @cached_property
    def blurred(self) -> Tensor:
        """The inputs blurred along rows and columns: (B, C, R, W)."""
        rows, columns = (gaussian(size).to(self.inputs) for size in self.inputs.shape[2:])
        return rows @ self.inputs @ columns.T

    @cached_property
    def noise(self) -> Tensor:
        """A number below 1 for each place, the same for all radii: (B, P)."""
        return torch.rand(len(self.inputs), self.distance[0].numel(), generator=self.random).to(self.inputs.device)


def masked(
    inputs: Tensor,
    radius: float,
    replacement: str,
    *,
    centers: Tensor | None = None,
    axes: Sequence[int] = (2, 3),
    seed: int = 0,
) -> Tensor:
    """Inputs of which only a window stays visible; see `Windowed`, which is faster for several radii.

    Args:
        inputs: Normalized floats.
        radius: In rows and columns, from the center; 0 shows nothing.
        replacement: What stands outside: one of `REPLACEMENTS`.
        centers: Where each input's window is centered; `None` is the exact middle.
        axes: What the window bounds: rows and columns (2, 3), or rows alone (2,).
        seed: Of the order of `shuffle`.

    Shape:
        inputs (B, C, R, W), centers (B, A), or (B,) for rows alone -> (B, C, R, W)

    Raises:
        ValueError: If an argument does not fit the others.
    """
    random = torch.Generator().manual_seed(seed)
    return Windowed(inputs, centers=centers, axes=axes, random=random).masked(radius, replacement)


def distances(shape: Sequence[int], centers: Tensor | None, axes: Sequence[int]) -> Tensor:
    """How far each place lies from the window's center, along the axis on which that is more.

    Places of equal distance form a square around the center. The middle of a side of N is (N - 1) / 2, so the places
    of a centered window are at most that far, and a radius of N / 2 shows everything.

    Args:
        shape: The inputs': (B, C, R, W).
        centers: (B, A), or (B,) for rows alone; `None` is the middle.
        axes: (2, 3) or (2,).

    Shape:
        -> (B, 1, R, W), for rows alone (B, 1, R, 1); without centers B is 1

    Raises:
        ValueError: If the axes are others, or the centers are not as many as the inputs or not within them.
    """
    if tuple(axes) not in ((2,), (2, 3)):
        raise ValueError(f"axes={tuple(axes)}; a window bounds rows and columns (2, 3) or rows alone (2,)")
    sizes = torch.tensor([shape[axis] for axis in axes])
    if centers is None:
        places = (sizes - 1)[None] / 2
    else:
        places = centers.cpu().reshape(len(centers), -1)
        if places.shape != (shape[0], len(axes)):
            raise ValueError(f"centers {tuple(centers.shape)} do not fit {shape[0]} inputs and axes {tuple(axes)}")
        if not ((places >= 0) & (places <= sizes - 1)).all():
            raise ValueError(f"centers {centers.tolist()} are not all within 0 .. {(sizes - 1).tolist()}")
    rows, *columns = ((torch.arange(shape[axis]) - places[:, [i]]).abs() for i, axis in enumerate(axes))
    rows = rows[:, None, :, None]
    return torch.maximum(rows, columns[0][:, None, None]) if columns else rows


def gaussian(side: int) -> Tensor:
    """The blur of a side as a matrix: each row the normalized weights of all places for one, with no padding."""
    places = torch.arange(side, dtype=torch.float64)
    return ((places[:, None] - places) / (BLUR * side)).square().div(-2).softmax(-1)
