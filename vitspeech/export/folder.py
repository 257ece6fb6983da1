"""Exporting a model: a folder with a graph and everything needed to run it without torch.

FOLDER/model.onnx   the graph
FOLDER/model.json   labels, times, preprocessing, thresholds, what the gate found, checksums
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vitspeech.checkpoint.folder import CARD, WEIGHTS, Model
from vitspeech.data.files import sha256, write_json
from vitspeech.errors import InputError
from vitspeech.export.clips import ClipGraph
from vitspeech.export.gate import LENGTHS_S, check_batches, check_stream, session
from vitspeech.export.graph import to_onnx
from vitspeech.export.images import ImageGraph
from vitspeech.export.stream_step import StreamStep
from vitspeech.inference.stream import AudioStream

FORMAT = 1
GRAPH, METADATA = "model.onnx", "model.json"
BATCHES = (1, 2, 5)  # sizes of the batches that the gate compares
SEED = 20_261_122  # of the gate's inputs


@dataclass
class Kind:
    """How models of one kind are exported.

    Args:
        name: `images`, `clips` or `stream`.
        module: Computes what the graph computes.
        inputs: An example of each input, by name.
        outputs: Names of the outputs.
        batched: The inputs whose first dimension is any number.
        check: Compares a session of ONNX Runtime with the network; see `vitspeech.export.gate`.
        metadata: What a caller must know.
    """

    name: str
    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: list[str]
    batched: tuple[str, ...]
    check: Callable[[Any], dict[str, float]]
    metadata: dict[str, Any]


def export(model: Model, folder: str | Path, *, offline: bool = False, attention: bool = False) -> dict[str, Any]:
    """Write a model as an ONNX graph, if ONNX Runtime computes with it what the network computes.

    Args:
        model: From `vitspeech.load`.
        folder: A new folder.
        offline: Export a speech classifier that can be streamed for whole clips.
        attention: Add the attention weights of a stream as further outputs.

    Returns:
        What `model.json` holds.

    Raises:
        FileExistsError: If the folder exists.
        InputError: If the model can't be exported, or the graph computes something else. Nothing is written then.
        MissingExtraError: If the extra `export` is not installed.
    """
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(f"{folder}: exists; name a new folder")
    kind = kind_of(model, offline=offline, attention=attention)
    graph = to_onnx(kind.module.eval(), kind.inputs, kind.outputs, batched=kind.batched)
    metadata = {"format": FORMAT, "kind": kind.name, "labels": model.labels, **kind.metadata}
    if model.folder is not None:
        source = {"name": model.card.get("name"), "sha256": sha256(model.folder / WEIGHTS)}
        metadata["source"] = source | {"card_sha256": sha256(model.folder / CARD)}
    metadata["gate"] = kind.check(session(graph.SerializeToString()))
    entry = graph.metadata_props.add()
    entry.key, entry.value = "vitspeech", json.dumps(metadata)
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        (draft / GRAPH).write_bytes(graph.SerializeToString())
        metadata["graph_sha256"] = sha256(draft / GRAPH)
        write_json(metadata, draft / METADATA)
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return metadata


def kind_of(model: Model, *, offline: bool, attention: bool) -> Kind:
    """How a model is exported.

    Raises:
        InputError: If it can't be.
    """
    network, preprocessing = model.network, model.preprocessing
    if "image" in preprocessing:
        return images(network, preprocessing)
    if offline or getattr(getattr(network, "encoder", None), "reach", (None, None))[1] is None:
        if "seconds" not in preprocessing:
            raise InputError(f"{type(network).__name__} can't be exported: it neither streams nor classifies clips")
        return clips(network, preprocessing)
    return stream(model, attention)


def images(network: nn.Module, preprocessing: dict[str, Any]) -> Kind:
    """Image classifiers."""
    side, module = preprocessing["image"], ImageGraph(network, preprocessing)

    def pixels(batch: int) -> Tensor:
        return torch.randint(0, 256, (batch, side, side, 3), dtype=torch.uint8, generator=generator())

    return Kind(
        "images",
        module,
        {"pixels": pixels(2)},
        ["probabilities"],
        ("pixels",),
        lambda running: check_batches(running, module, map(pixels, BATCHES)),
        {"side": side, "mean": list(preprocessing["mean"]), "std": list(preprocessing["std"])},
    )


def clips(network: nn.Module, preprocessing: dict[str, Any]) -> Kind:
    """Classifiers of whole clips."""
    rate_hz, module = preprocessing["sample_rate_hz"], ClipGraph(network)
    count = round(preprocessing["seconds"] * rate_hz)

    def samples(batch: int) -> Tensor:
        return 0.1 * torch.randn(batch, count, generator=generator())

    return Kind(
        "clips",
        module,
        {"samples": samples(2)},
        ["logits"],
        ("samples",),
        lambda running: check_batches(running, module, map(samples, BATCHES)),
        {"sample_rate_hz": rate_hz, "samples": count},
    )


def stream(model: Model, attention: bool) -> Kind:
    """Speech models as a stream, one step a graph."""
    audio, step = AudioStream(model.network), StreamStep(model.network, attention=attention)
    rate_hz = audio.sample_rate_hz
    blocks = [f"attention_{number}" for number in range(len(step.blocks))] if attention else []
    metadata = {
        "sample_rate_hz": rate_hz,
        "hop_samples": step.hop_samples,
        "window_samples": model.network.tokens.window_samples,
        "lead_in_samples": step.lead_in_samples,
        "first_step": step.first_step,
        "steps_ahead": step.steps_ahead,
        "state_size": step.state_size,
        "delay_ms": 1000 * audio.delay_samples / rate_hz,
        "seconds": model.preprocessing.get("seconds"),
        "units": model.preprocessing.get("units"),
        "spotting": None if model.spotting is None else asdict(model.spotting),
    }

    def recordings() -> Iterator[Tensor]:
        noise = generator()
        for seconds in LENGTHS_S:
            yield 0.1 * torch.randn(round(seconds * rate_hz), generator=noise)

    example = {
        "samples": torch.zeros(1, step.hop_samples),
        "valid": torch.zeros(1),
        "state": torch.zeros(1, step.state_size),
    }
    outputs = ["logits", "valid_out", "state_out", *blocks]
    return Kind(
        "stream", step, example, outputs, (), lambda running: check_stream(running, step, recordings()), metadata
    )


def generator() -> torch.Generator:
    """The random numbers of the gate's inputs."""
    return torch.Generator().manual_seed(SEED)
