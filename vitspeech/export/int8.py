"""Weights in 8 bits: a smaller graph, which is only accepted if it is about as accurate on a data set.

Linear layers are quantized dynamically: the scale of their inputs is computed at run time. A network whose only
linear layer is its head is quantized statically: the scales of its convolutions are calibrated on validation data. The
front end stays in float: log-mel features and patches lose most (docs/export.md).

`GraphNetwork` puts a graph in place of a network, so that what evaluates networks measures both graphs.

Shapes: B batch, N samples, T tokens, C classes, S side of an image.
"""

import itertools
import platform
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy
import torch
from lightning import LightningDataModule
from torch import Tensor, nn

from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.errors import InputError
from vitspeech.export.graphs import ExportSpec, quiet, session, strip
from vitspeech.export.speech import steps
from vitspeech.export.stream_step import TokenStep
from vitspeech.frontends import ConvolutionalPatches, LinearPatches, SpeechFrontend, WhitenedPatches
from vitspeech.tasks import find_task

if TYPE_CHECKING:
    from onnx import ModelProto

ALLOWED = 0.005  # accuracy that quantization may cost: half a point
CALIBRATED = 8  # batches of validation data that choose the scales of convolutions
RUNS, WARM_UP = 50, 5  # of a timing
FRONT_ENDS = (ConvolutionalPatches, LinearPatches, WhitenedPatches, SpeechFrontend, TokenStep)
FILE = "model.onnx"
LINEAR = ("MatMul", "Gemm")  # operators of linear layers


class GraphNetwork(nn.Module):
    """The network of a model, whose `forward` is computed by ONNX Runtime.

    Args:
        network: The network that was exported; its attributes are those of this module.
        spec: How it was exported: `images`, `clips` or `stream`.
        running: The session of its graph.

    Shape:
        What the network takes and returns. A batch of waveforms is streamed one by one.
    """

    def __init__(self, network: nn.Module, spec: ExportSpec, running: Any) -> None:
        super().__init__()
        self.network, self.spec, self.session = network, spec, running

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("network"), name)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        if self.spec.name == "images":
            return self.run(pixels=self.pixels(inputs)).log()
        if self.spec.name == "clips":
            return self.run(samples=inputs)
        rows = self.rows(inputs, lengths)
        if self.spec.metadata["task"] == "classification":
            return torch.stack([row.mean(0) for row in rows])
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])

    def run(self, **inputs: Tensor) -> Tensor:
        """The first output of the graph."""
        feeds = {name: numpy.ascontiguousarray(tensor.numpy()) for name, tensor in inputs.items()}
        return torch.from_numpy(self.session.run(None, feeds)[0])

    def pixels(self, images: Tensor) -> Tensor:
        """The pixels of normalized images: (B, 3, S, S) -> uint8 (B, S, S, 3)."""
        mean, std = (torch.tensor(self.spec.metadata[name]).view(-1, 1, 1) for name in ("mean", "std"))
        return (255 * (images * std + mean)).round().clamp(0, 255).to(torch.uint8).movedim(1, 3)

    def rows(self, waveforms: Tensor, lengths: Tensor | None) -> list[Tensor]:
        """The logits of each waveform as a stream: (B, N), (B,) or None -> B tensors (T, C)."""
        ends = [waveforms.shape[1]] * len(waveforms) if lengths is None else lengths.tolist()
        step = self.spec.graphs[FILE].module
        return [
            torch.from_numpy(steps(self.session, step, samples[:end].numpy()))
            for samples, end in zip(waveforms, ends, strict=True)
        ]


def to_int8(
    model: Model, spec: ExportSpec, graph: "ModelProto", root: str | None
) -> tuple["ModelProto", dict[str, Any]]:
    """Quantize a graph in fp32, and measure both on the test set that the model's card names, in the folder `root`.

    Returns:
        The graph, and what `model.json` says about it. It is an `InputError` if accuracy falls by more than `ALLOWED`.
    """
    if spec.name not in ("images", "clips", "stream"):
        raise InputError(f"--int8 is for classifiers, labelers and CTC, not for a model of the kind {spec.name}")
    data = card_dataset(model, root)
    quantized = quantize(graph, spec, data)
    before, after = (measured(model, spec, each.SerializeToString(), data) for each in (graph, quantized))
    metric = next(iter(before))
    fall = before[metric] - after[metric]
    if (-fall if metric.endswith("_rate") else fall) > ALLOWED + 1e-9:  # error rates of words or characters rise
        change = f"{metric} from {before[metric]:.4f} to {after[metric]:.4f}"
        raise InputError(f"--int8 changes {change}, by more than {ALLOWED}: nothing is written; export without --int8")
    report = {"fp32": before, "int8": after}
    if after["milliseconds"] >= before["milliseconds"]:
        report["note"] = f"8 bits are not faster than fp32 on this machine ({platform.machine()})"
    return quantized, report


