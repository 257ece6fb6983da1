"""Maps for single inputs: effective receptive field, attention rollout and relevance.

Shapes: K inputs, R rows, W columns of the source, T tokens, F log-mel frames, M mel bins.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.receptive.fields.effective import effective_fields
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.heads.relevance import at_head, rollout, token_relevance
from vitspeech.receptive.heads.weights import attention_weights
from vitspeech.receptive.subjects import Subject


@dataclass(frozen=True)
class Example:
    """Maps of one kind for some inputs.

    Args:
        what: `field`, the square root of the effective receptive field of the central unit of the last layer;
            `rollout`, attention rollout; or `relevance`, of the predicted label.
        maps: Relative to the largest value of each map, (K, R, W). `rollout` and `relevance` of audio have one column.
        labels: The predicted label of each input; `None` if the model predicts none.
    """

    what: str
    maps: Tensor
    labels: list[str] | None


def make_examples(
    subject: Subject, network: nn.Module, inputs: Tensor, layer: Layer, *, attention: bool
) -> list[Example]:
    """Make maps of all kinds that the model supports.

    Args:
        subject: The model, for the names of its labels.
        network: The model's network.
        inputs: The network's input.
        layer: The last layer measured.
        attention: Whether its attention weights can be recomputed.
    """
    labels = None
    if subject.predicts_label and subject.labels is not None:
        with torch.no_grad():
            labels = [subject.labels[index] for index in network(inputs).argmax(-1)]
    fields = effective_fields(network, inputs, [layer], source=subject.source, units=1, cumulative_only=True)
    field = fields[0].cumulative
    maps = {"field": field.on_source().sqrt()}
    if attention and subject.predicts_label:
        with torch.no_grad(), attention_weights(network) as weights:
            network(inputs)
        shape = maps["field"].shape[1:]
        last_rollout = at_head(network, inputs, rollout(weights)[-1])
        maps["rollout"] = token_map(last_rollout, shape, in_time=subject.takes_audio)
        maps["relevance"] = token_map(token_relevance(network, inputs), shape, in_time=subject.takes_audio)
    return [Example(what, relative_to_maximum(values.cpu()), labels) for what, values in maps.items()]


def token_map(tokens: Tensor, shape: tuple[int, int], *, in_time: bool) -> Tensor:
    """One value per token as a map: (K, T) -> (K, R, W), or (K, T, 1) over time."""
    if in_time:
        return tokens[..., None]
    side = round(tokens.shape[1] ** 0.5)
    return F.interpolate(tokens.unflatten(1, (side, side))[:, None], shape, mode="nearest")[:, 0]


def relative_to_maximum(maps: Tensor) -> Tensor:
    """Divide each map by its largest value."""
    return maps / maps.amax((1, 2), keepdim=True).clamp(min=1e-30)
