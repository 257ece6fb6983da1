"""Distillation: a network learns from the probabilities of trained ones.

Shapes: B batch, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.checkpoint import Model, load
from vitspeech.errors import InputError, check_number


@dataclass
class Distillation:
    """Settings of distillation (Hinton et al. 2015, arXiv:1503.02531).

    Args:
        teachers: Released models or finished runs with the labels and the inputs of the data; one folder, or several
            whose probabilities are averaged.
        weight: Of the teachers in the loss; the labels have the rest.
        temperature: Divides the logits of teachers and network before the softmax.
    """

    teachers: str | list[str]
    weight: float = 0.5
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_number("weight", self.weight, 0, 1)
        check_number("temperature", self.temperature, 0.01)


class Teachers:
    """The teachers. They get the augmented inputs of the network that learns (Beyer et al. 2022, arXiv:2106.05237).

    This is no module: their weights are not part of the network's, of its checkpoints or of its averages.

    Args:
        settings: The settings.
        labels: Of the data, in order.
        preprocessing: Of the data.
        trust: Modules of your own whose classes the teachers use.

    Attributes:
        sha256: Of the weights of each teacher.
    """

    def __init__(
        self,
        settings: Distillation,
        labels: Sequence[str],
        preprocessing: dict[str, Any],
        trust: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        folders = [settings.teachers] if isinstance(settings.teachers, str) else settings.teachers
        models = [find_teacher(folder, labels, preprocessing, trust) for folder in folders]
        self.networks, self.sha256 = [model.network for model in models], [model.card["sha256"] for model in models]

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """T² KL(teachers ‖ network), a mean over the batch: inputs of the network, logits (B, C) -> ()."""
        temperature = self.settings.temperature
        with torch.no_grad():
            mean = torch.stack([self.probabilities(network, inputs) for network in self.networks]).mean(0)
        student = F.log_softmax(logits.float() / temperature, dim=-1)
        return temperature**2 * F.kl_div(student, mean, reduction="batchmean")

    def probabilities(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """The softmax of a teacher at the temperature: (B, C)."""
        if next(network.parameters()).device != inputs.device:
            network.to(inputs.device)
        return F.softmax(network(inputs).float() / self.settings.temperature, dim=-1)


def find_teacher(folder: str, labels: Sequence[str], preprocessing: dict[str, Any], trust: Sequence[str]) -> Model:
    """Load a teacher, which must have the labels and the inputs of the data."""
    model = load(folder, trust=trust)
    if model.labels != list(labels):
        raise InputError(f"teacher {folder}: its labels are not those of the data, in their order")
    for name, value in preprocessing.items():
        if model.preprocessing.get(name) != value:
            raise InputError(f"teacher {folder}: {name} is {model.preprocessing.get(name)}, but {value} in the data")
    model.network.requires_grad_(False)
    return model
