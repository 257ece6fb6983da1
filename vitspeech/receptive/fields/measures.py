"""A measured field, and its size as numbers with bootstrap confidence intervals.

A field is a distribution p(δ) of energy over offsets δ from its unit: each input's J is normalized to sum 1 over the
offsets that count, and p is the mean over inputs. All numbers depend on p alone, so they do not change when a layer's
output is scaled, and no input dominates them. The 95 % intervals are bootstrapped over inputs.
Resamples repeat inputs and are therefore more concentrated: intervals of `effective_*` are biased low by a few per
mille and may exclude the number itself where it hardly varies.

No offset beyond the source can be measured, so every number has a largest value. Compare each with the number of a
uniform field (`uniform`): a field of 1 at every position of the source, under the same measure.

Shapes: B inputs, R rows, W columns of the source; I, J rows and columns of a re-centered field; K distributions (for
intervals the first is the inputs themselves), P positions of the field, G groups of positions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy
import torch
from torch import Tensor

from vitspeech.metrics.intervals import Numbers, estimate, resampling_weights
from vitspeech.receptive.fields.theoretical import Spans

ROUNDING = 1e-4  # fraction of the energy that may lie outside of the theoretical field
# Fewer units see a far offset, so its energy is noisier: at a sixteenth its standard error is four
# times that of an offset that all of them see. Up to 4 × 4 units count to the corners of what they see; of more units,
# offsets that hardly any unit sees are left out.
LEAST_COVERAGE = 1 / 16
TOLERANCE = 1e-3  # in positions: for offsets that were converted from ms

FRACTIONS = (0.2, 0.3, 0.5, 0.9, 0.99)

Window = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Field:
    """A field relative to its unit, in positions of the source; for audio, columns are mel bins and not re-centered.

    Args:
        energy: J of each input, not normalized: at each offset the mean over the units that could see it, because
            the position lies inside the source. 0 at offsets that do not count (B, I, J).
        coverage: Fraction of the units that could see each offset. Offsets below `LEAST_COVERAGE` do not count (I, J).
        rows: Offset of each row from the unit's center; positive is below, for audio later (I,).
        columns: Offset of each column; for audio, the index of the mel bin (J,).
        theoretical: The theoretical field relative to the unit's center, including padding.
        probe_units: The measured units as (row, column) of the layer.
        center: Row and column of the source at the center of the first unit.
        outside: Fraction of the energy outside the theoretical field; zero up to rounding if that field is right.
        unread: Whether the graph could not be read, so that `theoretical` is everything.
        source_rows: Number of rows of the source; `None` if `rows` has all offsets between two of its positions.
    """

    energy: Tensor
    coverage: Tensor
    rows: Tensor
    columns: Tensor
    theoretical: Spans
    probe_units: list[tuple[int, int]]
    center: tuple[float, float]
    outside: float
    unread: bool = False
    source_rows: int | None = None

    @property
    def known(self) -> bool:
        """Whether the theoretical field is known: it was read and contains all the energy."""
        return not self.unread and self.outside < ROUNDING

    @property
    def size(self) -> int:
        """Number of rows of the source."""
        return self.source_rows or (len(self.rows) + 1) // 2

    @property
    def counted(self) -> Tensor:
        """The offsets that enough units could see: (I, J)."""
        return self.coverage >= LEAST_COVERAGE - 1e-6

    @property
    def shares(self) -> Tensor:
        """The field of each input, normalized to sum 1; zero for an input without any gradient: (B, I, J)."""
        return self.energy / self.energy.sum((1, 2), keepdim=True, dtype=torch.double).clamp(min=1e-300)

    @property
    def mean(self) -> Tensor:
        """The mean over inputs of `shares`, in which every input counts the same; sum 1: (I, J)."""
        total = self.shares.sum(0)
        return (total / total.sum()).float()

    @property
    def uniform(self) -> "Field":
        """The field that is 1 at every position of the source, with the same units and coverage."""
        return replace(self, energy=self.counted.to(self.energy)[None])

    @property
    def window(self) -> Window:
        """The first and the last offset that count, along rows and along columns."""
        offsets = (self.rows[self.counted.any(1)], self.columns[self.counted.any(0)])
        return tuple((float(axis[0]), float(axis[-1])) for axis in offsets)

    def trimmed(self) -> "Field":
        """The field without the rows and columns at its edges that do not count; of an image about half of it."""
        axes = [axis.nonzero()[:, 0] for axis in (self.counted.any(1), self.counted.any(0))]
        rows, columns = (slice(int(axis[0]), int(axis[-1]) + 1) for axis in axes)
        parts = {"energy": self.energy[:, rows, columns].clone(), "coverage": self.coverage[rows, columns]}
        return replace(self, **parts, rows=self.rows[rows], columns=self.columns[columns], source_rows=self.size)

    def within(self, window: Window) -> "Field":
        """The field on the offsets of a window alone."""
        (top, bottom), (left, right) = window
        rows = (self.rows > top - TOLERANCE) & (self.rows < bottom + TOLERANCE)
        columns = (self.columns > left - TOLERANCE) & (self.columns < right + TOLERANCE)
        inside = rows[:, None] & columns
        return replace(self, energy=self.energy * inside, coverage=self.coverage * inside)

    def on_source(self) -> Tensor:
        """The energy at its position in each input, if a single unit was measured: (B, R, W)."""
        return self.energy[:, self.counted.any(1)][:, :, self.counted.any(0)]


@dataclass(frozen=True)
class Mixtures:
    """Distributions over positions that are weighted means of the inputs' own; only sums over them are computed.

    All numbers of a field follow from sums over its positions. These are computed for each input once and then
    weighted, since K distributions of P positions take much more time and memory.

    Args:
        shares: The distribution of each input, not necessarily with sum 1 (B, P).
        weights: How much each input counts in each distribution (K, B).
    """

    shares: Tensor
    weights: Tensor

    @cached_property
    def total(self) -> Tensor:
        """The sum of each distribution before it is normalized: (K, 1)."""
        return self.weights @ self.shares.sum(1, keepdim=True)

    def cumulative(self, group: Tensor, count: int) -> Tensor:
        """The sum over each of `count` groups of positions and those before it.

        Shape:
            group of each position (P,) -> (K, G)
        """
        of_inputs = torch.stack([group.bincount(weights=row, minlength=count) for row in self.shares])
        return (self.weights @ of_inputs.cumsum(1)).div_(self.total)

    def mean(self, value: Tensor) -> Tensor:
        """The mean of a value of each position: (P,) -> (K,)."""
        return self.weights @ (self.shares @ value.to(self.shares)) / self.total[:, 0]

    @property
    def effective_number(self) -> Tensor:
        """(Σp)² / Σp²: 1 if all energy is at one position, the number of positions if it is uniform: (K,)."""
        squares = ((self.weights @ (self.shares @ self.shares.T)) * self.weights).sum(1)
        return self.total[:, 0].square() / squares

    def at(self, positions: Tensor) -> "Mixtures":
        """On some positions alone (P,), bool."""
        return replace(self, shares=self.shares[:, positions])

    def over(self, field: Field, axis: int) -> "Mixtures":
        """Along one axis of a field, 0 for its rows and 1 for its columns, summed over the other."""
        return replace(self, shares=self.shares.unflatten(1, (len(field.rows), -1)).sum(2 - axis))


Measure = Callable[[Field, Mixtures], dict[str, Tensor]]  # of distributions over a field's offsets: (K,) each


def estimates(field: Field, measure: Measure) -> Numbers:
    """Every number with its interval."""
    return {name: estimate(values) for name, values in resampled(field, measure).items()}


def uniform(field: Field, measure: Measure) -> dict[str, float]:
    """The numbers of `Field.uniform`."""
    return {name: float(values) for name, values in measure(field, mean_of(field.uniform)).items()}


def mean_of(field: Field) -> Mixtures:
    """The field's mean over inputs as a single distribution."""
    shares = field.shares.flatten(1)
    return Mixtures(shares, shares.new_ones(1, len(shares)))


