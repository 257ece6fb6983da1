"""A speech classifier as a graph: the samples of clips in, logits out.

Shapes: B batch, N samples of a clip, C classes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError
from vitspeech.export.kind import Graph, Kind
from vitspeech.export.parity import check_batches
from vitspeech.export.sound import recording

BATCHES = (1, 2, 5)  # sizes of the batches that the gate compares


class ClipGraph(nn.Module):
    """Clips of one length to logits.

    Args:
        network: A speech classifier in evaluation mode.

    Shape:
        samples within ±1 (B, N) -> (B, C)
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, samples: Tensor) -> Tensor:
        return self.network(samples)


def clip_kind(model: Model) -> Kind:
    """How a classifier of whole clips is exported: for clips of any length, or if that fails for the trained length."""
    fixed, tokens = kind_for(model, {}, {"length": "fixed"}), getattr(model.network, "tokens", None)
    shortest = getattr(tokens, "window_samples", None)
    if shortest is None:
        return fixed
    longer = {shortest: 2, round(0.6 * fixed.metadata["samples"]): 1, round(2.3 * fixed.metadata["samples"]): 2}
    return replace(kind_for(model, longer, {"length": "any", "shortest_samples": shortest}), otherwise=fixed)


def kind_for(model: Model, others: Mapping[int, int], metadata: Mapping[str, Any]) -> Kind:
    """The kind for one length, or if others are to be compared, for any.

    Args:
        model: A speech classifier.
        others: Further lengths in samples, and the size of the batch that is compared.
        metadata: What is added to the metadata.
    """
    rate_hz, module = model.preprocessing["sample_rate_hz"], ClipGraph(model.network).eval()
    count = round(model.preprocessing["seconds"] * rate_hz)

    def clips(batch: int, length: int = count) -> Tensor:
        return torch.stack([recording(rate_hz, 0.37 * number, length / rate_hz) for number in range(batch)])

    sizes = [*((batch, count) for batch in BATCHES), *((batch, length) for length, batch in others.items())]
    graph = Graph(
        module, {"samples": clips(2)}, ["logits"], {"samples": {0: "batch"} | ({1: "length"} if others else {})}
    )

    def compared(sessions: Mapping[str, Any]) -> dict[str, float]:
        try:
            return check_batches(sessions["model.onnx"], module, (clips(*size) for size in sizes))
        except Exception as error:
            if isinstance(error, InputError) or not others:
                raise
            raise InputError(f"{type(model.network).__name__} takes clips of one length: {error}") from error

    return Kind("clips", {"model.onnx": graph}, compared, {"sample_rate_hz": rate_hz, "samples": count, **metadata})
