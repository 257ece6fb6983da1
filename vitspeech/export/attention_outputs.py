"""Attention weights as further outputs of an image classifier.

Shapes: B batch, S side of a picture, C classes, H heads, T tokens: class tokens first, then patches in raster order.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken, MultiHeadAttention
from vitspeech.errors import InputError
from vitspeech.models import TimmModel, ViT


class WithAttention(nn.Module):
    """A classifier that also returns the attention weights of each of its layers, in the order in which they run.

    It has a copy of the classifier, whose layers compute softmax(QKᵀ/√K) and its product with V in separate steps.

    Args:
        classifier: In evaluation mode, with the `ViT` or timm vision transformer as `network`: pixels (B, S, S, 3) to
            probabilities (B, C).

    Shape:
        uint8 (B, S, S, 3) -> (B, C), weights (B, H, T, T) of each layer

    Raises:
        InputError: If the network has no attention layer whose weights are known.
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
        self.weights = []
        return self.classifier(pixels), *self.weights

    def attend(
        self, layer: MultiHeadAttention, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
    ) -> Tensor:
        """The output of one of our layers; its weights are noted."""
        (x,) = args
        query, key, value = layer.project(x, None)
        attended, weights = layer.attend(query, key, value, layer.allowed(query, key, kwargs.get("padding"), None))
        self.weights.append(weights)
        return layer.output(layer.joined(attended))

    @torch.inference_mode()
    def metadata(self, pixels: Tensor) -> dict[str, Any]:
        """What a caller must know of the weights: `attention` (outputs and heads), `grid`, `class_tokens`.

        Args:
            pixels: Any picture.

        Raises:
            InputError: If the weights of a layer are not those of all class tokens and patches.
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
    """Rows and columns of the patches, and the number of tokens before them.

    Raises:
        InputError: If the network is neither a `ViT` nor a vision transformer of timm.
    """
    if isinstance(network, ViT):
        return [network.patches.grid] * 2, int(isinstance(network.pooling, ClassToken))
    inner = network.network if isinstance(network, TimmModel) else network
    grid = getattr(getattr(inner, "patch_embed", None), "grid_size", None)
    if grid is None:
        raise InputError(f"{name_of(network)}: its attention can't be exported: its tokens can't be mapped to patches")
    return list(grid), getattr(inner, "num_prefix_tokens", 0)


def name_of(network: nn.Module) -> str:
    """The class of a network, or of the timm network within."""
    return type(network.network if isinstance(network, TimmModel) else network).__name__