def resampled(field: Field, measure: Measure) -> dict[str, Tensor]:
    """Every number for the inputs themselves and for each bootstrap resample: (K,)."""
    shares = field.shares.flatten(1)
    weights = resampling_weights(len(shares))
    # A resample may hold nothing but inputs without a gradient; it then counts as the inputs themselves.
    weights = torch.where(weights @ shares.sum(1, keepdim=True) > 0, weights, 1.0)
    return measure(field, Mixtures(shares, weights))


def extent(field: Field, *, cell: float = 1.0) -> Numbers:
    """The size of a field in an image.

    - `side_T` for T in 20, 30, 50, 90, 99: side in px of the smallest centered square that contains T % of the energy,
      interpolated linearly between the squares that end with a row of cells.
    - `radius_50`, `radius_90`: radius in px of the disc that contains 50 or 90 %, measured between cell centers; 0 if
      the unit depends on its own position only.
    - `width`: four standard deviations in px, the quadratic mean of rows and columns; 1.15 s for a uniform square of
      side s.
    - `effective_pixels`: (Σp)² / Σp², in px: the area of a uniform field that is equally concentrated.
    - `of_theoretical`: `width` divided by the side of the theoretical field, or of the image if that is smaller; left
      out where the theoretical field is not known.

    Args:
        field: From `effective_fields`.
        cell: Side in px of a position of the field.
    """
    return estimates(field, partial(measure_image, cell=cell))


