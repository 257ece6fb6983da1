"""Exported graphs in place of a network, so that what evaluates networks evaluates them, too.

Shapes: B batch, N samples, T tokens, C classes, S side of a picture.
"""

from collections.abc import Mapping
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from vitspeech.export.gate import steps
from vitspeech.export.kind import Kind


class GraphNetwork(nn.Module):
    """The network of a model, whose `forward` is computed by ONNX Runtime.

    Args:
        network: The network that was exported; its attributes are those of this module.
        kind: How it was exported: `images`, `clips` or `stream`.
        sessions: Sessions of its graphs, by the name of their file.

    Shape:
        What the network takes and returns. A batch of waveforms is streamed one by one.
    """

    def __init__(self, network: nn.Module, kind: Kind, sessions: Mapping[str, Any]) -> None:
        super().__init__()
        self.network, self.kind, self.session = network, kind, sessions["model.onnx"]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("network"), name)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        if self.kind.name == "images":
            return self.run(pixels=self.pixels(inputs)).log()
        if self.kind.name == "clips":
            return self.run(samples=inputs)
        rows = self.rows(inputs, lengths)
        if self.kind.metadata["task"] == "classification":
            return torch.stack([row.mean(0) for row in rows])
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])

    def run(self, **inputs: Tensor) -> Tensor:
        """The first output of the graph."""
        feeds = {name: numpy.ascontiguousarray(tensor.numpy()) for name, tensor in inputs.items()}
        return torch.from_numpy(self.session.run(None, feeds)[0])

    def pixels(self, images: Tensor) -> Tensor:
        """The pixels of normalized images: (B, 3, S, S) -> uint8 (B, S, S, 3)."""
        mean, std = (torch.tensor(self.kind.metadata[name]).view(-1, 1, 1) for name in ("mean", "std"))
        return (255 * (images * std + mean)).round().clamp(0, 255).to(torch.uint8).movedim(1, 3)

    def rows(self, waveforms: Tensor, lengths: Tensor | None) -> list[Tensor]:
        """The logits of each waveform as a stream: (B, N), (B,) or None -> B tensors (T, C)."""
        ends = [waveforms.shape[1]] * len(waveforms) if lengths is None else lengths.tolist()
        step = self.kind.graphs["model.onnx"].module
        return [
            torch.from_numpy(steps(self.session, step, samples[:end].numpy()))
            for samples, end in zip(waveforms, ends, strict=True)
        ]
