"""A speech classifier as a graph: the samples of clips in, logits out.

Shapes: B batch, N samples of a clip, C classes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError
from vitspeech.export.graphs import ExportSpec, Graph
from vitspeech.export.parity import compare_batches, recording

BATCHES = (1, 2, 5)  # sizes of the batches that are compared


def clip_spec(model: Model) -> ExportSpec:
    """How a classifier of whole clips is exported: for clips of any length, or if that fails for the trained length."""
    fixed, tokens = spec_for(model, {}, {"length": "fixed"}), getattr(model.network, "tokens", None)
    shortest = getattr(tokens, "window_samples", None)
    if shortest is None:
        return fixed
    samples = fixed.metadata["samples"]
    longer = {shortest: 2, max(shortest, round(0.6 * samples)): 1, round(2.3 * samples): 2}
    return replace(spec_for(model, longer, {"length": "any", "shortest_samples": shortest}), fallback=fixed)


def spec_for(model: Model, others: Mapping[int, int], metadata: Mapping[str, Any]) -> ExportSpec:
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
