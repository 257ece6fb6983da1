"""Single inputs, and what a model sees in them: maps to lay over a picture or a spectrogram.

Shapes: K inputs, R rows, W columns of the source, T tokens, F log-mel frames, M mel bins.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.receptive.fields.effective import effective_fields
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.heads.relevance import at_head, rollout, token_relevance
from vitspeech.receptive.heads.weights import written_out
from vitspeech.receptive.subjects import Subject


@dataclass(frozen=True)
class Example:
    """One way of looking at some inputs.

    Args:
        what: `field`, the root of the effective field of the middle unit of the last layer; `rollout`; or `relevance`
            of the label that the model gives.
        maps: 0 to 1, the largest value of each input, (K, R, W); of speech `rollout` and `relevance` have one column.
        labels: What the model says of each input; `None` where it gives no label.
    """

    what: str
    maps: Tensor
    labels: list[str] | None


def examples_of(
    subject: Subject, network: nn.Module, inputs: Tensor, layer: Layer, *, attention: bool
) -> list[Example]:
    """Look at some inputs in every way that the model allows.

    Args:
        subject: Whose labels are said.
        network: Its network.
        inputs: As the network takes them.
        layer: The last layer measured.
        attention: Whether its attention can be written out.
    """
    labels = None
    if subject.gives_labels and subject.labels is not None:
        with torch.no_grad():
            labels = [subject.labels[place] for place in network(inputs).argmax(-1)]
    field = effective_fields(network, inputs, [layer], source=subject.source, units=1)[0].cumulative
    maps = {"field": field.on_source().sqrt()}
    if attention and subject.gives_labels:
        with torch.no_grad(), written_out(network) as weights:
            network(inputs)
        shape = maps["field"].shape[1:]
        rolled = at_head(network, inputs, rollout(weights)[-1])
        maps["rollout"] = on_source(rolled, shape, in_time=subject.hears)
        maps["relevance"] = on_source(token_relevance(network, inputs), shape, in_time=subject.hears)
    return [Example(what, scaled(found.cpu()), labels) for what, found in maps.items()]


def on_source(tokens: Tensor, shape: tuple[int, int], *, in_time: bool) -> Tensor:
    """A number for each token as a map: (K, T) -> (K, R, W), or (K, T, 1) over time."""
    if in_time:
        return tokens[..., None]
    side = round(tokens.shape[1] ** 0.5)
    return F.interpolate(tokens.unflatten(1, (side, side))[:, None], shape, mode="nearest")[:, 0]


def scaled(maps: Tensor) -> Tensor:
    """Each divided by its largest value."""
    return maps / maps.amax((1, 2), keepdim=True).clamp(min=1e-30)
