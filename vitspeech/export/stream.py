"""A streaming speech model as a graph: one step of `StreamStep`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from vitspeech.attention import MeanPooling
from vitspeech.checkpoint.model import Model
from vitspeech.data.utterances.word_clips import SHORTEST_WORD_S
from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.export.kind import Graph, Kind
from vitspeech.export.parity import check_stream, check_stream_weights
from vitspeech.export.sound import recording
from vitspeech.export.stream_step import BlockStep, StreamStep
from vitspeech.inference.label_stream import LABEL_PROBABILITY
from vitspeech.inference.stream import AudioStream
from vitspeech.inference.transcript import is_transcribing

LENGTHS_S = (0.0, 0.05, 0.3, 1.0, 3.21)  # of the gate's recordings; the first ones are shorter than a token


def stream_kind(model: Model, attention: bool) -> Kind:
    """How a speech model is exported as a stream.

    Raises:
        InputError: If it can't be streamed.
    """
    audio, step = AudioStream(model.network), StreamStep(model.network, attention=attention).eval()
    rate_hz = audio.sample_rate_hz
    first_ms, row_ms = row_times_ms(model.network)
    metadata: dict[str, Any] = {
        "task": task_of(model),
        "sample_rate_hz": rate_hz,
        "hop_samples": step.hop_samples,
        "window_samples": model.network.tokens.window_samples,
        "lead_in_samples": step.lead_in_samples,
        "first_step": step.first_step,
        "steps_ahead": step.steps_ahead,
        "state_size": step.state_size,
        "first_row_ms": first_ms,
        "row_ms": row_ms,
        "delay_ms": 1000 * audio.latency_samples / rate_hz,
    }
    if metadata["task"] == "classification":
        metadata["clip_samples"] = round(model.preprocessing["seconds"] * rate_hz)
        metadata["spotting"] = asdict(model.spotting or SpottingSettings())
    else:
        is_labeling = metadata["task"] == "labeling"
        metadata["shortest_ms"] = 1000 * SHORTEST_WORD_S if is_labeling else 0.0
        metadata["least_probability"] = LABEL_PROBABILITY if is_labeling else 0.0
    metadata["attention"] = weights = attention_of(step) if attention else []
    example = {
        "samples": torch.zeros(1, step.hop_samples),
        "valid": torch.zeros(1),
        "state": torch.zeros(1, step.state_size),
    }
    outputs = ["logits", "valid_out", "state_out", *(block["output"] for block in weights)]

    def recordings() -> Iterator[Tensor]:
        for seconds in LENGTHS_S:
            yield recording(rate_hz, 0.2, seconds)

    def check(sessions: Mapping[str, Any]) -> dict[str, float]:
        running = sessions["model.onnx"]
        found = check_stream(running, step, recordings())
        return found | (check_stream_weights(running, step, recording(rate_hz, 0.2, 1.0)) if attention else {})

    return Kind("stream", {"model.onnx": Graph(step, example, outputs)}, check, metadata)


def row_times_ms(network: nn.Module) -> tuple[float, float]:
    """Start of the first row of logits, and milliseconds from one row to the next."""
    if hasattr(network, "first_frame_ms"):
        return network.first_frame_ms, network.frame_ms  # of a labeler: several rows a step
    tokens = network.tokens
    hop, window = tokens.hop_samples, tokens.window_samples
    return tokens.milliseconds((window - hop) / 2), tokens.milliseconds(hop)


def task_of(model: Model) -> str:
    """What the rows of logits are.

    `classification`: the mean over the rows of a clip are the logits of the clip. `labeling`: each row has a label
    or, as the last class, none.
    `recognition`: each row has a unit or, as the last class, the CTC blank.
    """
    if is_transcribing(model):
        return "recognition"
    return "classification" if isinstance(getattr(model.network, "pooling", None), MeanPooling) else "labeling"


def attention_of(step: StreamStep) -> list[dict[str, Any]]:
    """The attention outputs of a step: their blocks, and by how many steps the weights of a token come later."""
    outputs, wait = [], 0
    for block in step.blocks:
        wait += block.right
        if isinstance(block, BlockStep):
            window = {"heads": block.heads, "left": block.left, "right": block.right}
            outputs.append({"output": f"attention_{len(outputs)}", **window, "wait": wait})
    return outputs
