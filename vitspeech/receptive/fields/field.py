"""A measured field: the energy at each offset from the unit, and how many of the units could see that offset.

Shapes: B inputs, R rows, W columns of the source; I, J rows and columns of a re-centered field.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vitspeech.errors import InputError
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.fields.theoretical import Spans

ROUNDING = 1e-4  # fraction of the energy that may lie outside of the theoretical field
# Fewer pairs of unit and probe see a far offset, so its energy is noisier: at a sixteenth its standard error is four
# times that of an offset that all of them see. Up to 4 × 4 units count to the corners of what they see; of more units,
# offsets that hardly any unit sees are left out.
LEAST_COVERAGE = 1 / 16
TOLERANCE = 1e-3  # in positions: for offsets that were converted from ms

Window = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Field:
    """A field relative to its unit, in positions of the source; for audio, columns are mel bins and not re-centered.

    Args:
        energy: J of each input, not normalized: at each offset the mean over the units and probes that could see it,
            because the position lies inside the source. 0 at offsets that do not count (B, I, J).
        coverage: Fraction of the units and probes that could see each offset. Offsets below `LEAST_COVERAGE` do not
            count (I, J).
        rows: Offset of each row from the unit's center; positive is below, for audio later (I,).
        columns: Offset of each column; for audio, the index of the mel bin (J,).
        theoretical: The theoretical field relative to the unit's center, including padding.
        units: The measured units as (row, column) of the layer.
        center: Row and column of the source at the center of the first unit.
        outside: Fraction of the energy outside the theoretical field; zero up to rounding if that field is right.
        unread: Whether the graph could not be read, so that `theoretical` is everything.
    """

    energy: Tensor
    coverage: Tensor
    rows: Tensor
    columns: Tensor
    theoretical: Spans
    units: list[tuple[int, int]]
    center: tuple[float, float]
    outside: float
    unread: bool = False

    @property
    def known(self) -> bool:
        """Whether the theoretical field is known: it was read and contains all the energy."""
        return not self.unread and self.outside < ROUNDING

    @property
    def size(self) -> int:
        """Number of rows of the source."""
        return (len(self.rows) + 1) // 2

    @property
    def counted(self) -> Tensor:
        """The offsets that enough units could see: (I, J)."""
        return self.coverage >= LEAST_COVERAGE - 1e-6

    @property
    def shares(self) -> Tensor:
        """The field of each input, normalized to sum 1; zero for an input without any gradient: (B, I, J)."""
        energy = self.energy.double()
        return energy / energy.sum((1, 2), keepdim=True).clamp(min=1e-300)

    @property
    def mean(self) -> Tensor:
        """The mean over inputs of `shares`, in which every input counts the same; sum 1: (I, J)."""
        total = self.shares.sum(0)
        return (total / total.sum()).float()

    @property
    def uniform(self) -> "Field":
        """The field of a unit that depends on every position of the source alike, with the same units and coverage."""
        return replace(self, energy=self.counted.to(self.energy).expand(2, -1, -1))

    @property
    def window(self) -> Window:
        """The first and the last offset that count, along rows and along columns."""
        offsets = (self.rows[self.counted.any(1)], self.columns[self.counted.any(0)])
        return tuple((float(axis[0]), float(axis[-1])) for axis in offsets)

    def within(self, window: Window) -> "Field":
        """The field on the offsets of a window alone."""
        (top, bottom), (left, right) = window
        rows = (self.rows > top - TOLERANCE) & (self.rows < bottom + TOLERANCE)
        columns = (self.columns > left - TOLERANCE) & (self.columns < right + TOLERANCE)
        inside = rows[:, None] & columns
        return replace(self, energy=self.energy * inside, coverage=self.coverage * inside)

    def on_source(self) -> Tensor:
        """The energy at its position in each input, if a single unit was measured: (B, R, W).

        Raises:
            InputError: If several units were measured, whose fields are averaged.
        """
        if len(self.units) > 1:
            raise InputError(f"the fields of {len(self.units)} units are averaged; measure one")
        return self.energy[:, self.counted.any(1)][:, :, self.counted.any(0)]


@dataclass(frozen=True)
class LayerFields:
    """The fields of one layer in the source, and in the layer measured before it (the *mixing distance*).

    Args:
        layer: The layer.
        grid: Its rows and columns of units.
        stride: Positions of the source between neighboring units.
        cumulative: The field in the source.
        cumulative_cut: The same without residual shortcuts; `None` if there are none, no gradient is left, or it was
            not measured.
        block: The field in the layer before, in positions of that layer; `None` if not measured.
        block_cut: The same without residual shortcuts.
        block_stride: Positions of the source between neighboring units of the layer before.
    """

    layer: Layer
    grid: tuple[int, int]
    stride: float
    cumulative: Field
    cumulative_cut: Field | None
    block: Field | None
    block_cut: Field | None
    block_stride: float


def merge_batches(fields: Sequence[Field | None]) -> Field | None:
    """The fields of several batches joined into one."""
    if None in fields:
        return None
    energy = torch.cat([field.energy for field in fields])
    total = float(energy.sum())
    outside = sum(field.outside * float(field.energy.sum()) for field in fields) / max(total, 1e-300)
    return replace(fields[0], energy=energy, outside=outside)
