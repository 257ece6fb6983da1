"""What the kinds of exported models have in common: their graphs, the comparison with the network, and metadata."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

SEED = 20_261_122  # of synthesized inputs


@dataclass
class Graph:
    """A module to be exported.

    Args:
        module: Takes the inputs by position and returns the outputs.
        inputs: An example of each input, by name.
        outputs: Names of the outputs.
        dynamic: The dimensions of inputs that may have any size: input -> {dimension: name}. Dimensions of the same
            name have the same size.
    """

    module: nn.Module
    inputs: Mapping[str, Tensor]
    outputs: Sequence[str]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


@dataclass
class Kind:
    """How a model is exported.

    Args:
        name: `images`, `clips`, `stream` or `encoder-decoder`.
        graphs: By the name of their file.
        check: Compares sessions of ONNX Runtime, by file, with the network; returns what `gate.check` does.
        metadata: What a caller must know.
        otherwise: How it is exported if this fails.
    """

    name: str
    graphs: Mapping[str, Graph]
    check: Callable[[Mapping[str, Any]], dict[str, float]]
    metadata: dict[str, Any]
    otherwise: "Kind | None" = None


def generator() -> torch.Generator:
    """The random numbers of synthesized inputs."""
    return torch.Generator().manual_seed(SEED)