def measure_image(field: Field, p: Mixtures, *, cell: float) -> dict[str, Tensor]:
    """The numbers of `extent` for distributions over the offsets of a field: (K,) each."""
    down, across = (offset.flatten() for offset in grid_of(field))
    square, disc = torch.maximum(down.abs(), across.abs()), torch.hypot(down, across)
    sides, radii = quantiles(p, 2 * square + 1, FRACTIONS, start=0.0), quantiles(p, disc, (0.5, 0.9))
    numbers = {f"side_{100 * part:.0f}": cell * side for part, side in zip(FRACTIONS, sides, strict=True)}
    numbers |= {f"radius_{part}": cell * radius for part, radius in zip((50, 90), radii, strict=True)}
    width = 4 * ((variance(p, down) + variance(p, across)) / 2).sqrt()
    numbers["width"] = cell * width
    numbers["effective_pixels"] = cell**2 * p.effective_number
    if field.known:
        numbers["of_theoretical"] = width / max(min(span.size, field.size) for span in field.theoretical)
    return numbers


def extent_in_time(field: Field, *, cell_ms: float) -> Numbers:
    """The size of a field in time.

    - `span_T`: length in ms of the smallest centered interval that contains T % of the energy, interpolated as
      `side_T`.
    - `back_50`, `back_90`, `ahead_50`, `ahead_90`: 50 or 90 % of the energy before (after) the unit's own time lies
      within that many ms; the unit's own time counts as part of both.
    - `ahead_share`: energy after the unit's time divided by the energy before and after it.
    - `width`: four standard deviations in ms.
    - `effective_ms`: (Σp)² / Σp² in ms, as `effective_pixels`.
    - `of_theoretical`: `width` divided by the length of the theoretical field, or of the recording if that is shorter;
      left out where the theoretical field is not known.

    Args:
        field: Over log-mel frames (rows) and mel bins (columns), or over tokens.
        cell_ms: Between neighboring rows.
    """
    return estimates(field, partial(measure_time, cell_ms=cell_ms))


