"""The effective receptive field (ERF): how strongly each position of the input affects a unit, for any network.

J(δ) = E[(∂(v · F[p]) / ∂x[p + δ])²], the mean over units p in the middle of layer F and over random vectors v of ±1
over the layer's channels. Because E[v vᵀ] is the identity, J is an unbiased estimate of the squared norm of the
Jacobian's columns (Hutchinson 1990, doi:10.1080/03610919008812866). This follows Luo et al. 2016 (arXiv:1701.04128),
who differentiate one channel and take the absolute value of the gradient. No ReLU or logarithm is applied, and no class
is involved.

Not every unit can see every offset: p + δ may lie outside the source. The mean at δ is therefore over the units that
can see δ, so that the border does not make fields look narrow. J is kept for each input; `Field.mean` normalizes each
input's J to sum 1 before it averages. It tells where the gradient energy of an average input lies, and no input counts
more than another because its gradients are large. `measures.py` computes the size of a field.

The units are a symmetric set whose centers lie in the middle half of the source. It is chosen by the units' centers in
the source, not by their numbers: pooling that drops a row at the end leaves grids whose middle is up to half a stride
away from the middle of the image.

Shapes: B inputs, R rows, W columns of the source; I, J rows and columns of a re-centered field.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor, inf

import torch
from torch import Tensor, nn

from vitspeech.errors import InputError
from vitspeech.receptive.fields.graph import cut_shortcuts, residual_shortcuts
from vitspeech.receptive.fields.layers import INPUT, Layer, record_outputs
from vitspeech.receptive.fields.measures import Field
from vitspeech.receptive.fields.theoretical import GraphReader, Span, Spans, read_graph

PROBE_UNITS = 4  # measured in each layer: 2 × 2 of an image, 4 times of audio
BATCH = 32


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


def effective_fields(
    network: nn.Module,
    inputs: Tensor,
    layers: Sequence[Layer],
    *,
    source: Layer | None = None,
    probe_units: int = PROBE_UNITS,
    probes: int = 1,
    cumulative_only: bool = False,
    last_cut_only: bool = False,
) -> list[LayerFields]:
    """The effective receptive fields of layers, given in the order in which the network runs them.

    Args:
        network: In evaluation mode.
        inputs: The network's input (B, …); the estimate improves with their number.
        layers: Any modules whose outputs fit a grid.
        source: The layer with respect to which gradients are taken; `None` is the input, an image (B, C, N, N).
        probe_units: Highest number of units measured in each layer.
        probes: Number of random ±1 vectors per input and unit.
        cumulative_only: Measure only the field in the source with shortcuts, which takes half the time.
        last_cut_only: Measure the field in the source without shortcuts for the last layer only.

    Raises:
        InputError: If there are fewer than two inputs, a layer is missing or does not fit a grid, or a layer does not
            depend on the source.
    """
    source = Layer(INPUT) if source is None else source
    if len(inputs) < 2:
        raise InputError(f"{len(inputs)} input: an estimate with an interval needs at least 2")
    generator = torch.Generator().manual_seed(0)
    chain = [source, *layers]
    batches: list[list[LayerFields]] = []
    for batch in inputs.split(BATCH):
        # The reader's hooks run first: they must get a module's own output, not the copy made by `record_outputs`.
        with (
            read_graph(network) as reader,
            record_outputs(network, [layer.name for layer in chain]) as outputs,
            differentiable_recurrence(network),
        ):
            if source.name == INPUT:
                batch = batch.detach().requires_grad_()
                outputs[INPUT] = batch
            with torch.enable_grad():
                network(batch)
        measured: list[LayerFields] = []
        for number, (before, layer) in enumerate(pairwise(chain)):
            probe = LayerProbe(reader, outputs, layer, probes, generator)
            units = probe.central_units(source, probe_units)
            cumulative, cut, block, block_cut = probe.field(source, units), None, None, None
            if not cumulative_only:
                if not last_cut_only or number in (0, len(layers) - 1):
                    cut = probe.field(source, units, cut=True)
                block, block_cut = cumulative, cut
                if number:
                    block, block_cut = probe.field(before, units), probe.field(before, units, cut=True)
            block_stride = measured[-1].stride if number else 1.0
            fields = (cumulative, cut, block, block_cut)
            measured.append(LayerFields(layer, probe.shape(layer), probe.stride(source), *fields, block_stride))
        batches.append(measured)
    return [merge_batches(parts) for parts in zip(*batches, strict=True)]


def merge_batches(parts: Sequence[LayerFields]) -> LayerFields:
    """The fields of one layer in several batches joined into one."""

    def merged(fields: Sequence[Field | None]) -> Field | None:
        if None in fields:
            return None
        energy = torch.cat([field.energy for field in fields])
        outside = sum(field.outside * float(field.energy.sum()) for field in fields) / max(float(energy.sum()), 1e-300)
        return replace(fields[0], energy=energy, outside=outside)

    names = ("cumulative", "cumulative_cut", "block", "block_cut")
    return replace(parts[0], **{name: merged([getattr(part, name) for part in parts]) for name in names})


@contextmanager
def differentiable_recurrence(network: nn.Module) -> Iterator[None]:
    """A context in which recurrent layers can be differentiated on a GPU.

    cuDNN stores what the backward pass needs only in training mode. There, recurrent layers differ from evaluation mode
    only in their dropout, which is off here.
    """
    layers = [module for module in network.modules() if isinstance(module, nn.RNNBase)]
    before = [(layer.training, layer.dropout) for layer in layers]
    try:
        for layer in layers:
            layer.train().dropout = 0.0
        yield
    finally:
        for layer, (training, dropout) in zip(layers, before, strict=True):
            layer.train(training).dropout = dropout


@dataclass
class LayerProbe:
    """Measures one layer after a forward pass; see `effective_fields`."""

    reader: GraphReader
    outputs: dict[str, Tensor]
    layer: Layer
    probes: int
    generator: torch.Generator

    def field(self, origin: Layer, units: list[tuple[int, int]], *, cut: bool = False) -> Field | None:
        """The field in `origin`; with `cut` without residual shortcuts, `None` if there are none."""
        output, source = self.outputs[self.layer.name], self.outputs[origin.name]
        shortcuts = residual_shortcuts(output, source, self.reader.edges) if cut else []
        if cut and not shortcuts:
            return None
        grid = self.layer.grid(output)
        found = [self.read(origin, unit) for unit in units]
        spans = [one or self.everything(origin, unit) for one, unit in zip(found, units, strict=True)]
        shape = self.shape(origin)
        recentered = [True, not (origin.in_time and shape[1] > 1)]
        sides = [2 * size - 1 if moves else size for size, moves in zip(shape, recentered, strict=True)]
        canvas, seen = torch.zeros(len(grid), *sides), torch.zeros(*sides)
        base, total, outside = tuple(span.center for span in spans[0]), 0.0, 0.0
        with cut_shortcuts(shortcuts):
            for unit, field in zip(units, spans, strict=True):
                place = (slice(None), *map(shifted, field, base, shape, recentered))
                seen[place[1:]] += self.probes
                for _ in range(self.probes):
                    signs = torch.randint(0, 2, grid.shape[:2], generator=self.generator).to(grid) * 2 - 1
                    projection = (signs * grid[:, :, unit[0], unit[1]]).sum()
                    gradient = torch.autograd.grad(projection, source, retain_graph=True, materialize_grads=True)[0]
                    energy = origin.grid(gradient).square().sum(1).cpu()
                    canvas[place] += energy
                    total += float(energy.detach().sum())
                    inside(energy, field).zero_()
                    outside += float(energy.detach().sum())
        if cut and not canvas.any():
            return None  # some networks multiply their branches by zero before training
        if not canvas.any():
            raise InputError(f"layer {self.layer.name!r} does not depend on {origin.name or 'the input'}: no gradient")
        rows, columns = (
            torch.arange(side) - ((size - 1) + (center - floor(center)) if moves else 0.0)
            for side, size, center, moves in zip(sides, shape, base, recentered, strict=True)
        )
        relative = tuple(Span(span.low - span.center, span.high - span.center, 0) for span in spans[0])
        coverage = seen / (len(units) * self.probes)
        outside = outside / max(total, 1e-300)
        field = Field(canvas, coverage, rows, columns, relative, units, base, outside, unread=None in found)
        return replace(field, energy=canvas / seen.clamp(min=1) * field.counted)

    def shape(self, layer: Layer) -> tuple[int, int]:
        """Rows and columns of a layer."""
        return tuple(layer.grid(self.outputs[layer.name]).shape[2:])

    def everything(self, origin: Layer, unit: tuple[int, int]) -> Spans:
        """All of `origin`, around the place of the unit."""
        sizes = zip(unit, self.shape(self.layer), self.shape(origin), strict=True)
        return tuple(Span(-inf, inf, (number + 0.5) * there / here - 0.5) for number, here, there in sizes)

    def read(self, origin: Layer, unit: tuple[int, int]) -> Spans | None:
        """The unit's theoretical field in `origin`; `None` where the graph can't be read."""
        output, source = self.outputs[self.layer.name], self.outputs[origin.name]
        here, there = self.shape(self.layer), self.shape(origin)
        spans = self.reader.field(output, source, unit)
        if spans is None:
            return None
        # Merging positions by reshaping (Swin) leaves no stride in the graph; the grid is then not centered.
        first, second = (self.reader.field(output, source, (number, number)) for number in (0, 1))
        for axis in (0,) if origin.in_time else (0, 1):
            stride = second[axis].center - first[axis].center
            grid_center = first[axis].center + stride * (here[axis] - 1) / 2
            # Symmetric padding and rows left over at the end move the center by less than half a stride.
            if abs(grid_center - (there[axis] - 1) / 2) >= stride / 2:
                return None
        return spans

    def spans(self, origin: Layer, unit: tuple[int, int]) -> Spans:
        """The unit's theoretical field in `origin`; where the graph can't be read, everything."""
        return self.read(origin, unit) or self.everything(origin, unit)

    def central_units(self, origin: Layer, count: int) -> list[tuple[int, int]]:
        """At most `count` units whose centers lie in the middle half of `origin`."""
        shape = self.shape(self.layer)
        first, second = (self.spans(origin, (number, number)) for number in (0, 1))
        centers = [
            [low.center + number * (high.center - low.center) for number in range(size)]
            for low, high, size in zip(first, second, shape, strict=True)
        ]
        return central_units(centers, self.shape(origin), count, in_time=shape[1] == 1)

    def stride(self, origin: Layer) -> float:
        """Positions of `origin` between neighboring units, along the rows."""
        return self.spans(origin, (1, 0))[0].center - self.spans(origin, (0, 0))[0].center


def central_units(
    centers: Sequence[Sequence[float]], sizes: Sequence[int], count: int, *, in_time: bool = False
) -> list[tuple[int, int]]:
    """Units as (row, column), symmetric about the middle of the units in the middle half of the source.

    They include the outermost units of the middle half, so that the offsets that they see reach far to every side. If
    the middle half has an even number of rows or columns of units, an even number of them is taken, so there may be
    fewer units than `count`. A single unit is the one nearest to the middle. `centers` are those of the rows and of the
    columns of units, in positions of the source, `sizes` its rows and columns. A layer in time has one column.
    """
    counts = (count, 1) if in_time else (max(floor(count**0.5), 1),) * 2
    rows, columns = map(symmetric, centers, sizes, counts)
    return [(row, column) for row in rows for column in columns]


def symmetric(centers: Sequence[float], size: int, count: int) -> list[int]:
    """At most `count` positions along one axis, symmetric within those in the middle half; at least one."""
    middle = (size - 1) / 2
    inside = [place for place, center in enumerate(centers) if abs(center - middle) <= size / 4 + 1e-6]
    if count == 1 or len(inside) < 2:
        return [min(range(len(centers)), key=lambda place: (round(abs(centers[place] - middle), 6), -place))]
    last = len(inside) - 1
    if last < count:
        return inside
    steps = [floor(number * last / (count - 1) + 0.5) for number in range(count // 2)]
    between = [last // 2] if count % 2 and last % 2 == 0 else []
    return [inside[step] for step in [*steps, *between, *(last - step for step in reversed(steps))]]


def shifted(span: Span, base: float, size: int, recentered: bool) -> slice:
    """Where a source of that size lies on the axis, if it is re-centered, for a unit with this theoretical field.

    `base` is the center of the first unit; the others are whole positions away, up to rounding.
    """
    center = min(max(floor(base) + round(span.center - base), 0), size - 1)
    start = size - 1 - center if recentered else 0
    return slice(start, start + size)


def inside(energy: Tensor, spans: Spans) -> Tensor:
    """A view of the part of a grid (B, R, W) that the spans cover."""
    rows, columns = (
        slice(int(max(span.low, 0)), int(min(span.high, size - 1)) + 1)
        for span, size in zip(spans, energy.shape[1:], strict=True)
    )
    return energy[:, rows, columns]
