"""The support that one unit of a layer could use: kernels, strides and padding, windows of attention, or everything.

The field of a stack of convolutions follows from its kernels, strides and padding (Araujo, Norris and Sim 2019,
doi:10.23915/distill.00021); paths that meet have the union of their fields. What was run is read from the autograd
graph, so that a network need not be a known one. What mixes places without being listed in `RULES` counts as if it
did not: `effective.py` therefore checks the support of every gradient against this one.

Shapes: B batch, C channels, R rows, W columns. Of speech, rows are moments and there is one column.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf

from torch import Tensor, nn
from torch.autograd.graph import Node

from vitspeech.attention import MultiHeadAttention
from vitspeech.frontends import LinearPatches
from vitspeech.frontends.frames import StackedFrames
from vitspeech.receptive.fields.graph import backwards, inputs_of, node_of


@dataclass(frozen=True)
class Span:
    """What a unit sees along one axis, in places of what it is traced back to; beyond an image's side is padding.

    Args:
        low: First place; −inf is everything before.
        high: Last place; inf is everything after.
        center: Where the unit itself lies, whatever it attends to.
    """

    low: float
    high: float
    center: float

    @property
    def size(self) -> float:
        """How many places there are."""
        return self.high - self.low + 1

    def moved(self, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> "Span":
        """Traced back through a convolution or a pooling."""
        reach = dilation * (kernel - 1)
        return Span(
            self.low * stride - padding,
            self.high * stride - padding + reach,
            self.center * stride - padding + reach / 2,
        )

    def widened(self, left: int | None, right: int | None) -> "Span":
        """Traced back through a window of attention; `None` is without a limit."""
        low = -inf if left is None else self.low - left
        return replace(self, low=low, high=inf if right is None else self.high + right)

    def joined(self, other: "Span") -> "Span":
        """What two paths see together."""
        return replace(self, low=min(self.low, other.low), high=max(self.high, other.high))


Spans = tuple[Span, Span]  # along the rows and along the columns
Rule = Callable[[Spans], Spans]


def everything(spans: Spans) -> Spans:
    """Every place, as in full attention or after a global pooling."""
    return tuple(span.widened(None, None) for span in spans)


def of_kernel(kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> Rule:
    """One number an axis; with a single axis, time, all columns (mel bins) have become channels."""

    def traced(spans: Spans) -> Spans:
        sizes = list(zip(kernel, stride, padding, dilation, strict=True))
        moved = [span.moved(*some) for span, some in zip(spans, sizes, strict=False)]
        return (moved[0], spans[1].widened(None, None) if len(sizes) == 1 else moved[1])

    return traced


def of_convolution(node: Node) -> Rule:
    """As its weight and its settings say."""
    kernel = node._saved_weight.shape[2:]
    return of_kernel(kernel, node._saved_stride, node._saved_padding, node._saved_dilation)


def of_pooling(node: Node) -> Rule:
    """As its settings say."""
    kernel = node._saved_kernel_size
    dilation = getattr(node, "_saved_dilation", [1] * len(kernel))
    # Without a stride of its own a pooling moves by its kernel.
    return of_kernel(kernel, node._saved_stride or kernel, node._saved_padding, dilation)


def of_padding(node: Node) -> Rule:
    """What is padded moves by as much; of several axes the columns are named first."""
    before = list(node._saved_pad[::2])[::-1]
    sides = [1] * len(before)
    return of_kernel(sides, sides, before, sides)


def of_mean(node: Node) -> Rule:
    """A mean over channels keeps places apart; over rows and columns, or over tokens, it does not."""
    dimensions = len(node._saved_self_sym_sizes)
    # Counted from the end they are stored as unsigned numbers.
    taken = {place - 2**64 if place > 2**63 else place for place in node._saved_dim or range(dimensions)}
    taken = {place % dimensions for place in taken}
    places = {2, 3} if dimensions == 4 else {1}
    return everything if taken & places else unchanged


def unchanged(spans: Spans) -> Spans:
    """What works on each place by itself."""
    return spans


RULES: dict[str, Callable[[Node], Rule]] = {
    "ConvolutionBackward": of_convolution,
    "MaxPool2DWithIndicesBackward": of_pooling,
    "AvgPool2DBackward": of_pooling,
    "ConstantPadNdBackward": of_padding,
    "MeanBackward1": of_mean,
} | dict.fromkeys(
    (
        "AdaptiveAvgPool2DBackward",
        "AdaptiveMaxPool2DBackward",
        "NativeGroupNormBackward",
        "RollBackward",
        "ScaledDotProduct",
        "SoftmaxBackward",
    ),
    lambda node: everything,
)


def rule_of(node: Node) -> Rule:
    """How a node's output is traced back to what it took."""
    return next((rule(node) for name, rule in RULES.items() if node.name().startswith(name)), unchanged)


def rule_of_module(module: nn.Module) -> Rule | None:
    """The same for modules of ours that say more of themselves than their operations do."""
    if isinstance(module, LinearPatches):
        patch = [module.patch] * 2
        return of_kernel(patch, patch, [0, 0], [1, 1])
    if isinstance(module, StackedFrames):
        return of_kernel([module.stride], [module.stride], [0], [1])
    if isinstance(module, MultiHeadAttention) and (module.left is not None or module.right is not None):
        return lambda spans: (spans[0].widened(module.left, module.right), spans[1].widened(None, None))
    return None


class Reader:
    """Reads theoretical fields from the graph of a forward pass that ran within `reading`."""

    def __init__(self) -> None:
        self.modules: dict[Node, tuple[Rule, Node]] = {}

    def field(self, output: Tensor, source: Tensor, place: tuple[int, int]) -> Spans | None:
        """What the unit at (row, column) of `output` could see of `source`; `None` if it does not depend on it.

        Both are counted in places of their own grids. A window over a picture's tokens in raster order counts as that
        many rows: more than it reaches, never less.
        """
        start, end = node_of(source), node_of(output)
        spans: dict[Node, Spans] = {end: tuple(Span(number, number, number) for number in place)}
        for node in backwards(end, start, self.edges):
            if node is start:
                return spans[node]
            rule = self.modules[node][0] if node in self.modules else rule_of(node)
            traced = rule(spans.pop(node))
            for taken in self.edges(node):
                if taken in spans:
                    spans[taken] = tuple(a.joined(b) for a, b in zip(spans[taken], traced, strict=True))
                elif taken is not None:
                    spans[taken] = traced
        return None

    def edges(self, node: Node) -> list[Node | None]:
        """What a node took; a module with a rule of its own took its input."""
        return [self.modules[node][1]] if node in self.modules else inputs_of(node)

    def note(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """A forward hook: remember a module that has a rule of its own."""
        rule = rule_of_module(module)
        if rule is not None and inputs[0].requires_grad:
            self.modules[node_of(output)] = (rule, node_of(inputs[0]))


@contextmanager
def reading(network: nn.Module) -> Iterator[Reader]:
    """Within it a forward pass of the network can be read by the `Reader` afterwards."""
    reader = Reader()
    handles = [module.register_forward_hook(reader.note) for module in network.modules() if rule_of_module(module)]
    try:
        yield reader
    finally:
        for handle in handles:
            handle.remove()
