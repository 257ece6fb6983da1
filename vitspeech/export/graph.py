"""From a module to one ONNX graph without a trace of the machine that made it."""

import ast
import contextlib
import io
import logging
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn

from vitspeech.errors import InputError, MissingExtraError

SCOPES = "pkg.torch.onnx.name_scopes"
OPSET = 18  # the lowest that has all operators that are used


def to_onnx(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    dynamic: Mapping[str, Mapping[int, str]] = MappingProxyType({}),
) -> "onnx.ModelProto":  # noqa: F821
    """Export a module in evaluation mode.

    Args:
        module: Takes the inputs by position and returns the outputs.
        inputs: An example of each input, by name.
        outputs: Names of the outputs.
        dynamic: The dimensions of inputs that may have any size: input -> {dimension: name}. All others are fixed.

    Raises:
        MissingExtraError: If the extra `export` is not installed.
        InputError: If an operation of the module has no counterpart in ONNX; it and its layer are named.
    """
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch.onnx needs it)
    except ImportError:
        raise MissingExtraError("an export needs ONNX: pip install 'vitspeech[export]'") from None
    names = {name for sizes in dynamic.values() for name in sizes.values()}
    dims = {name: torch.export.Dim(name, min=1) for name in names}
    shapes = tuple({at: dims[name] for at, name in dynamic.get(each, {}).items()} or None for each in inputs)
    with quiet():
        try:
            program = torch.onnx.export(
                module,
                tuple(inputs.values()),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_shapes=shapes if dynamic else None,
                custom_translation_table={torch.ops.aten.adaptive_max_pool2d.default: global_max},
                verbose=False,
            )
        except Exception as error:
            raise InputError(f"{type(module).__name__} has no ONNX graph: {cause(error)}") from error
    stream = io.BytesIO()
    onnx.save(program.model_proto, stream)
    graph = onnx.load_from_string(stream.getvalue())
    name_nodes(graph)
    strip(graph)
    return graph


def global_max(images, output_size):
    """`nn.AdaptiveMaxPool2d(1)`, which the exporter does not know, and indices that nobody uses."""
    from onnxscript import opset18 as op

    if list(output_size) != [1, 1]:
        raise ValueError(f"AdaptiveMaxPool2d({list(output_size)})")
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


def cause(error: BaseException) -> str:
    """The first line of the innermost error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


@contextlib.contextmanager
def quiet():
    """Silence the exporter's progress lines, which go to the terminal, and its warnings about its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        logger.setLevel(level)
