"""The gate of the export: a graph is only written if ONNX Runtime computes with it what the network computes.

Shapes: N samples, T tokens, C classes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.errors import InputError
from vitspeech.export.stream_step import BlockStep, StreamStep

TOLERANCE = 1e-3  # of the largest number of the network's output
SMALLEST = 1e-30  # probability that is told from 0


def check_batches(running: Any, module: torch.nn.Module, batches: Iterable[Tensor]) -> dict[str, float]:
    """Compare a graph with its module on batches of inputs; see `check`.

    Probabilities are compared by their logarithms: they saturate where logits still differ.
    """
    name, output = running.get_inputs()[0].name, running.get_outputs()[0].name
    scale = logarithms if output == "probabilities" else numpy.asarray
    with torch.inference_mode():
        pairs = ((module(batch).numpy(), running.run([output], {name: batch.numpy()})[0]) for batch in batches)
        return check((scale(expected), scale(computed)) for expected, computed in pairs)


def logarithms(probabilities: numpy.ndarray) -> numpy.ndarray:
    """Logarithms of probabilities, of which the smallest have few digits and count as `SMALLEST`."""
    return numpy.log(numpy.maximum(probabilities, SMALLEST))


def check_weights(running: Any, module: torch.nn.Module, batches: Iterable[Tensor]) -> dict[str, float]:
    """Compare all outputs of a graph but the first, which are attention weights, with those of its module.

    Returns:
        The largest difference of a weight: `attention_difference`.

    Raises:
        InputError: If it is above `TOLERANCE` of the largest weight.
    """
    name, difference, largest = running.get_inputs()[0].name, 0.0, 0.0
    for batch in batches:
        with torch.inference_mode():
            expected = [weights.numpy() for weights in module(batch)[1:]]
        for ours, computed in zip(expected, running.run(None, {name: batch.numpy()})[1:], strict=True):
            difference = max(difference, float(abs(computed - ours).max()))
            largest = max(largest, float(ours.max()))
    return checked_weights(difference, largest)


def checked_weights(difference: float, largest: float) -> dict[str, float]:
    """The difference of attention weights as an entry of the metadata.

    Raises:
        InputError: If it is above `TOLERANCE` of the largest weight.
    """
    if not difference <= TOLERANCE * largest:
        raise InputError(
            f"attention weights of ONNX Runtime differ from the network's by {difference:.3g} of {largest:.3g}; "
            "nothing is written"
        )
    return {"attention_difference": difference}


def check_stream(running: Any, step: StreamStep, recordings: Iterable[Tensor]) -> dict[str, float]:
    """Compare the steps of a stream with the network on whole recordings (N,); see `check`."""
    pairs = []
    for samples in recordings:
        computed = steps(running, step, samples.numpy())
        with torch.inference_mode():
            has_tokens = len(samples) >= step.network.tokens.window_samples
            expected = step.network.forward_frames(samples[None])[0].numpy() if has_tokens else computed[:0]
        pairs.append((expected, computed))
    return check(pairs)


def check_stream_weights(running: Any, step: StreamStep, samples: Tensor) -> dict[str, float]:
    """Compare the attention of each block and step with the weights of the network on the whole recording (N,).

    The step that takes token i in computes the attention of block b from the token i minus the look-ahead of the blocks
    0 .. b. See `check_weights`.
    """
    expected: list[Tensor] = []
    hooks = [
        block.attention.register_forward_hook(
            lambda layer, args, kwargs, output: expected.append(layer.weights(*args, **kwargs)[0]), with_kwargs=True
        )
        for block in step.network.encoder.blocks
    ]
    try:
        with torch.inference_mode():
            step.network.encoder(step.network.tokens(samples[None]))
    finally:
        for hook in hooks:
            hook.remove()
    computed = list(outputs_of_steps(running, step, samples.numpy()))[step.first_step :]
    difference, largest, ahead = 0.0, 0.0, 0
    numbers = iter(range(len(expected)))
    for block in step.blocks:
        ahead += block.right
        if not isinstance(block, BlockStep):
            continue
        number = next(numbers)
        weights = expected[number]
        padded = F.pad(weights, (block.left, block.right))  # (H, T, L + T + R)
        for token in range(weights.shape[1]):
            ours = padded[:, token, token : token + block.left + 1 + block.right].numpy()
            theirs = computed[token + ahead][3 + number][0]
            difference = max(difference, float(abs(theirs - ours).max()))
            largest = max(largest, float(ours.max()))
    return checked_weights(difference, largest)


def steps(running: Any, step: StreamStep, samples: numpy.ndarray) -> numpy.ndarray:
    """The logits of a recording, step by step: (N,) -> (T, C)."""
    rows = [numpy.zeros((0, len_of(running)), numpy.float32)]
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


def len_of(running: Any) -> int:
    """The number of classes of a session's first output."""
    return running.get_outputs()[0].shape[-1]


def check(pairs: Iterable[tuple[numpy.ndarray, numpy.ndarray]]) -> dict[str, float]:
    """Compare what the network computes with what ONNX Runtime computes: pairs of (rows, C).

    Returns:
        `difference` and `largest` number of the network's output, and the number of `rows`.

    Raises:
        InputError: If they differ in shape, by more than `TOLERANCE` of the largest number, or in an arg-max.
    """
    pairs = list(pairs)
    for expected, computed in pairs:
        if expected.shape != computed.shape:
            raise InputError(f"ONNX Runtime returns the shape {computed.shape}, the network {expected.shape}")
    expected, computed = (numpy.concatenate(parts) for parts in zip(*pairs, strict=True))
    difference, largest = float(abs(computed - expected).max()), float(abs(expected).max())
    if not difference <= TOLERANCE * largest:
        raise InputError(
            f"ONNX Runtime differs from the network by {difference:.3g} of {largest:.3g}; nothing is written"
        )
    if (others := expected.argmax(1) != computed.argmax(1)).any():
        raise InputError(
            f"ONNX Runtime finds another label in {others.sum()} of {len(others)} rows; nothing is written"
        )
    return {"difference": difference, "largest": largest, "rows": len(expected)}
