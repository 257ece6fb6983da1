"""The state of a step: its parts, each of a fixed shape, as one flat tensor."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class StateLayout:
    """The parts of a flat state (1, S), in the order in which they are declared."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def declare(self, *shape: int) -> None:
        """Add a part of this shape."""
        self.shapes.append(shape)

    @property
    def size(self) -> int:
        """Numbers in the state S."""
        return sum(map(math.prod, self.shapes))

    def split(self, state: Tensor) -> list[Tensor]:
        """The parts of a state: (1, S) -> tensors of the declared shapes."""
        parts = state[0].split([math.prod(shape) for shape in self.shapes])
        return [part.view(shape) if len(shape) > 1 else part for part, shape in zip(parts, self.shapes, strict=True)]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`."""
        return torch.cat([part.reshape(-1) if part.ndim > 1 else part for part in parts])[None]
