"""What graphs have in common: how a model is exported, from a module to an ONNX graph, and sessions that run it."""

import ast
import contextlib
import io
import logging
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from vitspeech.errors import InputError, MissingExtraError

SCOPES = "pkg.torch.onnx.name_scopes"
OPSET = 18  # the lowest that has all operators that are used
SEED = 20_261_122  # of synthesized inputs


@dataclass
class Graph:
    """A module in evaluation mode, to be exported.

    Args:
        module: Takes the inputs by position and returns the outputs.
        inputs: An example of each input, by name.
        outputs: Names of the outputs.
        dynamic: The dimensions of inputs that may have any size: input -> {dimension: name}. Dimensions of the same
            name have the same size. All others are fixed.
    """

    module: nn.Module
    inputs: Mapping[str, Tensor]
    outputs: Sequence[str]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


@dataclass
class ExportSpec:
    """How a model is exported.

    Args:
        name: `images`, `clips`, `stream` or `encoder-decoder`.
        graphs: By the name of their file.
        compare: Compares sessions of ONNX Runtime, by file, with the network; returns what `parity.compare` does.
        metadata: What a caller must know.
        fallback: How it is exported if this fails.
    """

    name: str
    graphs: Mapping[str, Graph]
    compare: Callable[[Mapping[str, Any]], dict[str, float]]
    metadata: dict[str, Any]
    fallback: "ExportSpec | None" = None


def generator() -> torch.Generator:
    """The random numbers of synthesized inputs."""
    return torch.Generator().manual_seed(SEED)


def session(graph: bytes) -> Any:
    """An ONNX Runtime session on one thread of the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"ONNX Runtime refuses the graph: {str(error).splitlines()[0]}") from None


def to_onnx(graph: Graph) -> "onnx.ModelProto":  # noqa: F821
    """Export a module, without a trace of the machine that does it."""
    module, inputs = graph.module, tuple(graph.inputs.values())
    if torch.__version__ < (2, 11):  # earlier ones write graphs that ONNX Runtime refuses, or of one length
        raise InputError(f"an export needs torch 2.11 or later; this is {torch.__version__}")
    try:
        import onnx  # noqa: F401  (the class of the graph)
        import onnxruntime  # noqa: F401  (runs the graph)
        import onnxscript  # noqa: F401  (torch.onnx needs it)
    except ImportError:
        raise MissingExtraError("an export needs ONNX: pip install 'vitspeech[export]'") from None
    check_outputs(module, inputs, len(graph.outputs))
    shapes = tuple(dict(graph.dynamic.get(name, {})) or None for name in graph.inputs)
    with quiet():
        try:
            program = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                opset_version=OPSET,
                input_names=list(graph.inputs),
                output_names=list(graph.outputs),
                dynamic_shapes=shapes if graph.dynamic else None,
                custom_translation_table={torch.ops.aten.adaptive_max_pool2d.default: global_max},
                verbose=False,
            )
        except Exception as error:
            raise InputError(
                f"{name_of(module)} can't be exported: {cause(error, module)}; nothing is written"
            ) from error
    exported = program.model_proto
    name_nodes(exported)
    strip(exported)
    return exported


def global_max(images, output_size):
    """`nn.AdaptiveMaxPool2d(1)`, which the exporter does not know, and indices that nobody uses."""
    from onnxscript import opset18 as op

    if list(output_size) != [1, 1]:
        raise ValueError(f"aten.adaptive_max_pool2d to {list(output_size)} has no ONNX counterpart")
    largest = op.ReduceMax(images, op.Constant(value_ints=[-2, -1]), keepdims=1)
    return largest, op.Cast(largest, to=7)


def name_nodes(model: "onnx.ModelProto") -> None:  # noqa: F821
    """Name each node by its layer, as in `network.encoder.blocks.0.attention.query/MatMul`."""
    counts: Counter[str] = Counter()
    for node in model.graph.node:
        scopes = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "[]")
        layers = ast.literal_eval(scopes)[:-1]  # the last one is the operation
        name = f"{layers[-1] if layers else ''}/{node.op_type}"
        counts[name] += 1
        node.name = name if counts[name] == 1 else f"{name}_{counts[name]}"


def strip(model: "onnx.ModelProto") -> None:  # noqa: F821
    """Remove what the exporter notes about its own run: paths of source files, module names, intermediate shapes."""
    del model.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""
    del model.graph.value_info[:]
    values = (*model.graph.input, *model.graph.output, *model.graph.initializer)
    for part in (*model.graph.node, *values, *model.functions, *(node for f in model.functions for node in f.node)):
        part.doc_string = ""
        del part.metadata_props[:]


def name_of(module: nn.Module) -> str:
    """The class of the network that a module runs, or of the module itself."""
    return type(getattr(module, "network", module)).__name__


def check_outputs(module: nn.Module, inputs: Sequence[Tensor], count: int) -> None:
    """Refuse a module that does not return that many tensors."""
    with torch.no_grad():
        outputs = module(*inputs)
    outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
    kinds = [type(output).__name__ for output in outputs]
    if len(kinds) != count or not all(isinstance(output, Tensor) for output in outputs):
        wanted = "a tensor" if count == 1 else f"{count} tensors"
        raise InputError(f"{name_of(module)} can't be exported: it returns {', '.join(kinds)}, not {wanted}")


def cause(error: BaseException, module: nn.Module) -> str:
    """Why the export of a module failed, in one line, with the layer if it is known."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    operator = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(chain[-1]))
    where = layer(chain, module)
    if operator:
        return f"{operator[1]}{where} has no ONNX counterpart"
    if any("DataDependent" in type(each).__name__ for each in chain):
        return f"the control flow{where} depends on values of the input, which a graph can't express"
    lines = str(chain[-1]).strip().splitlines() or [type(chain[-1]).__name__]
    return f"{lines[0]}{where}"


def layer(chain: Sequence[BaseException], module: nn.Module) -> str:
    """The innermost layer that some errors passed on their way, such as " in encoder.blocks.2 (EncoderBlock)", or "".

    An error of tracing passes the methods of layers, one of translation a function whose `node` knows its layers.
    """
    names = {each: name for name, each in module.named_modules() if name}
    names |= {each: name for name, each in getattr(module, "network", nn.Module()).named_modules() if name}
    by_path = dict(module.named_modules())
    found = None
    for error in chain:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            node, owner = frame.f_locals.get("node"), frame.f_locals.get("self")
            if isinstance(node, torch.fx.Node):
                paths = [path.removeprefix("L['self'].") for path, _ in node.meta.get("nn_module_stack", {}).values()]
                inner = [by_path[path] for path in paths if by_path.get(path) in names]
                found = inner[-1] if inner else found
            elif isinstance(owner, nn.Module) and owner in names:
                found = owner
    return "" if found is None else f" in {names[found]} ({type(found).__name__})"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporter's progress lines, its warnings about its own deprecations, and its logs of failures."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        silent = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            for category in (FutureWarning, DeprecationWarning, UserWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        logging.disable(disabled)
