"""Inputs with everything outside a window replaced, after the occlusion of Zeiler and Fergus 2014 (arXiv:1311.2901).

Zeiler and Fergus replace a square and keep the rest; here the window is kept and the rest is replaced.

Shapes: B batch, C channels, R rows, W columns, A axes of the window, P positions that are visible or hidden: R·W for
images, R for log-mel frames, whose rows are times and whose columns, the mel bins, are visible or hidden together.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

REPLACEMENTS = ("mean", "blur", "shuffle")
BLUR = 1 / 8  # standard deviation of the blur relative to the side: removes outlines, keeps the overall brightness


class WindowedInputs:
    """A batch of inputs, masked outside a window.

    The rest is replaced by
    - `mean`: 0, which is the mean of the training set for normalized inputs. (The mean of the batch would depend on
      the other inputs.)
    - `blur`: the same input, blurred along rows and columns by a Gaussian with a standard deviation of an eighth of
      the side.
    - `shuffle`: the hidden positions in random order, which keeps their colors but not their arrangement. Each input
      has its own order; log-mel frames are shuffled as a whole.

    Args:
        inputs: Normalized floats.
        centers: The center of each input's window, in rows (and columns); `None` is the exact center of the input.
        axes: The axes that the window limits: rows and columns (2, 3), or rows alone (2,).
        random: Generator for the order of `shuffle`; `None` is a generator with seed 0.

    Raises:
        ValueError: If the inputs are not a batch of floats, or the centers or axes do not fit them.
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

    def occlude(self, radius: float, replacement: str) -> Tensor:
        """The inputs with all positions replaced whose distance to the center exceeds `radius`.

        Args:
            radius: In rows and columns; 0 hides everything, including a position exactly at the center.
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
        """The mean of the training set."""
        return self.inputs.new_zeros(())

    def blur(self, visible: Tensor) -> Tensor:
        """The blurred inputs."""
        return self.blurred

    def shuffle(self, visible: Tensor) -> Tensor:
        """The inputs with the hidden positions in random order."""
        cells = self.inputs.reshape(*self.inputs.shape[:2], self.noise.shape[1], -1)
        visible = visible.expand(len(cells), *visible.shape[1:]).flatten(1)
        # Both lists start with the hidden positions: the targets in order, the sources ordered by their noise.
        targets = visible.byte().argsort(dim=1, stable=True)
        sources = self.noise.masked_fill(visible, 1).argsort(dim=1, stable=True)
        source = sources.scatter(1, targets, sources)
        return cells.gather(2, source[:, None, :, None].expand_as(cells)).reshape(self.inputs.shape)

    @cached_property
    def blurred(self) -> Tensor:
        """The inputs blurred along rows and columns: (B, C, R, W)."""
        rows, columns = (gaussian(size).to(self.inputs) for size in self.inputs.shape[2:])
        return rows @ self.inputs @ columns.T

    @cached_property
    def noise(self) -> Tensor:
        """A random number below 1 for each position, the same for all radii: (B, P)."""
        return torch.rand(len(self.inputs), self.distance[0].numel(), generator=self.random).to(self.inputs.device)


def occlude(
    inputs: Tensor,
    radius: float,
    replacement: str,
    *,
    centers: Tensor | None = None,
    axes: Sequence[int] = (2, 3),
    seed: int = 0,
) -> Tensor:
    """Replace everything outside a window; see `WindowedInputs`, which is faster for several radii.

    Args:
        inputs: Normalized floats.
        radius: In rows and columns, from the center; 0 hides everything.
        replacement: What replaces the rest: one of `REPLACEMENTS`.
        centers: The center of each input's window; `None` is the exact center of the input.
        axes: The axes that the window limits: rows and columns (2, 3), or rows alone (2,).
        seed: For the order of `shuffle`.

    Shape:
        inputs (B, C, R, W), centers (B, A), or (B,) for rows alone -> (B, C, R, W)

    Raises:
        ValueError: If an argument does not fit the others.
    """
    random = torch.Generator().manual_seed(seed)
    return WindowedInputs(inputs, centers=centers, axes=axes, random=random).occlude(radius, replacement)


def distances(shape: Sequence[int], centers: Tensor | None, axes: Sequence[int]) -> Tensor:
    """The distance of each position from the window's center: the larger of those along rows and columns.

    Positions of equal distance form a square around the center. The center of a side of N is (N - 1) / 2, which is
    also the largest distance from it, so a radius of N / 2 shows everything.

    Args:
        shape: Of the inputs (B, C, R, W).
        centers: (B, A), or (B,) for rows alone; `None` is the center of the input.
        axes: (2, 3) or (2,).

    Shape:
        -> (B, 1, R, W), for rows alone (B, 1, R, 1); without centers B is 1

    Raises:
        ValueError: If the axes are others, the numbers of centers and inputs differ, or a center is outside its input.
    """
    if tuple(axes) not in ((2,), (2, 3)):
        raise ValueError(f"axes={tuple(axes)}; a window limits rows and columns (2, 3) or rows alone (2,)")
    sizes = torch.tensor([shape[axis] for axis in axes])
    if centers is None:
        positions = (sizes - 1)[None] / 2
    else:
        positions = centers.cpu().reshape(len(centers), -1)
        if positions.shape != (shape[0], len(axes)):
            raise ValueError(f"centers {tuple(centers.shape)} do not fit {shape[0]} inputs and axes {tuple(axes)}")
        if not ((positions >= 0) & (positions <= sizes - 1)).all():
            raise ValueError(f"centers {centers.tolist()} are not all within 0 .. {(sizes - 1).tolist()}")
    rows, *columns = ((torch.arange(shape[axis]) - positions[:, [i]]).abs() for i, axis in enumerate(axes))
    rows = rows[:, None, :, None]
    return torch.maximum(rows, columns[0][:, None, None]) if columns else rows


def gaussian(side: int) -> Tensor:
    """Gaussian blur along one axis as a matrix; each row sums to 1, without padding."""
    positions = torch.arange(side, dtype=torch.float64)
    return ((positions[:, None] - positions) / (BLUR * side)).square().div(-2).softmax(-1)
