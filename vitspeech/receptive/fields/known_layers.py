"""The layers worth looking at: of our models and of timm's by default, or any by its name.

Shapes: B batch, T tokens, C channels.
"""

import math

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken
from vitspeech.models import CNN, SpeechCNN, TimmModel, ViT
from vitspeech.models.speech_encoder import SpeechEncoder
from vitspeech.receptive.fields.layers import Layer, recorded
from vitspeech.receptive.heads.measures import class_tokens_of
from vitspeech.receptive.heads.weights import unwrapped

WRAPPED = {CNN: "body", TimmModel: "network"}  # where models of ours hold a network of timm


def layers_of(network: nn.Module, inputs: Tensor) -> list[Layer]:
    """The layers worth measuring, in the order in which they run: stem and blocks of our models, for timm's what they
    call their features, stages of blocks taken apart.

    Args:
        network: A model of ours, or of timm.
        inputs: A few, to see how the outputs of timm's layers lie.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(network, SpeechEncoder):
        blocks = [Layer(f"encoder.blocks.{number}", "frames") for number in range(len(network.encoder.blocks))]
        return [Layer("tokens.frames", "frames"), *blocks]
    if isinstance(network, SpeechCNN):
        return [Layer("tokens.frames", "frames"), *(Layer(f"blocks.{n}", "NCT") for n in range(len(network.blocks)))]
    if isinstance(network, ViT):
        halvings = len(network.patches.stages) - 1 if hasattr(network.patches, "stages") else 0
        classes = int(isinstance(network.pooling, ClassToken))
        blocks = [Layer(f"encoder.blocks.{n}", "tokens", classes) for n in range(len(network.encoder.blocks))]
        return [*(Layer(f"patches.stages.{n}") for n in range(halvings)), Layer("patches", "tokens"), *blocks]
    if isinstance(network, CNN) and hasattr(network.body, "whitening"):
        # After the first and after the last convolution of each group.
        return [Layer("body.whitening"), *(Layer(f"body.groups.{group}.{n}") for group in (1, 2, 3) for n in (3, 6))]
    prefix, inner = next(
        ((prefix, getattr(network, prefix)) for kind, prefix in WRAPPED.items() if isinstance(network, kind)),
        ("", network),
    )
    if not getattr(inner, "feature_info", None):
        raise ValueError(f"{type(network).__name__} does not say what its layers are; name some with --layers")
    return of_features(network, inner, f"{prefix}." if prefix else "", inputs)


def of_features(network: nn.Module, inner: nn.Module, prefix: str, inputs: Tensor) -> list[Layer]:
    """The layers of a network of timm (`inner`), whose names in `network` begin with a prefix."""
    modules = dict(inner.named_modules())
    names = []
    for feature in (some for some in inner.feature_info if some["module"] in modules.keys() - {""}):
        module, name = modules[feature["module"]], prefix + feature["module"]
        blocks = type(module) is nn.Sequential and all(list(block.children()) for block in module)
        names += [f"{name}.{number}" for number in range(len(module))] if blocks else [name]
    return [laid_out(network, name, inputs[:2]) for name in dict.fromkeys(names)]


def laid_out(network: nn.Module, name: str, inputs: Tensor, *, in_time: bool = False) -> Layer:
    """A layer by its name, its layout read from what it gives for some inputs.

    Args:
        network: In evaluation mode.
        name: As in `named_modules`.
        inputs: A few.
        in_time: Whether they are speech.

    Raises:
        ValueError: If there is no such layer, or it gives no grid.
    """
    with recorded(network, [name]) as outputs, torch.no_grad():
        network(inputs)
    if name not in outputs:
        raise ValueError(f"layer {name!r} did not run")
    output, inner = outputs[name], unwrapped(network)
    if in_time and output.ndim == 3:
        # Channels are as many as the tokens are wide; a square of them is taken for moments first.
        width = network.tokens.width
        layer = Layer(name, "NCT" if output.shape[1] == width != output.shape[2] else "frames")
    elif output.ndim == 3:
        # In some networks (CaiT, XCiT) the class token joins the others after this layer.
        count = class_tokens_of(network)
        layer = Layer(
            name, "tokens", 0 if is_square(output.shape[1]) and not is_square(output.shape[1] - count) else count
        )
    elif output.ndim == 4 and output.shape[1] == output.shape[2] != output.shape[3]:
        layer = Layer(name, "NHWC")  # places of a square picture lie in a square, too
    else:
        layer = Layer(name, "NHWC" if getattr(inner, "output_fmt", "NCHW") == "NHWC" else "NCHW")
    layer.grid(output)  # refuses what lies on none
    return layer


def is_square(number: int) -> bool:
    """Whether so many tokens can lie in a square."""
    return number >= 0 and math.isqrt(number) ** 2 == number