def measure_time(field: Field, p: Mixtures, *, cell_ms: float) -> dict[str, Tensor]:
    """The numbers of `extent_in_time` for distributions over the offsets of a field: (K,) each."""
    p = p.over(field, 0)
    offset = field.rows.double()
    distance = 2 * offset.abs() + 1
    spans = quantiles(p, distance, FRACTIONS, start=0.0)
    numbers = {f"span_{100 * part:.0f}": cell_ms * span for part, span in zip(FRACTIONS, spans, strict=True)}
    before, after = offset < 0.5, offset > -0.5  # offsets within half a cell belong to the unit's own time
    for name, side in (("back", before), ("ahead", after)):
        for part, length in zip((50, 90), quantiles(p.at(side), offset[side].abs(), (0.5, 0.9)), strict=True):
            numbers[f"{name}_{part}"] = cell_ms * length
    past, future = p.mean(offset < -0.5), p.mean(offset > 0.5)
    numbers["ahead_share"] = torch.where(past + future > 0, future / (past + future), 0.5)
    width = 4 * variance(p, offset).sqrt()
    numbers["width"], numbers["effective_ms"] = cell_ms * width, cell_ms * p.effective_number
    if field.known:
        numbers["of_theoretical"] = width / min(field.theoretical[0].size, field.size)
    return numbers


def extent_in_frequency(field: Field, centers_hz: Tensor) -> Numbers:
    """The extent of a field in frequency.

    - `effective_bins`: (Σp)² / Σp² over mel bins.
    - `low_hz`, `high_hz`: 5 % of the energy lies below and 5 % above; a bin's energy is spread evenly up to the
      midpoints between its center and its neighbors'.

    Args:
        field: Its columns are mel bins.
        centers_hz: Center frequencies of the bins (J,).
    """
    return estimates(field, partial(measure_frequency, centers_hz=centers_hz))


def measure_frequency(field: Field, p: Mixtures, *, centers_hz: Tensor) -> dict[str, Tensor]:
    """The numbers of `extent_in_frequency` for distributions over the offsets of a field: (K,) each."""
    p = p.over(field, 1)
    bins, centers = numpy.arange(len(centers_hz)), centers_hz.double().cpu().numpy()
    has_lines = numpy.isfinite(centers)  # a filter without an FFT bin has no center of its own
    centers = torch.from_numpy(numpy.interp(bins, bins[has_lines], centers[has_lines]))
    midpoints = (centers[1:] + centers[:-1]) / 2
    lowest, highest = (2 * centers[0] - midpoints[0]).clamp(min=0), 2 * centers[-1] - midpoints[-1]
    upper_edges = torch.cat((midpoints, highest[None]))
    numbers = {"effective_bins": p.effective_number}
    numbers["low_hz"], numbers["high_hz"] = quantiles(p, upper_edges, (0.05, 0.95), start=float(lowest))
    return numbers


def grid_of(field: Field) -> list[Tensor]:
    """The offsets of all positions from the unit, down and across: (I, J) each."""
    return torch.meshgrid(field.rows.double(), field.columns.double(), indexing="ij")


def quantiles(p: Mixtures, distance: Tensor, parts: Sequence[float], start: float | None = None) -> Iterator[Tensor]:
    """The distances within which fractions of the energy lie, interpolated between distances that occur.

    `start` is the distance of the fraction 0. `None` is the smallest distance, whose energy then all lies there.

    Shape:
        distance of each position (P,) -> (K,) for each of the `parts`
    """
    distances, group = distance.round(decimals=6).unique(return_inverse=True)
    if start is not None:
        distances, group = torch.cat((distances.new_tensor([start]), distances)), group + 1
    summed = p.cumulative(group, len(distances))
    summed[p.total[:, 0] == 0] = 1.0  # a side without energy has no extent
    for part in parts:
        after = torch.searchsorted(summed, summed.new_full((len(summed), 1), part - 1e-12))
        after = after.clamp(max=len(distances) - 1)[:, 0]
        before = (after - 1).clamp(min=0)
        low, high = (summed.gather(1, indices[:, None])[:, 0] for indices in (before, after))
        ratio = torch.where(high > low, (part - low) / (high - low), 0.0).clamp(0, 1)
        yield torch.where(after > 0, distances[before].lerp(distances[after], ratio), distances[0])


def variance(p: Mixtures, offset: Tensor) -> Tensor:
    """The variance of an offset around its mean: (P,) -> (K,)."""
    return (p.mean(offset.square()) - p.mean(offset).square()).clamp(min=0)
