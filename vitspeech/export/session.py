"""Sessions of ONNX Runtime."""

from typing import Any

from vitspeech.errors import InputError, MissingExtraError


def session(graph: bytes) -> Any:
    """An ONNX Runtime session on one thread of the CPU.

    Raises:
        MissingExtraError: If ONNX Runtime is not installed.
        InputError: If it cannot run the graph.
    """
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("an export needs ONNX Runtime: pip install 'vitspeech[export]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"ONNX Runtime refuses the graph: {str(error).splitlines()[0]}") from None
