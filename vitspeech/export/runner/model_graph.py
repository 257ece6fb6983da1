"""A graph of an exported folder, run by ONNX Runtime. The graph may come from somebody else, so all is checked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from vitspeech.export.runner.model_folder import MOST_GRAPH_BYTES, MOST_JSON_BYTES, regular
from vitspeech.json_text import parse_json

GRAPH = "model.onnx"
# Where tensors lie in the messages of onnx.proto: field -> message.
MESSAGES = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "function": {7: "node"},
    "training": {1: "graph", 2: "graph"},
}
FLOATS, TYPES = "tensor(float)", {"pixels": "tensor(uint8)"} | dict.fromkeys(("units", "symbols"), "tensor(int64)")


class Graph:
    """A graph of a folder, which is not trusted: its inputs, outputs and what it computes are those of its kind.

    Args:
        folder: Holds the graph.
        about: From `read_about`.
        file: Name of the graph.
        threads: Of ONNX Runtime; 0 takes all cores.
    """

    def __init__(self, folder: str | Path, about: Mapping[str, Any], file: str = GRAPH, threads: int = 0) -> None:
        import onnxruntime

        self.path, (self.inputs, self.outputs) = regular(folder, file, MOST_GRAPH_BYTES), shapes_of(about, file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4  # what it refuses is raised, too
        content, providers = self.path.read_bytes(), ["CPUExecutionProvider"]
        if names_files(content):
            raise ValueError(f"{self.path}: broken, or its weights are in another file")
        try:
            self.session = onnxruntime.InferenceSession(content, options, providers=providers)
        except Exception as error:  # onnxruntime's own classes
            version = onnxruntime.__version__
            raise ValueError(f"{self.path}: ONNX Runtime {version} refuses it: {first_line(error)}") from None
        noted = self.session.get_modelmeta().custom_metadata_map.get("vitspeech", "{}")[:MOST_JSON_BYTES]
        if parse_json(noted, str(self.path)) != {name: value for name, value in about.items() if name != "files"}:
            raise ValueError(f"{Path(folder) / 'model.json'}: altered; {file} says something else. Export again")
        inputs = {tensor.name: tensor for tensor in self.session.get_inputs()}
        tensors = inputs | {tensor.name: tensor for tensor in self.session.get_outputs()}
        if inputs.keys() != self.inputs.keys() or not all(
            name in tensors and tensors[name].type == TYPES.get(name, FLOATS) and fits(tensors[name].shape, shape)
            for name, shape in (self.inputs | self.outputs).items()
        ):
            raise ValueError(f"{self.path}: its inputs or outputs are not those of model.json")

    def run(self, names: Sequence[str], feeds: Mapping[str, numpy.ndarray]) -> list[numpy.ndarray]:
        """The outputs of these names."""
        try:
            computed = self.session.run(names, feeds)
        except Exception as error:  # onnxruntime's own classes
            raise ValueError(f"{self.path}: ONNX Runtime can't run it: {first_line(error)}") from None
        for name, array in zip(names, computed, strict=True):
            if not fits(array.shape, self.outputs[name]) or numpy.isnan(array).any():
                raise ValueError(f"{self.path}: computes {name} of another shape, or numbers that are not numbers")
        return computed


def names_files(content: bytes) -> bool:
    """Whether a graph (onnx.proto) has tensors in other files, which ONNX Runtime would read; true of a broken one."""
    waiting = [("model", memoryview(content))]
    try:
        while waiting:
            message, part = waiting.pop()
            place = 0
            while place < len(part):
                key, place = varint(part, place)
                field, kind = key >> 3, key & 7
                if (message, field) == ("tensor", 13) or key >> 32:  # external_data; readers cut longer keys
                    return True
                size, place = varint(part, place) if kind in (0, 2) else ({1: 8, 5: 4}[kind], place)
                if kind == 2 and field in MESSAGES.get(message, ()):
                    waiting.append((MESSAGES[message][field], part[place : place + size]))
                place += size if kind else 0
    except (IndexError, KeyError):
        return True
    return False


def varint(part: memoryview, place: int) -> tuple[int, int]:
    """A number of protobuf at a place, and the place after it."""
    value = 0
    for count in range(10):
        value |= (part[place + count] & 127) << 7 * count
        if part[place + count] < 128:
            return value, place + count + 1
    raise IndexError


def shapes_of(about: Mapping[str, Any], file: str) -> tuple[dict[str, tuple], dict[str, tuple]]:
    """The shapes of the inputs and of the outputs of a graph, in which `None` is any size."""
    kind, classes = about["kind"], len(about["labels"])
    if kind == "images":
        return {"pixels": (None, about["side"], about["side"], 3)}, {"probabilities": (None, classes)}
    if kind == "clips":
        return {"samples": (None, None)}, {"logits": (None, classes)}
    if kind == "stream":
        rows = None, classes + (about["task"] != "classification")  # and none, or the blank
        inputs = {"samples": (1, about["hop_samples"]), "valid": (1,), "state": (1, about["state_size"])}
        return inputs, {"logits": rows, "valid_out": (1,), "state_out": inputs["state"]}
    of_source = None, None, None, None, None
    if file == "decoder.onnx":
        inputs = {"units": (None,), "source": of_source, "cache": of_source}
        return inputs, {"log_probs": (None, classes + 1), "cache_out": of_source}
    return {"symbols" if "symbols" in about else "samples": (1, None)}, {"source": of_source, "cache": of_source}


def fits(shape: Sequence[Any], wanted: Sequence[int | None]) -> bool:
    """Whether a shape, in which texts are sizes that may vary, is the wanted one."""
    return len(shape) == len(wanted) and all(
        size == other or other is None or isinstance(size, str) for size, other in zip(shape, wanted, strict=True)
    )


def first_line(error: Exception) -> str:
    """The first line of an error, cut where it is long."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
