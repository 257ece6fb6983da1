"""The layers that are measured by default, for our models and timm's; and the layout of any layer.

Shapes: B batch, T tokens, C channels.
"""

import math

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken
from vitspeech.errors import InputError
from vitspeech.models import CNN, SpeechCNN, TimmModel, ViT
from vitspeech.models.speech_encoder import SpeechEncoder
from vitspeech.receptive.fields.layers import Layer, record_outputs
from vitspeech.receptive.heads.measures import class_tokens_of
from vitspeech.receptive.heads.weights import unwrapped

WRAPPED = {CNN: "body", TimmModel: "network"}  # attributes under which our models hold a timm network


def default_layers(network: nn.Module, inputs: Tensor) -> list[Layer]:
    """The layers to measure, in the order in which they run.

    For our models these are the stem and the blocks. For timm's networks these are the modules in `feature_info`;
    stages that are plain sequences of blocks are replaced by their blocks.

    Args:
        network: One of our models, or a timm network.
        inputs: A few inputs, from which the layout of timm's layers is read.

    Raises:
        InputError: If it is neither.
    """
    if isinstance(network, SpeechEncoder):
        count = len(getattr(network.encoder, "blocks", ()))
        blocks = [Layer(f"encoder.blocks.{number}", "frames") for number in range(count)]
        return [Layer("tokens.frames", "frames"), *(blocks or [Layer("encoder", "frames")])]
    if isinstance(network, SpeechCNN):
        return [Layer("tokens.frames", "frames"), *(Layer(f"blocks.{n}", "NCT") for n in range(len(network.blocks)))]
    if isinstance(network, ViT):
        halvings = len(network.patches.stages) - 1 if hasattr(network.patches, "stages") else 0
        class_tokens = int(isinstance(network.pooling, ClassToken))
        blocks = [Layer(f"encoder.blocks.{n}", "tokens", class_tokens) for n in range(len(network.encoder.blocks))]
        return [*(Layer(f"patches.stages.{n}") for n in range(halvings)), Layer("patches", "tokens"), *blocks]
    if isinstance(network, CNN) and hasattr(network.body, "whitening"):
        # After the first and the last convolution of each group.
        return [Layer("body.whitening"), *(Layer(f"body.groups.{group}.{n}") for group in (1, 2, 3) for n in (3, 6))]
    prefix, inner = next(
        ((prefix, getattr(network, prefix)) for kind, prefix in WRAPPED.items() if isinstance(network, kind)),
        ("", network),
    )
    if not getattr(inner, "feature_info", None):
        raise InputError(f"{type(network).__name__} does not say what its layers are; name some with --layers")
    return feature_layers(network, inner, f"{prefix}." if prefix else "", inputs)


def feature_layers(network: nn.Module, inner: nn.Module, prefix: str, inputs: Tensor) -> list[Layer]:
    """The layers of a timm network (`inner`), whose names in `network` begin with a prefix."""
    modules = dict(inner.named_modules())
    names = []
    for feature in (feature for feature in inner.feature_info if feature["module"] in modules.keys() - {""}):
        module, name = modules[feature["module"]], prefix + feature["module"]
        is_sequence = type(module) is nn.Sequential and all(list(block.children()) for block in module)
        names += [f"{name}.{number}" for number in range(len(module))] if is_sequence else [name]
    return [infer_layer(network, name, inputs[:2]) for name in dict.fromkeys(names)]


def infer_layer(network: nn.Module, name: str, inputs: Tensor, *, in_time: bool = False) -> Layer:
    """A layer by name, with the layout inferred from its output.

    Args:
        network: In evaluation mode.
        name: As in `named_modules`.
        inputs: A few inputs of the network.
        in_time: Whether they are audio.

    Raises:
        InputError: If there is no such layer, it does not run, or its output does not fit a grid.
    """
    with record_outputs(network, [name]) as outputs, torch.no_grad():
        network(inputs)
    if name not in outputs:
        raise InputError(f"layer {name!r} did not run")
    output, inner = outputs[name], unwrapped(network)
    if in_time and output.ndim == 3:
        # The number of channels is the width of the tokens. If both axes have that size, the first is taken as time.
        width = network.tokens.width
        layer = Layer(name, "NCT" if output.shape[1] == width != output.shape[2] else "frames")
    elif output.ndim == 3:
        # In some networks (CaiT, XCiT) the class token is added after this layer.
        count = class_tokens_of(network)
        has_class_tokens = is_square(output.shape[1] - count) or not is_square(output.shape[1])
        layer = Layer(name, "tokens", count if has_class_tokens else 0)
    elif output.ndim == 4 and output.shape[1] == output.shape[2] != output.shape[3]:
        layer = Layer(name, "NHWC")  # the feature map of a square image is square
    else:
        layer = Layer(name, "NHWC" if getattr(inner, "output_fmt", "NCHW") == "NHWC" else "NCHW")
    layer.grid(output)  # raises if it does not fit
    return layer


def is_square(number: int) -> bool:
    """Whether that many tokens can form a square."""
    return number >= 0 and math.isqrt(number) ** 2 == number
