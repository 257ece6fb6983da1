"""How speech models are exported: as one step of a stream, or for whole clips; and their comparison with the network.

Shapes: B batch, N samples, T tokens, C classes, H heads, L past tokens of a block, R its look-ahead.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.attention import MeanPooling
from vitspeech.checkpoint.model import Model
from vitspeech.data.utterances.word_clips import SHORTEST_WORD_S
from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.errors import InputError
from vitspeech.export.graphs import ExportSpec, Graph
from vitspeech.export.parity import compare, compare_batches, compare_weights, recording
from vitspeech.export.stream_step import AttentionStep, StreamStep
from vitspeech.inference.label_stream import LABEL_PROBABILITY
from vitspeech.inference.stream import AudioStream
from vitspeech.inference.transcript import is_transcribing
from vitspeech.receptive.heads.figure import forward_with_attention

LENGTHS_S = (0.0, 0.05, 0.3, 1.0, 3.21)  # of the compared recordings; the first ones are shorter than a token
BATCHES = (1, 2, 5)  # sizes of the batches of clips that are compared


def stream_spec(model: Model, attention: bool) -> ExportSpec:
    """How a speech model is exported as a stream; an `InputError` if it can't be streamed."""
    audio, step = AudioStream(model.network), StreamStep(model.network, attention=attention).eval()
    pooling, name = getattr(model.network, "pooling", None), type(model.network).__name__
    if not isinstance(pooling, MeanPooling | None):
        raise InputError(f"{name} can't be exported as a stream: {type(pooling).__name__} needs the whole clip, only "
                         "the logits of MeanPooling are the mean of a stream's rows")  # fmt: skip
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

    def compare_sessions(sessions: Mapping[str, Any]) -> dict[str, float]:
        running = sessions["model.onnx"]
        found = compare_stream(running, step, (recording(rate_hz, 0.2, seconds) for seconds in LENGTHS_S))
        return found | (compare_stream_weights(running, step, recording(rate_hz, 0.2, 1.0)) if attention else {})

    return ExportSpec("stream", {"model.onnx": Graph(step, example, outputs)}, compare_sessions, metadata)


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
    or, as the last class, none. `recognition`: each row has a unit or, as the last class, the CTC blank.
    """
    if is_transcribing(model):
        return "recognition"
    return "classification" if isinstance(getattr(model.network, "pooling", None), MeanPooling) else "labeling"


def attention_of(step: StreamStep) -> list[dict[str, Any]]:
    """The attention outputs of a step: their blocks, and by how many steps the weights of a token come later."""
    outputs, wait = [], 0
    for block in step.blocks:
        wait += block.right
        if isinstance(block, AttentionStep):
            window = {"heads": block.heads, "left": block.left, "right": block.right}
            outputs.append({"output": f"attention_{len(outputs)}", **window, "wait": wait})
    return outputs


def compare_stream(running: Any, step: StreamStep, recordings: Iterable[Tensor]) -> dict[str, float]:
    """Compare the steps of a stream with the network on whole recordings (N,); see `compare`."""
    pairs = []
    for samples in recordings:
        computed = steps(running, step, samples.numpy())
        with torch.inference_mode():
            has_tokens = len(samples) >= step.network.tokens.window_samples
            expected = step.network.forward_frames(samples[None])[0].numpy() if has_tokens else computed[:0]
        pairs.append((expected, computed))
    return compare(pairs)


def compare_stream_weights(running: Any, step: StreamStep, samples: Tensor) -> dict[str, float]:
    """Compare the attention of each block and step with the weights of the network on the whole recording (N,).

    The step that takes token i in computes the attention of block b from the token i minus the look-ahead of the blocks
    0 .. b. See `compare_weights`.
    """
    expected = forward_with_attention(step.network, samples[None]).weights[:, 0]
    computed = list(outputs_of_steps(running, step, samples.numpy()))[step.first_step :]
    pairs = []
    for number, (block, weights) in enumerate(zip(attention_of(step), expected, strict=True)):
        left, right, wait = (block[name] for name in ("left", "right", "wait"))
        padded = F.pad(weights, (left, right))  # (H, T, L + T + R)
        for token in range(weights.shape[1]):
            ours = padded[:, token, token : token + left + 1 + right]
            pairs.append((ours.numpy(), computed[token + wait][3 + number][0]))
    return compare_weights(pairs)


def steps(running: Any, step: StreamStep, samples: numpy.ndarray) -> numpy.ndarray:
    """The logits of a recording, step by step: (N,) -> (T, C)."""
    rows = [numpy.zeros((0, running.get_outputs()[0].shape[-1]), numpy.float32)]
    rows += [logits for logits, valid, *_ in outputs_of_steps(running, step, samples) if valid[0] > 0.5]
    return numpy.concatenate(rows)


def outputs_of_steps(running: Any, step: StreamStep, samples: numpy.ndarray) -> Iterator[list[numpy.ndarray]]:
    """All outputs of the graph for each step of a recording (N,), up to the last token."""
    hop, state = step.hop_samples, numpy.zeros((1, step.state_size), numpy.float32)
    padded = numpy.concatenate((numpy.zeros(step.lead_in_samples, numpy.float32), samples))
    whole = len(padded) // hop
    for number in range(whole + step.steps_ahead):
        heard = padded[number * hop : (number + 1) * hop] if number < whole else numpy.zeros(hop, numpy.float32)
        valid = numpy.array([step.first_step <= number < whole], numpy.float32)
        outputs = running.run(None, {"samples": heard[None], "valid": valid, "state": state})
        state = outputs[2]
        yield outputs


def clip_spec(model: Model) -> ExportSpec:
    """How a classifier of whole clips is exported: for clips of any length, or if that fails for the trained length."""
    fixed, tokens = clip_spec_for(model, {}, {"length": "fixed"}), getattr(model.network, "tokens", None)
    shortest = getattr(tokens, "window_samples", None)
    if shortest is None:
        return fixed
    samples = fixed.metadata["samples"]
    longer = {shortest: 2, max(shortest, round(0.6 * samples)): 1, round(2.3 * samples): 2}
    return replace(clip_spec_for(model, longer, {"length": "any", "shortest_samples": shortest}), fallback=fixed)


def clip_spec_for(model: Model, others: Mapping[int, int], metadata: Mapping[str, Any]) -> ExportSpec:
    """How it is exported for one length, or for any if others (samples: size of the batch) are to be compared."""
    rate_hz, module = model.preprocessing["sample_rate_hz"], model.network.eval()
    count = round(model.preprocessing["seconds"] * rate_hz)

    def clips(batch: int, length: int = count) -> Tensor:
        return torch.stack([recording(rate_hz, 0.37 * number, length / rate_hz) for number in range(batch)])

    sizes = [*((batch, count) for batch in BATCHES), *((batch, length) for length, batch in others.items())]
    dynamic = {"samples": {0: "batch"} | ({1: "length"} if others else {})}

    def compare(sessions: Mapping[str, Any]) -> dict[str, float]:
        try:
            return compare_batches(sessions["model.onnx"], module, (clips(*size) for size in sizes))
        except Exception as error:  # ONNX Runtime has classes of its own
            if isinstance(error, InputError) or not others:
                raise
            raise InputError(f"{type(model.network).__name__} takes clips of one length: {error}") from error

    graphs = {"model.onnx": Graph(module, {"samples": clips(2)}, ["logits"], dynamic)}
    return ExportSpec("clips", graphs, compare, {"sample_rate_hz": rate_hz, "samples": count, **metadata})
