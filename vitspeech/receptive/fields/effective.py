"""The effective receptive field: how much each place of the input changes a unit, by one definition for all networks.

J(δ) = E[(∂(v · F[p]) / ∂x[p + δ])²] over inputs, over units p in the middle of layer F, and over random v of ±1 over
the layer's channels. Since E[v vᵀ] is the identity, J is an unbiased estimate of the squared norm of the Jacobian's
columns (Hutchinson 1990, doi:10.1080/03610919008812866). After Luo et al. 2016 (arXiv:1701.04128), who take one channel
and the gradient's absolute value; there is no ReLU, no logarithm and no class here. `extent.py` makes numbers of it.

Shapes: B inputs, R rows, W columns of the source; I, J rows and columns of a re-centerd field.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import floor, inf

import torch
from torch import Tensor, nn

from vitspeech.receptive.fields.graph import Cut, skips
from vitspeech.receptive.fields.layers import INPUT, Layer, recorded
from vitspeech.receptive.fields.theoretical import Reader, Span, Spans, reading

UNITS = 9  # measured in each layer: 3 × 3 of a picture, 9 moments of speech
BATCH = 32
ROUNDING = 1e-4  # share of the energy that may lie outside of the theoretical field


@dataclass(frozen=True)
class Field:
    """A field around its unit, in places of what it is traced back to; of speech, columns are mel bins, not re-centerd.

    Args:
        energy: J of every input by itself, the mean over units and probes, not yet normalized (B, I, J).
        rows: Offset of each row from the unit's center; positive is below, in speech later (I,).
        columns: Likewise of each column; of speech the number of the mel bin (J,).
        theoretical: Around the center likewise what the unit could see, padding included.
        units: At which (row, column) of the layer it was measured.
        center: Row and column of the source at which the first of them lies.
        outside: Share of the energy that lies outside of the theoretical field; zero but for rounding if that is right.
    """

    energy: Tensor
    rows: Tensor
    columns: Tensor
    theoretical: Spans
    units: list[tuple[int, int]]
    center: tuple[float, float]
    outside: float

    @property
    def known(self) -> bool:
        """Whether the theoretical field holds all of the energy; not where something mixes places unread."""
        return self.outside < ROUNDING

    @property
    def size(self) -> int:
        """Rows of the source that the field was measured in."""
        return (len(self.rows) + 1) // 2

    def on_source(self) -> Tensor:
        """The energy where it lies in every input, if a single unit was measured: (B, R, W).

        Raises:
            ValueError: If there are several units, whose fields lie on each other.
        """
        if len(self.units) > 1:
            raise ValueError(f"the fields of {len(self.units)} units are added up; measure one")
        # Mel bins are numbered from 0; offsets of pixels begin below it.
        columns = self.columns if self.columns[0] == 0 else self.columns + self.center[1]
        rows = self.rows + self.center[0]
        size = (self.size, int(columns.max()) + 1 if self.columns[0] == 0 else (len(columns) + 1) // 2)
        inside = [
            (places.round() >= 0) & (places.round() < count)
            for places, count in zip((rows, columns), size, strict=True)
        ]
        return self.energy[:, inside[0]][:, :, inside[1]]

    @property
    def mean(self) -> Tensor:
        """The field over all inputs, sum 1: (I, J)."""
        return self.energy.sum(0) / self.energy.sum()


@dataclass(frozen=True)
class LayerFields:
    """What the units of one layer see of the source, and of the layer measured before it (the *mixing distance*).

    Args:
        layer: Which layer.
        grid: Its rows and columns of units.
        stride: Places of the source from unit to unit.
        cumulative: From the source.
        cumulative_cut: The same without the paths that skip something; `None` where there are none, or nothing is left.
        block: From the layer before, in places of that layer; `None` where it was not asked for.
        block_cut: Likewise.
        block_stride: Places of the source from place to place of the layer before.
    """

    layer: Layer
    grid: tuple[int, int]
    stride: float
    cumulative: Field
    cumulative_cut: Field | None
    block: Field | None
    block_cut: Field | None
    block_stride: float


def effective_fields(
    network: nn.Module,
    inputs: Tensor,
    layers: Sequence[Layer],
    *,
    source: Layer | None = None,
    units: int = UNITS,
    probes: int = 1,
    cumulative_only: bool = False,
    seed: int = 0,
    progress: Callable[[], None] | None = None,
) -> list[LayerFields]:
    """The effective fields of layers, in the order in which the network runs them.

    Args:
        network: In evaluation mode.
        inputs: What it takes (B, …); more of them make a better estimate.
        layers: Any modules of it whose outputs lie on a grid.
        source: Where gradients end; `None` is the input, a picture (B, C, N, N).
        units: How many are measured in each layer, in its middle half.
        probes: Random ±1 vectors for each input and unit.
        cumulative_only: Only from the source and with all paths: half the work.
        seed: Of the probes.
        progress: Called after each batch of a layer.

    Raises:
        ValueError: If there are fewer than two inputs, a layer is missing or lies on no grid, or it depends on nothing
            of the source.
    """
    source = Layer(INPUT) if source is None else source
    if len(inputs) < 2:
        raise ValueError(f"{len(inputs)} input: an estimate with an interval needs at least 2")
    if units < 1 or probes < 1:
        raise ValueError(f"units={units} or probes={probes} is below 1")
    generator = torch.Generator().manual_seed(seed)
    chain = [source, *layers]
    parts: list[list[tuple[Field | None, ...]]] = [[] for _ in layers]
    strides, grids = [1.0], []
    for batch in inputs.split(BATCH):
        # Read before recorded: a module that says more of itself is to be known by its own output, not by a copy.
        with reading(network) as reader, recorded(network, [layer.name for layer in chain]) as outputs:
            if source.name == INPUT:
                batch = batch.detach().requires_grad_()
                outputs[INPUT] = batch
            with torch.enable_grad():
                network(batch)
        for number, layer in enumerate(layers):
            probe = Probe(reader, outputs, layer, chosen(layer.grid(outputs[layer.name]), units), probes, generator)
            if len(grids) <= number:
                strides.append(probe.stride(source))
                grids.append(tuple(layer.grid(outputs[layer.name]).shape[2:]))
            if cumulative_only:
                fields = (probe.field(source, False), None, None, None)
            else:
                origins = [source] if number == 0 else [source, chain[number]]
                fields = tuple(probe.field(origin, cut) for origin in origins for cut in (False, True))
            parts[number].append(fields if len(fields) == 4 else fields * 2)
            if progress:
                progress()
    found = []
    for number, layer in enumerate(layers):
        cumulative, cumulative_cut, block, block_cut = (merged(fields) for fields in zip(*parts[number], strict=True))
        found.append(
            LayerFields(
                layer, grids[number], strides[number + 1], cumulative, cumulative_cut, block, block_cut, strides[number]
            )
        )
    return found


@dataclass
class Probe:
    """Measures one layer after one forward pass; see `effective_fields`."""

    reader: Reader
    outputs: dict[str, Tensor]
    layer: Layer
    units: list[tuple[int, int]]
    probes: int
    generator: torch.Generator

    def field(self, origin: Layer, cut: bool) -> Field | None:
        """The field in `origin`; with `cut` without skipping paths, `None` where there is no such path."""
        output, source = self.outputs[self.layer.name], self.outputs[origin.name]
        skipping = skips(output, source) if cut else []
        if cut and not skipping:
            return None
        grid = self.layer.grid(output)
        spans = [self.spans(origin, unit) for unit in self.units]
        shape = origin.grid(source).shape[2:]
        recenterd = [True, not (origin.in_time and shape[1] > 1)]
        canvas = torch.zeros(len(grid), *(2 * n - 1 if moved else n for n, moved in zip(shape, recenterd, strict=True)))
        outside = 0.0
        with Cut(skipping) if cut else nullcontext():
            for unit, (row, column) in zip(self.units, spans, strict=True):
                for _ in range(self.probes):
                    signs = torch.randint(0, 2, grid.shape[:2], generator=self.generator).to(grid) * 2 - 1
                    answer = (signs * grid[:, :, unit[0], unit[1]]).sum()
                    gradient = torch.autograd.grad(answer, source, retain_graph=True, materialize_grads=True)[0]
                    energy = origin.grid(gradient).square().sum(1).cpu()
                    rest = energy.clone()
                    within(rest, (row, column)).zero_()
                    outside += float(rest.sum())
                    top = shape[0] - 1 - middle(row, shape[0])
                    left = shape[1] - 1 - middle(column, shape[1]) if recenterd[1] else 0
                    canvas[:, top : top + shape[0], left : left + shape[1]] += energy
        rows = torch.arange(canvas.shape[1]) - (shape[0] - 1) - fraction(spans[0][0])
        columns = torch.arange(canvas.shape[2]).to(rows)
        if recenterd[1]:
            columns = columns - (shape[1] - 1) - fraction(spans[0][1])
        if cut and not canvas.any():
            return None  # before training some networks' branches are multiplied by zero
        if not canvas.any():
            raise ValueError(f"layer {self.layer.name!r} does not depend on {origin.name or 'the input'}: no gradient")
        outside /= max(float(canvas.sum()), 1e-300)
        canvas /= len(self.units) * self.probes
        around = tuple(Span(span.low - span.center, span.high - span.center, 0) for span in spans[0])
        center = (spans[0][0].center, spans[0][1].center)
        return Field(canvas, rows, columns, around, self.units, center, outside)

    def spans(self, origin: Layer, unit: tuple[int, int]) -> Spans:
        """The unit's theoretical field in `origin`; where the graph can't be read, everything around its own place."""
        output, source = self.outputs[self.layer.name], self.outputs[origin.name]
        here, there = self.layer.grid(output).shape[2:], origin.grid(source).shape[2:]
        own = tuple(Span(-inf, inf, (unit[axis] + 0.5) * there[axis] / here[axis] - 0.5) for axis in (0, 1))
        read = self.reader.field(output, source, unit)
        if read is None:
            return own
        # Places may also be merged by reshaping (Swin), which leaves no stride: then the units are not in the middle.
        first, after = (self.reader.field(output, source, (number, number)) for number in (0, 1))
        for axis in (0,) if origin.in_time else (0, 1):
            stride = after[axis].center - first[axis].center
            middle_unit = first[axis].center + stride * (here[axis] - 1) / 2
            # Padding alike on both sides and rows left over at the end move it by less than half a stride.
            if abs(middle_unit - (there[axis] - 1) / 2) >= stride / 2:
                return own
        return read

    def stride(self, origin: Layer) -> float:
        """Places of `origin` from one unit to the next, along the rows."""
        return self.spans(origin, (1, 0))[0].center - self.spans(origin, (0, 0))[0].center


def chosen(grid: Tensor, units: int) -> list[tuple[int, int]]:
    """Units spread evenly over the middle half of a grid: (row, column) each."""
    rows, columns = grid.shape[2:]
    down, across = (units, 1) if columns == 1 else (max(round(units**0.5), 1),) * 2

    def spread(size: int, count: int) -> list[int]:
        places = torch.linspace(0.25, 0.75, count) if count > 1 else torch.tensor([0.5])
        return (places * (size - 1)).round().int().unique().tolist()

    return [(row, column) for row in spread(rows, down) for column in spread(columns, across)]


def middle(span: Span, size: int) -> int:
    """The place of a grid at a span's center, or just before it."""
    return min(max(floor(span.center), 0), size - 1)


def fraction(span: Span) -> float:
    """How far a span's center lies behind that place."""
    return span.center - floor(span.center)


def within(energy: Tensor, spans: Spans) -> Tensor:
    """The part of a grid (B, R, W) that the spans cover, as a view."""
    rows, columns = (
        slice(int(max(span.low, 0)), int(min(span.high, size - 1)) + 1)
        for span, size in zip(spans, energy.shape[1:], strict=True)
    )
    return energy[:, rows, columns]


def merged(fields: Sequence[Field | None]) -> Field | None:
    """The fields of several batches as one."""
    if None in fields:
        return None
    energy = torch.cat([field.energy for field in fields])
    first, total = fields[0], float(energy.sum())
    outside = sum(field.outside * float(field.energy.sum()) for field in fields) / max(total, 1e-300)
    return replace(first, energy=energy, outside=outside)
