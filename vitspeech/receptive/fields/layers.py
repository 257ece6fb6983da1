"""Layers by name, their outputs arranged on grids, and the layers that are measured by default.

A grid is the common form in which images and audio are measured. For audio, rows are times and columns are mel bins;
there is a single column once the mel bins have become channels.

Shapes: B batch, C channels, R rows, W columns, T tokens, M mel bins.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken
from vitspeech.errors import InputError
from vitspeech.models import CNN, SpeechCNN, TimmModel, ViT
from vitspeech.models.speech import SpeechEncoder
from vitspeech.receptive.heads.measures import class_tokens_of
from vitspeech.receptive.heads.weights import unwrapped

LAYOUTS = {"NCHW": 4, "NHWC": 4, "tokens": 3, "frames": 3, "NCT": 3, "mel": 3}  # axes of an output
INPUT = ""  # the name of the network's input


@dataclass(frozen=True)
class Layer:
    """A module of a network, by name, and the layout of its output.

    Args:
        name: As in `named_modules`; "" is the network's input.
        layout: Of the output: `NCHW`, `NHWC`, `tokens` of a square image in raster order (B, T, C), `frames` over time
            (B, T, C), `NCT`, or `mel` (B, T, M).
        class_tokens: Number of leading `tokens` without a position in the image: class tokens and registers.
    """

    name: str
    layout: str = "NCHW"
    class_tokens: int = 0

    @property
    def in_time(self) -> bool:
        """Whether positions are times."""
        return self.layout in ("frames", "NCT", "mel")

    def grid(self, output: Tensor) -> Tensor:
        """The layer's output as (B, C, R, W)."""
        if output.ndim != LAYOUTS[self.layout]:
            raise InputError(f"layer {self.name!r} gives {tuple(output.shape)}, which is not laid out as {self.layout}")
        if self.layout == "NHWC":
            return output.movedim(-1, 1)
        if self.layout == "frames":
            return output.transpose(1, 2)[..., None]
        if self.layout == "NCT":
            return output[..., None]
        if self.layout == "mel":
            return output[:, None]
        if self.layout == "tokens":
            count = output.shape[1] - self.class_tokens
            if not is_square(count) or not count:
                raise InputError(
                    f"layer {self.name!r} gives {output.shape[1]} tokens, {self.class_tokens} of them class tokens, "
                    "which do not form a square"
                )
            side = math.isqrt(count)
            return output[:, self.class_tokens :].unflatten(1, (side, side)).permute(0, 3, 1, 2)
        return output


def find_module(network: nn.Module, name: str) -> nn.Module:
    """The module with that name."""
    modules = dict(network.named_modules(remove_duplicate=False))
    if name in modules and name != INPUT:
        return modules[name]
    close = get_close_matches(name, modules, n=5, cutoff=0.4)
    raise InputError(f"{type(network).__name__} has no layer {name!r}; close names: {', '.join(close) or 'none'}")


@contextmanager
def record_outputs(network: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Record the outputs of the named layers in each forward pass within the context, ready for differentiation.

    A layer that runs several times leaves its last output. An output that requires no gradient (log-mel frames, since
    waveforms are data) becomes a leaf of the graph.
    """
    outputs: dict[str, Tensor] = {}

    def record(name: str, module: nn.Module, args: tuple, output: Tensor) -> Tensor:
        if not isinstance(output, Tensor):
            raise InputError(f"layer {name!r} gives a {type(output).__name__}, not a tensor")
        outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
        # The network continues with a copy, because the next module may change it in place.
        return outputs[name].clone()

    with ExitStack() as hooks:
        for name in dict.fromkeys(names):
            if name != INPUT:
                hooks.enter_context(find_module(network, name).register_forward_hook(partial(record, name)))
        yield outputs


WRAPPED = {CNN: "body", TimmModel: "network"}  # attributes under which our models hold a timm network


def default_layers(network: nn.Module, inputs: Tensor) -> list[Layer]:
    """The layers to measure, in the order in which they run.

    For our models these are the stem and the blocks. For timm's networks these are the modules in `feature_info`;
    stages that are plain sequences of blocks are replaced by their blocks.

    Args:
        network: One of our models, or a timm network.
        inputs: A few inputs, from which the layout of timm's layers is read.
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
    attribute = next((name for kind, name in WRAPPED.items() if isinstance(network, kind)), "")
    inner, prefix = network.get_submodule(attribute), f"{attribute}." * bool(attribute)
    if not getattr(inner, "feature_info", None):
        raise InputError(f"{type(network).__name__} does not say what its layers are; name some with --layers")
    modules, names = dict(inner.named_modules()), []
    for feature in (feature for feature in inner.feature_info if feature["module"] in modules.keys() - {""}):
        module, name = modules[feature["module"]], prefix + feature["module"]
        is_sequence = type(module) is nn.Sequential and all(list(block.children()) for block in module)
        names += [f"{name}.{number}" for number in range(len(module))] if is_sequence else [name]
    return [infer_layer(network, name, inputs[:2]) for name in dict.fromkeys(names)]


def infer_layer(network: nn.Module, name: str, inputs: Tensor, *, in_time: bool = False) -> Layer:
    """A layer by name, with the layout inferred from its output; `in_time` is for audio."""
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


def evenly_spaced(items: Sequence, count: int) -> list:
    """At most `count` items, evenly spaced, among them the first and the last."""
    last, count = len(items) - 1, min(count, len(items))
    return [items[round(number * last / max(count - 1, 1))] for number in range(count)]


def is_square(number: int) -> bool:
    """Whether that many tokens can form a square."""
    return number >= 0 and math.isqrt(number) ** 2 == number
