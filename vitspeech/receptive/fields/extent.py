"""How wide a field is: numbers with bootstrap intervals, in pixels or milliseconds.

A field is a distribution p(δ) of energy over offsets δ from its unit, sum 1. All numbers are of p alone, so that they
do not change when a layer's output is scaled. Intervals are over inputs: 95 %, by bootstrap (Efron 1979,
doi:10.1214/aos/1176344552), the inputs drawn anew with replacement. Draws repeat inputs, which makes them more
concentrated: intervals of `effective_*` lie low by a few per mille, and may miss their number where it hardly varies.

Shapes: B inputs, K bootstrap draws (the first is the inputs themselves), P places of the field, I rows, J columns.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vitspeech.metrics.intervals import bootstrap_indices, percentile_interval
from vitspeech.receptive.fields.effective import Field

SHARES = (0.2, 0.3, 0.5, 0.9, 0.99)
DRAWS = 200
FIXED = 20_261_121  # seed of the draws


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


Numbers = dict[str, Estimate]


def extent(field: Field, *, cell: float = 1.0, own: float = 1.0) -> Numbers:
    """What is said of a field over pictures.

    - `side_T`, T of 20, 30, 50, 90, 99: side in px of the smallest centerd square that holds T % of the energy,
      interpolated linearly between the squares that end with a row of cells.
    - `radius_50`, `radius_90`: radius in px of the disc that holds so much, from cell center to cell center; 0 if the
      unit sees only its own place.
    - `width`: four standard deviations in px, the quadratic mean of rows and columns; an even square of side s has
      1.15 s.
    - `anisotropy`: the longer over the shorter axis of the ellipse with the field's second moments; 1 is round.
    - `effective_pixels`: (Σp)² / Σp², in px: the size of an even field that is as concentrated.
    - `own_share`: share of the energy within the unit's own cell, in whole places around its center.
    - `of_theoretical`: `width` over the side of the theoretical field, or of the picture if that is smaller; left out
      where the theoretical field is not known.

    Args:
        field: From `effective_fields`.
        cell: Side in px of a place of the field.
        own: Side of the unit's own cell, in places of the field.
    """
    share = drawn(field)
    down, across = (offset.flatten() for offset in grid_of(field))
    square, disc = torch.maximum(down.abs(), across.abs()), torch.hypot(down, across)
    found = {f"side_{100 * part:.0f}": cell * reached(share, 2 * square + 1, part, start=0.0) for part in SHARES}
    found |= {f"radius_{100 * part:.0f}": cell * reached(share, disc, part) for part in (0.5, 0.9)}
    moments = second_moments(share, down, across)
    width = 4 * ((moments[0] + moments[1]) / 2).sqrt()
    found["width"] = cell * width
    found["anisotropy"] = anisotropy(*moments)
    found["effective_pixels"] = cell**2 * effective_number(share)
    found["own_share"] = share[:, 2 * square + 1 <= own + 1e-6].sum(1) if own >= 1 else share[:, square < 1].sum(1)
    if field.known:
        found["of_theoretical"] = width / max(min(span.size, field.size) for span in field.theoretical)
    return {name: estimate(values) for name, values in found.items()}


def extent_in_time(field: Field, *, cell_ms: float) -> Numbers:
    """What is said of a field over speech.

    - `span_T`: ms of the smallest centerd stretch that holds T % of the energy, interpolated as the sides of squares.
    - `back_50`, `back_90`, `ahead_50`, `ahead_90`: so much of the energy before (after) the unit's own moment lies
      within that many ms of it; the moment itself counts to both.
    - `ahead_share`: energy after the moment over energy before and after it.
    - `width`: four standard deviations in ms.
    - `effective_ms`: (Σp)² / Σp² in ms, as `effective_pixels`.
    - `of_theoretical`: `width` over the length of the theoretical field, or of the recording; left out likewise.

    Args:
        field: Over log-mel frames (rows) and mel bins (columns), or over tokens.
        cell_ms: From one row to the next.
    """
    share = drawn(field).unflatten(1, (len(field.rows), -1)).sum(2)
    offset = field.rows.double()
    found = {
        f"span_{100 * part:.0f}": cell_ms * reached(share, 2 * offset.abs() + 1, part, start=0.0) for part in SHARES
    }
    before, after = offset < 0.5, offset > -0.5  # an offset of half a cell is the moment's own
    for name, there in (("back", before), ("ahead", after)):
        part_of = share[:, there] / share[:, there].sum(1, keepdim=True)
        for part in (0.5, 0.9):
            found[f"{name}_{100 * part:.0f}"] = cell_ms * reached(part_of, offset[there].abs(), part)
    past, future = share[:, offset < -0.5].sum(1), share[:, offset > 0.5].sum(1)
    found["ahead_share"] = torch.where(past + future > 0, future / (past + future), 0.5)
    mean = share @ offset
    width = 4 * (share @ offset.square() - mean.square()).clamp(min=0).sqrt()
    found["width"], found["effective_ms"] = cell_ms * width, cell_ms * effective_number(share)
    if field.known:
        found["of_theoretical"] = width / min(field.theoretical[0].size, field.size)
    return {name: estimate(values) for name, values in found.items()}


def extent_in_frequency(field: Field, centers_hz: Tensor) -> Numbers:
    """How a field over log-mel frames lies in frequency.

    - `effective_bins`: (Σp)² / Σp² of the share of each mel bin.
    - `low_hz`, `high_hz`: 5 % of the energy lies below, 5 % above; a bin's is spread evenly between its neighbors'.

    Args:
        field: Its columns are mel bins.
        centers_hz: Of each bin (J,).
    """
    share = drawn(field).unflatten(1, (len(field.rows), -1)).sum(1)
    centers = centers_hz.double().cpu()
    between = (centers[1:] + centers[:-1]) / 2  # where a bin's energy ends and the next one's begins
    lowest, highest = (2 * centers[0] - between[0]).clamp(min=0), 2 * centers[-1] - between[-1]
    ends = torch.cat((between, highest[None]))
    found = {"effective_bins": effective_number(share)}
    for name, part in (("low_hz", 0.05), ("high_hz", 0.95)):
        found[name] = reached(share, ends, part, start=float(lowest))
    return {name: estimate(values) for name, values in found.items()}


def grid_of(field: Field) -> list[Tensor]:
    """The offsets of every place from the unit, down and across: (I, J) each."""
    return torch.meshgrid(field.rows.double(), field.columns.double(), indexing="ij")


def drawn(field: Field) -> Tensor:
    """The field's shares for the inputs themselves and for every bootstrap draw: (K, P)."""
    count = len(field.energy)
    chosen = bootstrap_indices(count, DRAWS, seed=FIXED)
    weights = torch.zeros(DRAWS, count, dtype=torch.double).scatter_add_(1, chosen, torch.ones(DRAWS, count).double())
    energy = torch.cat((torch.ones(1, count).double(), weights)) @ field.energy.double().flatten(1)
    return energy / energy.sum(1, keepdim=True)


