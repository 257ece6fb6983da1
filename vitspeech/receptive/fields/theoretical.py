"""The theoretical receptive field of a unit: kernels, strides and padding, attention windows, or the whole input.

The field of a stack of convolutions follows from its kernels, strides and padding (Araujo, Norris and Sim 2019,
doi:10.23915/distill.00021). Where paths meet, the field is the union of their fields. The operations are read from the
autograd graph, so any network can be analyzed. An operation that mixes positions but is not in `RULES` is treated as
if it worked on each position separately. `effective.py` detects this: it checks that the gradients vanish outside the
theoretical field.

Shapes: B batch, C channels, R rows, W columns. For audio, rows are times and there is one column.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import Node

from vitspeech.attention import ConvolutionModule, MultiHeadAttention
from vitspeech.encoders.window_mlp import Window
from vitspeech.frontends import LinearPatches
from vitspeech.frontends.frames import StackedFrames
from vitspeech.receptive.fields.graph import backward_order, inputs_of, node_of


@dataclass(frozen=True)
class Span:
    """A unit's theoretical field along one axis, in positions of the source; those outside the image are padding."""

    low: float  # first position; −inf is unlimited
    high: float  # last position; inf is unlimited
    center: float  # position of the unit itself, whatever it attends to

    @property
    def size(self) -> float:
        """Number of positions."""
        return self.high - self.low + 1

    def through_kernel(self, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> "Span":
        """The span at the input of a convolution or pooling."""
        width = dilation * (kernel - 1)
        return Span(
            self.low * stride - padding,
            self.high * stride - padding + width,
            self.center * stride - padding + width / 2,
        )

    def through_window(self, left: int | None, right: int | None) -> "Span":
        """The span at the input of windowed attention; `None` is unlimited."""
        low = -inf if left is None else self.low - left
        return replace(self, low=low, high=inf if right is None else self.high + right)

    def union(self, other: "Span") -> "Span":
        """The smallest span that covers this one and another; the center stays."""
        return replace(self, low=min(self.low, other.low), high=max(self.high, other.high))


Spans = tuple[Span, Span]  # along the rows and along the columns
Rule = Callable[[Spans], Spans]  # from an operation's output to its input


def everything(spans: Spans) -> Spans:
    """Every position, as for full attention or global pooling."""
    return tuple(span.through_window(None, None) for span in spans)


def unchanged(spans: Spans) -> Spans:
    """The same positions, as for operations on each position separately."""
    return spans


def kernel_rule(kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> Rule:
    """The rule of a kernel with one value per axis; with a single axis, time, the columns (mel bins) are channels."""

    def rule(spans: Spans) -> Spans:
        settings = list(zip(kernel, stride, padding, dilation, strict=True))
        inputs = [span.through_kernel(*setting) for span, setting in zip(spans, settings, strict=False)]
        return (inputs[0], spans[1].through_window(None, None) if len(settings) == 1 else inputs[1])

    return rule


def convolution_rule(node: Node) -> Rule:
    """From the node's weight and settings."""
    kernel = node._saved_weight.shape[2:]
    return kernel_rule(kernel, node._saved_stride, node._saved_padding, node._saved_dilation)


def pooling_rule(node: Node) -> Rule:
    """From the node's settings. Pooling in time is pooling of images, to which an axis of one row was added before."""
    kernel = node._saved_kernel_size
    dilation = getattr(node, "_saved_dilation", [1] * len(kernel))
    # The stride of a pooling defaults to its kernel.
    settings = kernel, node._saved_stride or kernel, node._saved_padding, dilation
    before = node.next_functions[0][0]
    in_time = len(kernel) == 2 and kernel[0] == 1 and before is not None and before.name().startswith("Unsqueeze")
    return kernel_rule(*(setting[1:] if in_time else setting for setting in settings))


def padding_rule(node: Node) -> Rule:
    """Padding shifts positions; PyTorch lists the last axis, the columns, first."""
    pad = node._saved_pad if hasattr(node, "_saved_pad") else node._saved_padding  # of zeros, or of the input
    before = list(pad[::2])[::-1]
    ones = [1] * len(before)
    return kernel_rule(ones, ones, before, ones)


def mean_rule(node: Node) -> Rule:
    """A mean over channels keeps positions separate; a mean over rows and columns, or over tokens, mixes them."""
    dimensions = len(node._saved_self_sym_sizes)
    # Negative axes are stored as unsigned numbers.
    axes = {axis - 2**64 if axis > 2**63 else axis for axis in node._saved_dim or range(dimensions)}
    axes = {axis % dimensions for axis in axes}
    position_axes = {2, 3} if dimensions == 4 else {1}
    return everything if axes & position_axes else unchanged


RULES: dict[str, Callable[[Node], Rule]] = {
    "ConvolutionBackward": convolution_rule,
    "MaxPool2DWithIndicesBackward": pooling_rule,
    "AvgPool2DBackward": pooling_rule,
    "ConstantPadNdBackward": padding_rule,
    "ReflectionPad": padding_rule,
    "ReplicationPad": padding_rule,
    "MeanBackward1": mean_rule,
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
    """The rule of an operation, from its name."""
    return next((rule(node) for name, rule in RULES.items() if node.name().startswith(name)), unchanged)


def rule_of_module(module: nn.Module) -> Rule | None:
    """The rule of recurrent layers, and of our modules whose field does not follow from their operations; or `None`."""
    if isinstance(module, LinearPatches):
        patch = [module.patch] * 2
        return kernel_rule(patch, patch, [0, 0], [1, 1])
    if isinstance(module, StackedFrames):
        return kernel_rule([module.stride], [module.stride], [0], [1])
    if isinstance(module, nn.RNNBase):
        ahead = None if module.bidirectional else 0
        return lambda spans: (spans[0].through_window(None, ahead), spans[1].through_window(None, None))
    # The kernels of convolutions over a window are not centered on the token, unless they are symmetric.
    if isinstance(module, Window | ConvolutionModule | MultiHeadAttention):
        return lambda spans: (spans[0].through_window(module.left, module.right), spans[1].through_window(None, None))
    return None


class GraphReader:
    """Reads theoretical fields from the graph of a forward pass that ran within `read_graph`."""

    def __init__(self) -> None:
        self.modules: dict[Node, tuple[Rule, Node]] = {}

    def field(self, output: Tensor, source: Tensor, position: tuple[int, int]) -> Spans | None:
        """The field in `source` of the unit at (row, column) of `output`; `None` if it does not depend on the source.

        Positions are counted on the grids of the two tensors. An attention window over image tokens in raster order
        counts as that number of rows, which is an upper bound.
        """
        start, end = node_of(source), node_of(output)
        spans: dict[Node, Spans] = {end: tuple(Span(number, number, number) for number in position)}
        for node in backward_order(end, start, self.edges):
            if node is start:
                return spans[node]
            rule = self.modules[node][0] if node in self.modules else rule_of(node)
            input_spans = rule(spans.pop(node))
            for parent in self.edges(node):
                if parent in spans:
                    spans[parent] = tuple(a.union(b) for a, b in zip(spans[parent], input_spans, strict=True))
                elif parent is not None:
                    spans[parent] = input_spans
        return None

    def edges(self, node: Node) -> list[Node | None]:
        """The inputs of a node; for the output of a module with a rule of its own, the module's input."""
        return [self.modules[node][1]] if node in self.modules else inputs_of(node)

    def register(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        """A forward hook that registers a module with a rule of its own; the state of a recurrent layer is left out."""
        sources = (*inputs[1:], options.get("source")) if isinstance(module, MultiHeadAttention) else ()
        if any(source is not None for source in sources):
            return  # attention to another sequence has two inputs, which its operations tell
        rule = rule_of_module(module)
        output = output[0] if isinstance(output, tuple) else output
        # Packed sequences are not tensors; their padding has no place on a grid.
        if rule is not None and isinstance(inputs[0], Tensor) and inputs[0].requires_grad:
            self.modules[node_of(output)] = (rule, node_of(inputs[0]))


@contextmanager
def read_graph(network: nn.Module) -> Iterator[GraphReader]:
    """A context in which forward passes of the network can be read by the `GraphReader` afterwards."""
    reader = GraphReader()
    with ExitStack() as hooks:
        for module in filter(rule_of_module, network.modules()):
            hooks.enter_context(module.register_forward_hook(reader.register, with_kwargs=True))
        yield reader