def measured(model: Model, spec: ExportSpec, graph: bytes, data: LightningDataModule) -> dict[str, float]:
    """The main metric, `bytes`, and median `milliseconds` of one input (an image, a clip, or a step) on one core."""
    running = session(graph)
    search = Search(**model.card.get("metrics", {}).get("search", {}))
    network = GraphNetwork(model.network, spec, running).eval()
    name, value = find_task(model.task, model.trust).evaluate(network, data, search=search).headline
    feeds, times = {name: tensor[:1].numpy() for name, tensor in spec.graphs[FILE].inputs.items()}, []
    for _ in range(WARM_UP + RUNS):
        start = time.perf_counter()
        running.run(None, feeds)
        times.append(1000 * (time.perf_counter() - start))
    return {name: value, "bytes": len(graph), "milliseconds": median(times[WARM_UP:])}


def quantize(graph: "ModelProto", spec: ExportSpec, data: LightningDataModule) -> "ModelProto":
    """A graph whose linear layers, or else convolutions, have weights of 8 bits, except in the front end."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static

    front = front_ends(spec.graphs[FILE].module)
    constants = {tensor.name for tensor in graph.graph.initializer}
    weighted = [node for node in graph.graph.node if len(node.input) > 1 and node.input[1] in constants]
    weighted = [node for node in weighted if not node.name.startswith(front)]
    # A Gemm becomes a product, which is quantized, and a sum; onnxruntime.quantization names the product so.
    linear = [node.name + "_MatMul" * (node.op_type == "Gemm") for node in weighted if node.op_type in LINEAR]
    convolutions = [node.name for node in weighted if node.op_type == "Conv"]
    is_linear = len(linear) > 1 or not convolutions  # of a network of convolutions the head alone is not worth it
    inner = convolutions if front else convolutions[1:]  # without a front end, the first reads the pixels
    nodes = linear if is_linear else inner
    options = {"per_channel": True, "nodes_to_quantize": nodes}
    if not nodes:
        raise InputError("--int8: the network has neither linear layers nor convolutions to quantize")
    with tempfile.TemporaryDirectory() as folder, quiet():
        made = Path(folder, "int8.onnx")
        if is_linear:
            # Sums of unsigned inputs times signed weights overflow on x86 without VNNI; unsigned weights do not.
            options |= {"op_types_to_quantize": ["MatMul"], "weight_type": QuantType.QUInt8}
            quantize_dynamic(graph, made, **options)
        else:
            reader = SimpleNamespace(get_next=partial(next, calibration(spec, data), None))
            options |= {"op_types_to_quantize": ["Conv"], "weight_type": QuantType.QInt8}
            quantize_static(graph, made, reader, activation_type=QuantType.QUInt8, **options)
        quantized = onnx.load(made)
    strip(quantized)
    return quantized


def front_ends(module: torch.nn.Module) -> tuple[str, ...]:
    """The beginnings of the names of nodes that belong to the front end."""
    parts = module.named_modules(remove_duplicate=False)
    names = [name for name, part in parts if isinstance(part, FRONT_ENDS)]
    return tuple(f"{name}." for name in names) + tuple(f"{name}/" for name in names)


def calibration(spec: ExportSpec, data: LightningDataModule) -> Iterator[Mapping[str, numpy.ndarray]]:
    """Inputs from the validation split."""
    data.setup("fit")
    network = GraphNetwork(torch.nn.Identity(), spec, None)
    for inputs, *_ in itertools.islice(data.val_dataloader(), CALIBRATED):
        inputs = data.normalize(inputs)
        name = next(iter(spec.graphs[FILE].inputs))
        yield {name: (network.pixels(inputs).contiguous() if name == "pixels" else inputs).numpy()}