def reached(share: Tensor, distance: Tensor, part: float, start: float | None = None) -> Tensor:
    """At which distance `part` of the shares is reached, interpolated between distances that occur: (K, P) -> (K,).

    Args:
        share: Sum 1.
        distance: Of each place (P,).
        part: Within 0 .. 1.
        start: Where nothing is reached yet; `None` is the smallest distance, all of whose share is reached there.
    """
    distances, place = distance.round(decimals=6).unique(return_inverse=True)
    summed = torch.zeros(len(share), len(distances), dtype=share.dtype).index_add_(1, place, share).cumsum(1)
    if start is not None:
        distances = torch.cat((distances.new_tensor([start]), distances))
        summed = torch.cat((summed.new_zeros(len(summed), 1), summed), dim=1)
    after = (summed < part - 1e-12).sum(1).clamp(max=len(distances) - 1)
    before = (after - 1).clamp(min=0)
    low, high = (summed.gather(1, places[:, None])[:, 0] for places in (before, after))
    ratio = torch.where(high > low, (part - low) / (high - low), 0.0).clamp(0, 1)
    return torch.where(after > 0, distances[before].lerp(distances[after], ratio), distances[0])


def second_moments(share: Tensor, down: Tensor, across: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Variances along rows and columns, and their covariance, around the field's mean: (K,) each."""
    middle_down, middle_across = share @ down, share @ across
    rows = (share @ down.square() - middle_down.square()).clamp(min=0)
    columns = (share @ across.square() - middle_across.square()).clamp(min=0)
    return rows, columns, share @ (down * across) - middle_down * middle_across


def anisotropy(rows: Tensor, columns: Tensor, both: Tensor) -> Tensor:
    """The longer over the shorter axis of the ellipse; a field of one place is round, one of a line has no end."""
    mean, gap = (rows + columns) / 2, (((rows - columns) / 2).square() + both.square()).sqrt()
    long, short = mean + gap, (mean - gap).clamp(min=0)
    return torch.where(long > 1e-9, (long / short.clamp(min=1e-12)).sqrt(), 1.0)


def effective_number(share: Tensor) -> Tensor:
    """(Σp)² / Σp²: from 1, all in one place, to as many as there are."""
    return 1 / share.square().sum(1)


def estimate(values: Tensor) -> Estimate:
    """The number for the inputs themselves, and between which numbers 95 % of the draws lie."""
    return Estimate(float(values[0]), *percentile_interval(values[1:]))
