"""An image classifier as a graph: pixels in, probabilities out, normalization inside; attention weights if wanted.

Shapes: B batch, S side of an image, C classes, H heads, T tokens: class tokens first, then patches in raster order.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from vitspeech.attention import MultiHeadAttention
from vitspeech.checkpoint.model import Model
from vitspeech.data.images.reading import read_picture
from vitspeech.errors import InputError
from vitspeech.export.graphs import ExportSpec, Graph, generator
from vitspeech.export.parity import compare_batches, compare_weights
from vitspeech.models import ViT
from vitspeech.receptive.heads.measures import class_tokens_of
from vitspeech.receptive.heads.weights import multi_head, unwrapped
from vitspeech.samples import FOLDER

PICTURES = ("cat.jpg", "horse.jpg")
BATCHES = (2, 1, 5)  # sizes of the batches that are compared; the exporter takes a first one of 1 for fixed


class ImageGraph(nn.Module):
    """An image classifier in evaluation mode as a graph: uint8 (B, S, S, 3) -> probabilities (B, C).

    `preprocessing` has its `mean` and `std` per channel, for values in 0..1.
    """

    def __init__(self, network: nn.Module, preprocessing: Mapping[str, Any]) -> None:
        super().__init__()
        self.network = network
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(preprocessing[name]).view(-1, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.network((pixels.movedim(3, 1).float() / 255 - self.mean) / self.std).softmax(-1)


class WithAttention(nn.Module):
    """An `ImageGraph` that also returns the attention weights of each of its layers, in the order in which they run.

    It has a copy of the classifier, whose layers compute softmax(QKᵀ/√K) and its product with V in separate steps.

    Shape:
        uint8 (B, S, S, 3) -> (B, C), weights (B, H, T, T) of each layer
    """

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = copy.deepcopy(classifier)
        self.weights: list[Tensor] = []
        layers = list(filter(attends, self.classifier.network.modules()))
        if not layers:
            raise InputError(f"{name_of(classifier.network)} has no attention weights to export")
        for layer in layers:
            if isinstance(layer, MultiHeadAttention):
                layer.register_forward_hook(self.attend, with_kwargs=True)
            else:
                layer.fused_attn = False
                layer.attn_drop.register_forward_hook(lambda dropout, args, weights: self.weights.append(weights))

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        labels = self.classifier(pixels)
        weights, self.weights = self.weights, []  # torch.export accepts no tensor that stays in a module
        return labels, *weights

    def attend(self, layer: MultiHeadAttention, args: tuple, kwargs: dict[str, Any], output: Tensor) -> Tensor:
        """The output of one of our layers; its weights are noted."""
        recomputed, weights = multi_head(layer, *args, **kwargs)
        self.weights.append(weights)
        return recomputed

    @torch.inference_mode()
    def metadata(self, pixels: Tensor) -> dict[str, Any]:
        """What a caller must know of the weights: `attention` (outputs and heads), `grid`, `class_tokens`.

        The `pixels` are any image. It is an `InputError` if the weights of a layer are not those of all class tokens
        and patches.
        """
        network = self.classifier.network
        weights = self(pixels)[1:]
        grid, class_tokens = tokens_of(network)
        expected = 2 * (class_tokens + grid[0] * grid[1],)
        for number, layer in enumerate(weights):
            if layer.ndim != 4 or len(layer) != len(pixels) or layer.shape[2:] != expected:
                raise InputError(
                    f"{name_of(network)}: the attention weights of layer {number}, {tuple(layer.shape)}, are not of "
                    f"the {grid[0]} × {grid[1]} patches and {class_tokens} class tokens, so they can't be exported"
                )
        outputs = [{"output": f"attention_{number}", "heads": layer.shape[1]} for number, layer in enumerate(weights)]
        return {"attention": outputs, "grid": grid, "class_tokens": class_tokens}


def attends(module: nn.Module) -> bool:
    """Whether it is an attention layer whose weights are known: ours, or one of timm that can run unfused."""
    return isinstance(module, MultiHeadAttention) or (
        isinstance(getattr(module, "fused_attn", None), bool)
        and isinstance(getattr(module, "attn_drop", None), nn.Module)
    )


def tokens_of(network: nn.Module) -> tuple[list[int], int]:
    """Rows and columns of the patches of a `ViT` or a timm vision transformer, and the number of tokens before them."""
    grid = getattr(getattr(unwrapped(network), "patch_embed", None), "grid_size", None)
    if isinstance(network, ViT):
        grid = [network.patches.grid] * 2
    if grid is None:
        raise InputError(f"{name_of(network)}: its attention can't be exported: its tokens can't be mapped to patches")
    return list(grid), class_tokens_of(network)


def name_of(network: nn.Module) -> str:
    """The class of a network, or of the timm network within."""
    return type(unwrapped(network)).__name__


def image_spec(model: Model, attention: bool) -> ExportSpec:
    """How an image classifier is exported; an `InputError` if there are no attention weights to export."""
    preprocessing = model.preprocessing
    side, module = preprocessing["image"], ImageGraph(model.network, preprocessing).eval()
    pixels = next(batches(side))
    metadata = {"side": side, "mean": list(preprocessing["mean"]), "std": list(preprocessing["std"])}
    metadata |= {"crop": "center square", "resampling": "bicubic, antialiased", "attention": []}
    exported = module
    if attention:
        exported = WithAttention(module).eval()
        metadata |= exported.metadata(pixels)
    outputs = ["probabilities", *(layer["output"] for layer in metadata["attention"])]

    def compare(sessions: Mapping[str, Any]) -> dict[str, float]:
        running = sessions["model.onnx"]
        found = compare_batches(running, module, batches(side))
        return found | (compare_weights(pairs_of_weights(running, exported, batches(side))) if attention else {})

    graph = Graph(exported, {"pixels": pixels}, outputs, {"pixels": {0: "batch"}})
    return ExportSpec("images", {"model.onnx": graph}, compare, metadata)


def pairs_of_weights(
    running: Any, module: WithAttention, batches: Iterable[Tensor]
) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
    """The attention weights of the network and of ONNX Runtime, of each layer and batch."""
    for pixels in batches:
        with torch.inference_mode():
            expected = [weights.numpy() for weights in module(pixels)[1:]]
        yield from zip(expected, running.run(None, {"pixels": pixels.numpy()})[1:], strict=True)


def batches(side: int) -> Iterator[Tensor]:
    """Batches to compare: the sample images, shifted, mirrored and dimmed at random: uint8 (B, S, S, 3)."""
    numbers = generator()
    pictures = torch.stack([read_picture(FOLDER / name, side) for name in PICTURES]).movedim(1, 3).float()
    for size in BATCHES:
        pixels = pictures[torch.randint(len(pictures), (size,), generator=numbers)]
        shift = torch.randint(side, (2,), generator=numbers).tolist()
        dimmed = torch.rand(size, 1, 1, 1, generator=numbers)
        yield (pixels.roll(shift, (1, 2)) * (0.3 + 0.7 * dimmed)).round().to(torch.uint8)
