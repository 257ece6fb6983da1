"""An image classifier as a graph: pixels in, probabilities out, normalization inside.

Shapes: B batch, S side of a picture, C classes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vitspeech.checkpoint.folder import Model
from vitspeech.data.images.reading import read_picture
from vitspeech.errors import InputError
from vitspeech.export.attention_outputs import WithAttention
from vitspeech.export.gate import check_batches, check_weights
from vitspeech.export.kind import Graph, Kind, generator
from vitspeech.samples import FOLDER

PICTURES = ("cat.jpg", "horse.jpg")
BATCHES = (2, 1, 5)  # sizes of the batches that the gate compares; the exporter takes a first one of 1 for fixed


class ImageGraph(nn.Module):
    """Pixels of any number of pictures to probabilities.

    Args:
        network: An image classifier in evaluation mode.
        preprocessing: Its `mean` and `std` per channel, for values in 0..1.

    Shape:
        uint8 (B, S, S, 3) -> (B, C)
    """

    def __init__(self, network: nn.Module, preprocessing: Mapping[str, Any]) -> None:
        super().__init__()
        self.network = network
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(preprocessing[name]).view(-1, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.logits(pixels).softmax(-1)

    def logits(self, pixels: Tensor) -> Tensor:
        """The logits of pictures: uint8 (B, S, S, 3) -> (B, C)."""
        return self.network((pixels.movedim(3, 1).float() / 255 - self.mean) / self.std)


def image_kind(model: Model, attention: bool = False) -> Kind:
    """How an image classifier is exported.

    Raises:
        InputError: If there are no attention weights to export.
    """
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

    def check(sessions: Mapping[str, Any]) -> dict[str, float]:
        running = sessions["model.onnx"]
        found = check_batches(running, module, batches(side))
        return found | (check_weights(running, exported, batches(side)) if attention else {})

    return Kind(
        "images",
        {"model.onnx": Graph(exported, {"pixels": pixels}, outputs, {"pixels": {0: "batch"}})},
        check,
        metadata,
    )


def has_attention(model: Model) -> bool:
    """Whether an image classifier can be exported with its attention weights."""
    try:
        image_kind(model, attention=True)
    except InputError:
        return False
    return True


def batches(side: int) -> Iterator[Tensor]:
    """Batches for the gate: the sample pictures, shifted, mirrored and dimmed at random: uint8 (B, S, S, 3)."""
    numbers = generator()
    pictures = torch.stack([read_picture(FOLDER / name, side) for name in PICTURES]).movedim(1, 3).float()
    for size in BATCHES:
        pixels = pictures[torch.randint(len(pictures), (size,), generator=numbers)]
        shift = torch.randint(side, (2,), generator=numbers).tolist()
        dimmed = torch.rand(size, 1, 1, 1, generator=numbers)
        yield (pixels.roll(shift, (1, 2)) * (0.3 + 0.7 * dimmed)).round().to(torch.uint8)
