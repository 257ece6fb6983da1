"""Parity of an export: a graph is only written if ONNX Runtime computes with it what the network computes.

Shapes: N samples, T tokens, C classes.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy
import torch
from torch import Tensor

from vitspeech.data.audio.reading import read_audio
from vitspeech.errors import InputError
from vitspeech.samples import FOLDER

TOLERANCE = 1e-3  # of the largest number of the network's output
SMALLEST = 1e-30  # probability that is told from 0
SPEECH = "left-right-go.wav"


@cache
def sample(rate_hz: int) -> Tensor:
    """The sample recording, within ±1 (N,)."""
    return read_audio(FOLDER / SPEECH, rate_hz) / 32768


def recording(rate_hz: int, start_s: float = 0.0, seconds: float | None = None) -> Tensor:
    """A part of the sample recording, which is repeated if it is shorter: within ±1 (N,)."""
    samples, first = sample(rate_hz), round(start_s * rate_hz)
    after = len(samples) if seconds is None else first + round(seconds * rate_hz)
    return samples.repeat(1 + after // len(samples))[first:after]


def compare(pairs: Iterable[tuple[numpy.ndarray, numpy.ndarray]]) -> dict[str, float]:
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
    largest = float(abs(expected).max())
    difference = within_tolerance("ONNX Runtime differs from the network", abs(computed - expected).max(), largest)
    if (others := expected.argmax(1) != computed.argmax(1)).any():
        raise InputError(
            f"ONNX Runtime finds another label in {others.sum()} of {len(others)} rows; nothing is written"
        )
    return {"difference": difference, "largest": largest, "rows": len(expected)}


def within_tolerance(what: str, difference: float, largest: float) -> float:
    """The difference; an `InputError` if it is above `TOLERANCE` of the largest number, or NaN."""
    if not difference <= TOLERANCE * largest:
        raise InputError(f"{what} by {difference:.3g} of {largest:.3g}; nothing is written")
    return float(difference)


def compare_batches(running: Any, module: torch.nn.Module, batches: Iterable[Tensor]) -> dict[str, float]:
    """Compare a graph with its module on batches of inputs; see `compare`.

    Probabilities are compared by their logarithms: they saturate where logits still differ.
    """
    name, output = running.get_inputs()[0].name, running.get_outputs()[0].name
    scale = logarithms if output == "probabilities" else numpy.asarray
    with torch.inference_mode():
        pairs = ((module(batch).numpy(), running.run([output], {name: batch.numpy()})[0]) for batch in batches)
        return compare((scale(expected), scale(computed)) for expected, computed in pairs)


def logarithms(probabilities: numpy.ndarray) -> numpy.ndarray:
    """Logarithms of probabilities, of which the smallest have few digits and count as `SMALLEST`."""
    return numpy.log(numpy.maximum(probabilities, SMALLEST))


def compare_weights(pairs: Iterable[tuple[numpy.ndarray, numpy.ndarray]]) -> dict[str, float]:
    """Compare attention weights of the network with those of ONNX Runtime: pairs of the same shape.

    Returns:
        The largest difference of a weight: `attention_difference`.

    Raises:
        InputError: If it is above `TOLERANCE` of the largest weight.
    """
    difference = largest = 0.0
    for expected, computed in pairs:
        difference = max(difference, float(abs(computed - expected).max()))
        largest = max(largest, float(expected.max()))
    what = "attention weights of ONNX Runtime differ from the network's"
    return {"attention_difference": within_tolerance(what, difference, largest)}
