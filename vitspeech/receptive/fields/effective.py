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

from collections.abc import Callable, Iterator, Sequence
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
BATCH = 32  # inputs in a pass; fewer if they are large, since the graph of a pass is kept for all of its layers
BATCH_VALUES = 2**20  # of all inputs in a pass
GROUP_VALUES = 2**25  # of all inputs, times the number of layers whose fields are held at a time


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
    cumulative_only: bool = False,
) -> list[LayerFields]:
    """The effective receptive fields of layers, given in the order in which the network runs them.

    Args:
        network: In evaluation mode.
        inputs: The network's input (B, …); the estimate improves with their number.
        layers: Any modules whose outputs fit a grid.
        source: The layer with respect to which gradients are taken; `None` is the input, an image (B, C, N, N).
        probe_units: Highest number of units measured in each layer.
        cumulative_only: Measure only the field in the source with shortcuts, which takes half the time.

    Raises:
        InputError: If there are fewer than two inputs, a layer is missing or does not fit a grid, or a layer does not
            depend on the source.
    """
    source = Layer(INPUT) if source is None else source
    return list(iterate_fields(network, inputs, layers, source, probe_units, cumulative_only=cumulative_only))


def iterate_fields(
    network: nn.Module,
    inputs: Tensor,
    layers: Sequence[Layer],
    source: Layer,
    probe_units: int = PROBE_UNITS,
    *,
    cumulative_only: bool,
    for_numbers: bool = False,
    progress: Callable[[float], None] = lambda part: None,
) -> Iterator[LayerFields]:
    """`effective_fields` one by one, of which a few are in memory at a time.

    With `for_numbers` the field in the source without shortcuts is that of the last layer only, and fields are trimmed.
    `progress` gets the fraction of the work that was done since it was last called.
    """
    if len(inputs) < 2:
        raise InputError(f"{len(inputs)} input: an estimate with an interval needs at least 2")
    generator = torch.Generator().manual_seed(0)
    chain = list(pairwise([source, *layers]))
    work = passes(len(layers), cumulative_only=cumulative_only)
    batch_size = max(min(BATCH_VALUES // inputs[0].numel(), BATCH), 1)
    group_size = max(GROUP_VALUES // inputs.numel(), 1)
    strides, known = {0: 1.0}, {}
    for first in range(0, len(layers), group_size):
        group = range(first, min(first + group_size, len(layers)))
        recorded = [source, *(layer for number in group for layer in chain[number])]
        batches: list[list[LayerFields]] = []
        for batch in inputs.split(batch_size):
            with differentiable_recurrence(network), torch.enable_grad():
                reader, outputs = run(network, batch, source, recorded)
            measured: list[LayerFields] = []
            for number in group:
                before, layer = chain[number]
                probe = LayerProbe(reader, outputs, layer, generator, known)
                units = probe.central_units(source, probe_units)
                if cumulative_only or not number:
                    (cumulative,) = probe.fields([source], units)
                    block = None if cumulative_only else cumulative
                else:
                    cumulative, block = probe.fields([source, before], units)
                cut = block_cut = None
                if not cumulative_only:
                    if not for_numbers or number in (0, len(layers) - 1):
                        (cut,) = probe.fields([source], units, cut=True)
                    block_cut = probe.fields([before], units, cut=True)[0] if number else cut
                strides[number + 1] = probe.stride(source)
                fields = (cumulative, cut, block, block_cut)
                fields = [field.trimmed() if field and for_numbers else field for field in fields]
                shape = (layer, probe.shape(layer), strides[number + 1])
                measured.append(LayerFields(*shape, *fields, strides[number]))
                progress(work[number] / sum(work) * len(batch) / len(inputs))
            batches.append(measured)
            del probe, outputs, reader  # the graph
        while batches[0]:
            yield merge_batches([measured.pop(0) for measured in batches])


def passes(layers: int, *, cumulative_only: bool) -> list[float]:
    """About how often the network runs backward, or forward, to measure each of that many layers."""
    depths = [number / layers for number in range(1, layers + 1)]
    if cumulative_only:
        return [PROBE_UNITS * depth for depth in depths]
    return [PROBE_UNITS * (depth + 1 / layers + (depth == 1)) for depth in depths]


def run(
    network: nn.Module, batch: Tensor, source: Layer, recorded: Sequence[Layer]
) -> tuple[GraphReader, dict[str, Tensor]]:
    """Run the network on a batch: the reader of the graph, and the outputs of the recorded layers by their names."""
    # The reader's hooks run first: they must get a module's own output, not the copy made by `record_outputs`.
    with read_graph(network) as reader, record_outputs(network, [layer.name for layer in recorded]) as outputs:
        if source.name == INPUT:
            batch = batch.detach().requires_grad_()
            outputs[INPUT] = batch
        network(batch)
    return reader, outputs


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
    """Measures one layer after a forward pass; see `effective_fields`.

    `known` keeps the theoretical fields that were read, which are the same in every batch.
    """

    reader: GraphReader
    outputs: dict[str, Tensor]
    layer: Layer
    generator: torch.Generator
    known: dict[tuple, Spans | None]

    def fields(
        self, origins: Sequence[Layer], units: list[tuple[int, int]], *, cut: bool = False
    ) -> list[Field | None]:
        """The field in each origin; with `cut` without residual shortcuts, `None` if there are none.

        All origins take the same passes. With `cut` there is one.
        """
        output, sources = self.outputs[self.layer.name], [self.outputs[origin.name] for origin in origins]
        shortcuts = residual_shortcuts(output, sources[0], self.reader.edges) if cut else []
        if cut and not shortcuts:
            return [None]
        grid, energies = self.layer.grid(output), [[] for _ in origins]
        with cut_shortcuts(shortcuts):
            for row, column in units:
                signs = torch.randint(0, 2, grid.shape[:2], generator=self.generator).to(grid) * 2 - 1
                projection = (signs * grid[:, :, row, column]).sum()
                gradients = torch.autograd.grad(projection, sources, retain_graph=True, materialize_grads=True)
                for origin, gradient, of_units in zip(origins, gradients, energies, strict=True):
                    of_units.append(origin.grid(gradient).square().sum(1).cpu())
        fields = []
        for origin, of_units in zip(origins, energies, strict=True):
            # Some networks multiply their branches by zero before training; nothing is then left of a cut field.
            has_gradient = any(energy.any() for energy in of_units)
            if not has_gradient and not cut:
                name = origin.name or "the input"
                raise InputError(f"layer {self.layer.name!r} does not depend on {name}: no gradient")
            fields.append(self.mean_field(origin, units, of_units) if has_gradient else None)
        return fields

    def mean_field(self, origin: Layer, units: list[tuple[int, int]], energies: Sequence[Tensor]) -> Field:
        """The mean over units, each shifted to the same center, of the energy (B, R, W) that each has in `origin`."""
        spans = [self.spans(origin, unit) for unit in units]
        unread = any(self.read(origin, unit) is None for unit in units)
        base, shape = tuple(span.center for span in spans[0]), self.shape(origin)
        moves = (True, not (origin.in_time and shape[1] > 1))
        sides = [2 * size - 1 if moved else size for size, moved in zip(shape, moves, strict=True)]
        summed, seen, total, outside = torch.zeros(len(energies[0]), *sides), torch.zeros(*sides), 0.0, 0.0
        for energy, of_unit in zip(energies, spans, strict=True):
            place = tuple(map(shifted, of_unit, base, shape, moves))
            seen[place] += 1
            summed[:, *place] += energy
            total += float(energy.sum())
            inside(energy, of_unit).zero_()
            outside += float(energy.sum())
        rows, columns = (
            torch.arange(side) - ((size - 1) + (center - floor(center)) if moved else 0.0)
            for side, size, center, moved in zip(sides, shape, base, moves, strict=True)
        )
        relative = tuple(Span(span.low - span.center, span.high - span.center, 0) for span in spans[0])
        places, share_outside = (rows, columns, relative, units, base), outside / max(total, 1e-300)
        field = Field(summed, seen / len(units), *places, share_outside, unread)
        return replace(field, energy=summed / seen.clamp(min=1) * field.counted)

    def shape(self, layer: Layer) -> tuple[int, int]:
        """Rows and columns of a layer."""
        return tuple(layer.grid(self.outputs[layer.name]).shape[2:])

    def everything(self, origin: Layer, unit: tuple[int, int]) -> Spans:
        """All of `origin`, around the place of the unit."""
        sizes = zip(unit, self.shape(self.layer), self.shape(origin), strict=True)
        return tuple(Span(-inf, inf, (number + 0.5) * there / here - 0.5) for number, here, there in sizes)

    def read(self, origin: Layer, unit: tuple[int, int]) -> Spans | None:
        """The unit's theoretical field in `origin`; `None` where the graph can't be read."""
        key = (self.layer.name, origin.name, unit)
        if key not in self.known:
            self.known[key] = self.read_anew(origin, unit)
        return self.known[key]

    def read_anew(self, origin: Layer, unit: tuple[int, int]) -> Spans | None:
        """As `read`, from the graph."""
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
