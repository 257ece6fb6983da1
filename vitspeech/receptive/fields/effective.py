"""The effective receptive field (ERF): how strongly each position of the input affects a unit, for any network.

J(δ) = E[(∂(v · F[p]) / ∂x[p + δ])²], the mean over inputs, over units p in the middle of layer F, and over random
vectors v of ±1 over the layer's channels. Because E[v vᵀ] is the identity, J is an unbiased estimate of the squared
norm of the Jacobian's columns (Hutchinson 1990, doi:10.1080/03610919008812866). This follows Luo et al. 2016
(arXiv:1701.04128), who differentiate one channel and take the absolute value of the gradient. No ReLU or logarithm is
applied, and no class is involved. `extent.py` computes the size of a field.

Shapes: B inputs, R rows, W columns of the source; I, J rows and columns of a re-centered field.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import floor, inf

import torch
from torch import Tensor, nn

from vitspeech.receptive.fields.graph import CutShortcuts, residual_shortcuts
from vitspeech.receptive.fields.layers import INPUT, Layer, record_outputs
from vitspeech.receptive.fields.theoretical import GraphReader, Span, Spans, read_graph

UNITS = 9  # measured in each layer: 3 × 3 of an image, 9 times of audio
BATCH = 32
ROUNDING = 1e-4  # fraction of the energy that may lie outside of the theoretical field


@dataclass(frozen=True)
class Field:
    """A field relative to its unit, in positions of the source; for audio, columns are mel bins and not re-centered.

    Args:
        energy: J of each input, the mean over units and probes, not normalized (B, I, J).
        rows: Offset of each row from the unit's center; positive is below, for audio later (I,).
        columns: Offset of each column; for audio, the index of the mel bin (J,).
        theoretical: The theoretical field relative to the unit's center, including padding.
        units: The measured units as (row, column) of the layer.
        center: Row and column of the source at the center of the first unit.
        outside: Fraction of the energy outside the theoretical field; zero up to rounding if that field is right.
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
        """Whether the theoretical field is known: it contains all the energy, so no operation was misread."""
        return self.outside < ROUNDING

    @property
    def size(self) -> int:
        """Number of rows of the source."""
        return (len(self.rows) + 1) // 2

    def on_source(self) -> Tensor:
        """The energy at its position in each input, if a single unit was measured: (B, R, W).

        Raises:
            ValueError: If several units were measured, whose fields are averaged.
        """
        if len(self.units) > 1:
            raise ValueError(f"the fields of {len(self.units)} units are averaged; measure one")
        # Mel bins are numbered from 0; offsets of pixels start below 0.
        columns = self.columns if self.columns[0] == 0 else self.columns + self.center[1]
        rows = self.rows + self.center[0]
        size = (self.size, int(columns.max()) + 1 if self.columns[0] == 0 else (len(columns) + 1) // 2)
        inside = [
            (positions.round() >= 0) & (positions.round() < count)
            for positions, count in zip((rows, columns), size, strict=True)
        ]
        return self.energy[:, inside[0]][:, :, inside[1]]

    @property
    def mean(self) -> Tensor:
        """The mean field over all inputs, normalized to sum 1: (I, J)."""
        return self.energy.sum(0) / self.energy.sum()


@dataclass(frozen=True)
class LayerFields:
    """The fields of one layer in the source, and in the layer measured before it (the *mixing distance*).

    Args:
        layer: The layer.
        grid: Its rows and columns of units.
        stride: Positions of the source between neighboring units.
        cumulative: The field in the source.
        cumulative_cut: The same without residual shortcuts; `None` if there are none, or no gradient is left.
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
    """The effective receptive fields of layers, given in the order in which the network runs them.

    Args:
        network: In evaluation mode.
        inputs: The network's input (B, …); the estimate improves with their number.
        layers: Any modules whose outputs fit a grid.
        source: The layer with respect to which gradients are taken; `None` is the input, an image (B, C, N, N).
        units: Number of units measured in each layer, within its middle half.
        probes: Number of random ±1 vectors per input and unit.
        cumulative_only: Measure only the field in the source with shortcuts, which takes half the time.
        seed: Of the probes.
        progress: Called after each layer of each batch.

    Raises:
        ValueError: If there are fewer than two inputs, a layer is missing or does not fit a grid, or a layer does not
            depend on the source.
    """
    source = Layer(INPUT) if source is None else source
    if len(inputs) < 2:
        raise ValueError(f"{len(inputs)} input: an estimate with an interval needs at least 2")
    if units < 1 or probes < 1:
        raise ValueError(f"units={units} or probes={probes} is below 1")
    generator = torch.Generator().manual_seed(seed)
    chain = [source, *layers]
    batches: list[list[tuple[Field | None, ...]]] = [[] for _ in layers]
    strides, grids = [1.0], []
    for batch in inputs.split(BATCH):
        # The reader's hooks run first: they must get a module's own output, not the copy made by `record_outputs`.
        with read_graph(network) as reader, record_outputs(network, [layer.name for layer in chain]) as outputs:
            if source.name == INPUT:
                batch = batch.detach().requires_grad_()
                outputs[INPUT] = batch
            with torch.enable_grad():
                network(batch)
        for number, layer in enumerate(layers):
            positions = central_units(layer.grid(outputs[layer.name]), units)
            probe = Probe(reader, outputs, layer, positions, probes, generator)
            if len(grids) <= number:
                strides.append(probe.stride(source))
                grids.append(tuple(layer.grid(outputs[layer.name]).shape[2:]))
            if cumulative_only:
                fields = (probe.field(source, False), None, None, None)
            else:
                origins = [source] if number == 0 else [source, chain[number]]
                fields = tuple(probe.field(origin, cut) for origin in origins for cut in (False, True))
            batches[number].append(fields if len(fields) == 4 else fields * 2)
            if progress:
                progress()
    result = []
    for number, layer in enumerate(layers):
        cumulative, cumulative_cut, block, block_cut = map(merge_batches, zip(*batches[number], strict=True))
        stride, block_stride = strides[number + 1], strides[number]
        result.append(
            LayerFields(layer, grids[number], stride, cumulative, cumulative_cut, block, block_cut, block_stride)
        )
    return result


@dataclass
class Probe:
    """Measures one layer after a forward pass; see `effective_fields`."""

    reader: GraphReader
    outputs: dict[str, Tensor]
    layer: Layer
    units: list[tuple[int, int]]
    probes: int
    generator: torch.Generator

    def field(self, origin: Layer, cut: bool) -> Field | None:
        """The field in `origin`; with `cut` without residual shortcuts, `None` if there are none."""
        output, source = self.outputs[self.layer.name], self.outputs[origin.name]
        shortcuts = residual_shortcuts(output, source) if cut else []
        if cut and not shortcuts:
            return None
        grid = self.layer.grid(output)
        spans = [self.spans(origin, unit) for unit in self.units]
        shape = origin.grid(source).shape[2:]
        recentered = [True, not (origin.in_time and shape[1] > 1)]
        sides = [2 * size - 1 if moves else size for size, moves in zip(shape, recentered, strict=True)]
        canvas = torch.zeros(len(grid), *sides)
        outside = 0.0
        with CutShortcuts(shortcuts) if cut else nullcontext():
            for unit, (row, column) in zip(self.units, spans, strict=True):
                for _ in range(self.probes):
                    signs = torch.randint(0, 2, grid.shape[:2], generator=self.generator).to(grid) * 2 - 1
                    projection = (signs * grid[:, :, unit[0], unit[1]]).sum()
                    gradient = torch.autograd.grad(projection, source, retain_graph=True, materialize_grads=True)[0]
                    energy = origin.grid(gradient).square().sum(1).cpu()
                    rest = energy.clone()
                    inside(rest, (row, column)).zero_()
                    outside += float(rest.sum())
                    top = shape[0] - 1 - center_index(row, shape[0])
                    left = shape[1] - 1 - center_index(column, shape[1]) if recentered[1] else 0
                    canvas[:, top : top + shape[0], left : left + shape[1]] += energy
        rows = torch.arange(canvas.shape[1]) - (shape[0] - 1) - center_fraction(spans[0][0])
        columns = torch.arange(canvas.shape[2]).to(rows)
        if recentered[1]:
            columns = columns - (shape[1] - 1) - center_fraction(spans[0][1])
        if cut and not canvas.any():
            return None  # some networks multiply their branches by zero before training
        if not canvas.any():
            raise ValueError(f"layer {self.layer.name!r} does not depend on {origin.name or 'the input'}: no gradient")
        outside /= max(float(canvas.sum()), 1e-300)
        canvas /= len(self.units) * self.probes
        relative = tuple(Span(span.low - span.center, span.high - span.center, 0) for span in spans[0])
        center = (spans[0][0].center, spans[0][1].center)
        return Field(canvas, rows, columns, relative, self.units, center, outside)

    def spans(self, origin: Layer, unit: tuple[int, int]) -> Spans:
        """The unit's theoretical field in `origin`; where the graph can't be read, everything, with its own center."""
        output, source = self.outputs[self.layer.name], self.outputs[origin.name]
        here, there = self.layer.grid(output).shape[2:], origin.grid(source).shape[2:]
        fallback = tuple(Span(-inf, inf, (unit[axis] + 0.5) * there[axis] / here[axis] - 0.5) for axis in (0, 1))
        spans = self.reader.field(output, source, unit)
        if spans is None:
            return fallback
        # Merging positions by reshaping (Swin) leaves no stride in the graph; the grid is then not centered.
        first, second = (self.reader.field(output, source, (number, number)) for number in (0, 1))
        for axis in (0,) if origin.in_time else (0, 1):
            stride = second[axis].center - first[axis].center
            grid_center = first[axis].center + stride * (here[axis] - 1) / 2
            # Symmetric padding and rows left over at the end move the center by less than half a stride.
            if abs(grid_center - (there[axis] - 1) / 2) >= stride / 2:
                return fallback
        return spans

    def stride(self, origin: Layer) -> float:
        """Positions of `origin` between neighboring units, along the rows."""
        return self.spans(origin, (1, 0))[0].center - self.spans(origin, (0, 0))[0].center


def central_units(grid: Tensor, units: int) -> list[tuple[int, int]]:
    """Units as (row, column), spread evenly over the middle half of a grid."""
    rows, columns = grid.shape[2:]
    down, across = (units, 1) if columns == 1 else (max(round(units**0.5), 1),) * 2

    def spread(size: int, count: int) -> list[int]:
        fractions = torch.linspace(0.25, 0.75, count) if count > 1 else torch.tensor([0.5])
        return (fractions * (size - 1)).round().int().unique().tolist()

    return [(row, column) for row in spread(rows, down) for column in spread(columns, across)]


def center_index(span: Span, size: int) -> int:
    """The grid position at a span's center, rounded down."""
    return min(max(floor(span.center), 0), size - 1)


def center_fraction(span: Span) -> float:
    """The fractional part of a span's center."""
    return span.center - floor(span.center)


def inside(energy: Tensor, spans: Spans) -> Tensor:
    """A view of the part of a grid (B, R, W) that the spans cover."""
    rows, columns = (
        slice(int(max(span.low, 0)), int(min(span.high, size - 1)) + 1)
        for span, size in zip(spans, energy.shape[1:], strict=True)
    )
    return energy[:, rows, columns]


def merge_batches(fields: Sequence[Field | None]) -> Field | None:
    """The fields of several batches joined into one."""
    if None in fields:
        return None
    energy = torch.cat([field.energy for field in fields])
    first, total = fields[0], float(energy.sum())
    outside = sum(field.outside * float(field.energy.sum()) for field in fields) / max(total, 1e-300)
    return replace(first, energy=energy, outside=outside)
