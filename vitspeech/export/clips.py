"""A speech classifier as a graph: the samples of clips in, logits out.

Shapes: B batch, N samples of a clip, C classes.
"""

import torch
from torch import Tensor, nn

from vitspeech.checkpoint.folder import Model
from vitspeech.export.gate import check_batches
from vitspeech.export.kind import Graph, Kind
from vitspeech.export.sound import recording

BATCHES = (1, 2, 5)  # sizes of the batches that the gate compares


class ClipGraph(nn.Module):
    """Any number of clips of one length to logits.

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
    """How a classifier of whole clips is exported."""
    rate_hz, module = model.preprocessing["sample_rate_hz"], ClipGraph(model.network).eval()
    count = round(model.preprocessing["seconds"] * rate_hz)

    def clips(batch: int) -> Tensor:
        return torch.stack([recording(rate_hz, 0.37 * number, count / rate_hz) for number in range(batch)])

    graph = Graph(module, {"samples": clips(2)}, ["logits"], {"samples": {0: "batch"}})
    return Kind(
        "clips",
        {"model.onnx": graph},
        lambda sessions: check_batches(sessions["model.onnx"], module, map(clips, BATCHES)),
        {"sample_rate_hz": rate_hz, "samples": count},
    )
