"""Layers by name, their outputs as grids, and the layers of each family of networks; what is refused.

Shapes: B = 2 batch, C = 3 channels, R = 5 rows, W = 7 columns, T tokens or moments, M = 11 mel bins.
"""

import pytest
import timm
import torch
from receptive_networks import MEL, noise
from torch import nn

from vitspeech.frontends import SpeechFrontend
from vitspeech.models import CNN, SpeechClassifier, SpeechCNN, TimmModel, ViT
from vitspeech.receptive.fields.effective import effective_fields
from vitspeech.receptive.fields.layers import (
    Layer,
    default_layers,
    find_module,
    infer_layer,
    record_outputs,
)


class Block(nn.Module):
    """Something with a name of its own, x + f(x)."""

    def __init__(self):
        super().__init__()
        self.expand = nn.Conv2d(3, 3, 1)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        return x + self.activation(self.expand(x))


class Network(nn.Module):
    """Two blocks that have names, a pair and a count that are no grids."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.pair = nn.Identity()
        self.pair.forward = lambda x: (x, x)
        self.head = nn.Flatten()

    def forward(self, x):
        return self.head(self.pair(self.blocks(x))[0])


@pytest.mark.parametrize("class_tokens", [0, 1, 2])
def test_tokens_lie_in_raster_order_behind_the_class_tokens(class_tokens):
    output = torch.randn(2, 9 + class_tokens, 5)
    grid = Layer("a", "tokens", class_tokens).grid(output)
    assert grid.shape == (2, 5, 3, 3)
    for row in range(3):
        for column in range(3):
            assert torch.equal(grid[:, :, row, column], output[:, class_tokens + 3 * row + column])


@pytest.mark.parametrize(
    "layout, shape, axes",
    [("frames", (2, 13, 5), (2, 5, 13, 1)), ("NCT", (2, 5, 13), (2, 5, 13, 1)), ("mel", (2, 13, 11), (2, 1, 13, 11))],
)
def test_moments_are_rows_and_mel_bins_columns(layout, shape, axes):
    output = torch.randn(shape)
    layer = Layer("a", layout)
    grid = layer.grid(output)
    assert grid.shape == axes and layer.in_time
    if layout == "mel":
        assert torch.equal(grid[:, 0], output)
    else:
        moments_first = output if layout == "frames" else output.transpose(1, 2)
        assert torch.equal(grid[..., 0].transpose(1, 2), moments_first)


@pytest.mark.parametrize("tokens, class_tokens", [(8, 0), (9, 1), (10, 0)])
def test_tokens_that_are_no_square_are_refused_by_number(tokens, class_tokens):
    message = f"layer 'stem' gives {tokens} tokens, {class_tokens} of them class tokens, which do not form a square"
    with pytest.raises(ValueError, match=message):
        Layer("stem", "tokens", class_tokens).grid(torch.zeros(2, tokens, 5))


def test_an_unknown_layers_message_lists_close_names():
    with pytest.raises(ValueError, match=r"Network has no layer 'block\.1'; close names: blocks\.1, .*blocks\.0"):
        find_module(Network(), "block.1")
    with pytest.raises(ValueError, match="no layer 'zzz'; close names: none"):
        find_module(Network(), "zzz")
    with pytest.raises(ValueError, match="no layer ''"):
        find_module(Network(), "")


def test_outputs_are_recorded_and_can_be_differentiated_by():
    network, x = Network(), torch.randn(2, 3, 5, 7, requires_grad=True)
    with record_outputs(network, ["blocks.0", "blocks.1.expand", ""]) as outputs:
        assert outputs == {}
        result = network(x)
    assert list(outputs) == ["blocks.0", "blocks.1.expand"]
    assert torch.equal(outputs["blocks.0"], network.blocks[0](x))
    assert torch.equal(result, network(x))
    assert torch.autograd.grad(result.sum(), outputs["blocks.0"], retain_graph=True)[0].shape == x.shape
    assert torch.autograd.grad(outputs["blocks.1.expand"].sum(), outputs["blocks.0"])[0].abs().sum() > 0


def test_an_output_that_the_next_module_changes_in_place_is_recorded_as_it_was():
    network, x = Network(), torch.randn(2, 3, 5, 7)
    with record_outputs(network, ["blocks.0.expand"]) as outputs:
        network(x)
    assert torch.equal(outputs["blocks.0.expand"], network.blocks[0].expand(x))
    assert (outputs["blocks.0.expand"] < 0).any()


def hooks(network):
    return sum(len(module._forward_hooks) for module in network.modules())


def test_hooks_are_removed_afterwards_also_after_an_error():
    network = Network()
    with record_outputs(network, ["blocks.0"]):
        assert hooks(network) == 1
    assert hooks(network) == 0
    with pytest.raises(RuntimeError), record_outputs(network, ["blocks.0"]):
        network(torch.zeros(2, 4, 5, 7))
    assert hooks(network) == 0


def test_a_layer_whose_output_is_not_a_tensor_is_refused_by_name():
    network = Network()
    with pytest.raises(ValueError, match="layer 'pair' gives a tuple, not a tensor"), record_outputs(network, ["pair"]):
        network(torch.zeros(2, 3, 5, 7))
    assert hooks(network) == 0


# The layers of each family of networks.


RESNET = [f"{stage}.{n}" for stage in (1, 2, 3, 4) for n in (0, 1)]
NETWORKS = {  # how to make it, its layers, and px from unit to unit in each
    "vit": (
        lambda: ViT(3, image=32, patch=4, width=8, pooling="class", encoder={"depth": 2, "heads": 2}),
        [Layer("patches", "tokens"), *(Layer(f"encoder.blocks.{n}", "tokens", 1) for n in range(2))],
        [4, 4, 4],
    ),
    "vit, convolutional stem": (
        lambda: ViT(3, image=32, patch=8, width=8, stem="convolutional", encoder={"depth": 1, "heads": 2}),
        [Layer(f"patches.stages.{n}") for n in range(2)]
        + [Layer(name, "tokens") for name in ("patches", "encoder.blocks.0")],
        [2, 4, 8, 8],
    ),
    "cnn": (
        lambda: CNN(3, widths=(5, 7, 11)),
        [Layer("body.whitening"), *(Layer(f"body.groups.{group}.{n}") for group in (1, 2, 3) for n in (3, 6))],
        [1, 2, 2, 4, 4, 8, 8],
    ),
    "resnet18": (
        lambda: timm.create_model("resnet18"),
        [Layer("act1"), *(Layer(f"layer{block}") for block in RESNET)],
        [2, 4, 4, 8, 8, 16, 16, 32, 32],
    ),
    "convnext": (
        lambda: timm.create_model("convnext_atto"),
        [Layer(f"stages.{n}") for n in range(4)],
        [4, 8, 16, 32],
    ),
    "swin": (
        lambda: timm.create_model(
            "swin_tiny_patch4_window7_224", img_size=32, embed_dim=12, depths=(2, 1), num_heads=(1, 2), window_size=4
        ),
        [Layer(f"layers.{n}", "NHWC") for n in range(2)],
        [4, 8],
    ),
    "timm's vit": (
        lambda: TimmModel(3, "vit_tiny_patch16_224", {"img_size": 32, "depth": 2}),
        [Layer(f"network.blocks.{n}", "tokens", 1) for n in range(2)],
        [16, 16],
    ),
}


def measured(network, inputs, layers, source=None, unread=()):
    """Fields of each layer, all of them finite and within what the layer could see."""
    found = effective_fields(network, inputs, layers, source=source, probe_units=1)
    for fields in found:
        for field in (fields.cumulative, fields.block):
            assert field.energy.isfinite().all() and float(field.energy.sum()) > 0
            assert field.outside < 1e-6 and (field.known or fields.layer.name in unread)
        assert fields.cumulative.known == (fields.layer.name not in unread)
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_of_a_network_of_pictures_has_a_grid_and_a_field(name):
    make, expected, strides = NETWORKS[name]
    torch.manual_seed(0)
    network, images = make().eval().requires_grad_(False), noise(2, 3, 32, 32)
    layers = default_layers(network, images)
    assert layers == expected
    merged = {layer.name for layer in layers[1:]} if name == "swin" else ()  # by reshaping
    found = measured(network, images, layers, unread=merged)
    assert [fields.stride for fields in found] == strides
    assert [fields.block_stride for fields in found] == [1, *strides[:-1]]
    whole = [31 if name == "cnn" else 32] * len(strides)  # the 2×2 whitening loses a row
    sides = [side // stride for side, stride in zip(whole, strides, strict=True)]
    assert [fields.grid for fields in found] == [(side, side) for side in sides]


@pytest.mark.parametrize("stem", ["convolutional", "stacked"])
@pytest.mark.parametrize("kind", [SpeechClassifier, SpeechCNN])
def test_every_layer_of_a_network_of_speech_has_a_grid_and_a_field(kind, stem):
    torch.manual_seed(0)
    tokens = SpeechFrontend(8, mels=5, stem=stem, stride=3)
    encoder = {"depth": 2, "heads": 2, "left": 2, "right": 1}
    options = {"encoder": encoder} if kind is SpeechClassifier else {"depth": 2, "kernel": 3}
    network = kind(3, tokens, **options).eval().requires_grad_(False)
    clips = 0.1 * noise(2, 16000)
    layers = default_layers(network, clips)
    name, layout = ("encoder.blocks", "frames") if kind is SpeechClassifier else ("blocks", "NCT")
    assert layers == [Layer("tokens.frames", "frames"), Layer(f"{name}.0", layout), Layer(f"{name}.1", layout)]
    count = (98 - tokens.frames.receptive_field) // 3 + 1
    assert [(fields.grid, fields.stride) for fields in measured(network, clips, layers, MEL)] == [((count, 1), 3)] * 3


def test_layers_by_name_are_laid_out_as_they_give_it():
    network, images = (
        ViT(3, image=24, patch=4, width=8, pooling="class", encoder={"depth": 1, "heads": 2}).eval(),
        noise(2, 3, 24, 24),
    )
    assert infer_layer(network, "encoder.blocks.0.mlp", images) == Layer("encoder.blocks.0.mlp", "tokens", 1)
    tokens = SpeechFrontend(8, mels=5, stride=3)
    network, clips = SpeechCNN(3, tokens, depth=1, kernel=3).eval(), 0.1 * noise(2, 16000)
    assert infer_layer(network, "blocks.0", clips, in_time=True) == Layer("blocks.0", "NCT")
    assert infer_layer(network, "tokens.frames", clips, in_time=True) == Layer("tokens.frames", "frames")
