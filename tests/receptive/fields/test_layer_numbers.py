"""Layers in numbers: px and ms of fields whose places are known, the reach of truncated encoders, the mel scale.

Shapes: B inputs, N image side or samples of a clip, M mel bins.
"""

from math import inf

import pytest
import torch
from receptive_networks import MEL, noise
from tiny import ROOT
from torch import nn

from vitspeech import checkpoint
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier, ViT
from vitspeech.receptive.fields.layer_numbers import effective_field_ms, layer_numbers
from vitspeech.receptive.fields.layers import INPUT, Layer, default_layers
from vitspeech.receptive.fields.measures import extent, extent_in_frequency, extent_in_time

PIXELS = Layer(INPUT)


def recognizer(left, right, **options):
    torch.manual_seed(0)
    tokens = SpeechFrontend(8, mels=5, stride=3, **options)
    return (
        SpeechClassifier(3, tokens, encoder={"depth": 2, "heads": 2, "left": left, "right": right})
        .eval()
        .requires_grad_(False)
    )


def test_a_picture_is_measured_in_pixels():
    torch.manual_seed(0)
    network = ViT(5, image=20, patch=4, width=8, encoder={"depth": 2, "heads": 2}).eval()
    images = noise(3, 3, 20, 20)
    patches, first, second = layer_numbers(network, images, default_layers(network, images), PIXELS)
    assert [layer.name for layer in (patches, first, second)] == ["patches", "encoder.blocks.0", "encoder.blocks.1"]
    assert [layer.depth for layer in (patches, first, second)] == [1 / 3, 2 / 3, 1]
    assert all(layer.cell == 1 and layer.stride == 4 and layer.frequency is None for layer in (patches, first, second))
    assert patches.cumulative["side_99"].value < 4
    assert patches.theoretical == (1.5, 1.5) and first.theoretical == (inf, inf)
    assert patches.cumulative["of_theoretical"].value <= 4 / 12**0.5
    assert patches.cumulative_cut is None and patches.block == patches.cumulative
    # From block to block a place is a patch of 4 px.
    assert second.block == extent(second.fields.block, cell=4)
    assert second.cumulative == extent(second.fields.cumulative)
    assert second.cumulative_cut == extent(second.fields.cumulative_cut)
    assert second.block_cut == extent(second.fields.block_cut, cell=4)
    assert second.block["side_50"].value < second.block_cut["side_50"].value


def test_a_clip_is_measured_in_milliseconds():
    network = recognizer([3, 2], [1, 0], hop_ms=8.0)
    clips = 0.1 * noise(3, 12000)
    frames, first, second = layer_numbers(network, clips, default_layers(network, clips), MEL)
    assert frames.cell == 8 and [layer.stride for layer in (frames, first, second)] == [24, 24, 24]
    # A token is in the middle of 7 frames; 3 frames lie between tokens.
    assert [layer.theoretical for layer in (frames, first, second)] == [
        (24, 24),
        (24 + 72, 24 + 24),
        (24 + 120, 24 + 24),
    ]
    assert second.cumulative == extent_in_time(second.fields.cumulative, cell_ms=8)
    assert second.cumulative_cut == extent_in_time(second.fields.cumulative_cut, cell_ms=8)
    assert second.block == extent_in_time(second.fields.block, cell_ms=24)
    assert second.block_cut == extent_in_time(second.fields.block_cut, cell_ms=24)
    centers = network.tokens.log_mel.centers_hz
    assert second.frequency == extent_in_frequency(second.fields.cumulative, centers)
    assert 0 < second.block["back_90"].value <= 48 and second.block["ahead_90"].value == 0
    assert second.block["ahead_share"].value == 0 < first.block["ahead_share"].value


def test_a_released_recognizers_reach_is_its_context_and_its_stem():
    network = checkpoint.load(ROOT / "checkpoints" / "speech-commands-truncated").network.requires_grad_(False)
    clips = 0.1 * noise(2, 16000)
    layers = layer_numbers(network, clips, default_layers(network, clips), MEL, cumulative_only=True)
    # In each of 5 blocks attention reaches 8 tokens of 40 ms back and 2 ahead, then the convolution 6 back; the stem
    # reaches 3 frames of 10 ms to both sides.
    assert [layer.theoretical for layer in layers] == [(30 + 560 * blocks, 30 + 80 * blocks) for blocks in range(6)]
    assert network.context_ms["look_back_ms"] == 560 * 5 and network.context_ms["look_ahead_ms"] == 80 * 5
    for layer in layers:
        back, ahead = (side / 10 for side in layer.theoretical)
        rows, energy = layer.fields.cumulative.rows, layer.fields.cumulative.energy
        assert not energy[:, (rows < -back) | (rows > ahead)].any()


@pytest.mark.parametrize(
    "name, strides, sizes",
    [
        # 2×2 whitening; then in each group 3×3 convolution, 2×2 pooling (first layer), 3×3 convolution (second).
        ("cnn-cifar10", [1, 2, 2, 4, 4, 8, 8], [2, 5, 9, 15, 23, 35, 51]),
        # Twice 3×3 convolution and 3×3 pooling of stride 2; then attention.
        ("vit-cifar10", [2, *[4] * 7], [5, 13, *[inf] * 6]),
    ],
)
def test_a_released_classifiers_layers_see_what_their_kernels_let_them(name, strides, sizes):
    network = checkpoint.load(ROOT / "checkpoints" / name).network.requires_grad_(False)
    images = noise(2, 3, 32, 32)
    layers = layer_numbers(network, images, default_layers(network, images), PIXELS, cumulative_only=True)
    assert [layer.stride for layer in layers] == strides
    assert [layer.fields.cumulative.theoretical[0].size for layer in layers] == sizes
    assert all(sum(layer.theoretical) + 1 == size for layer, size in zip(layers, sizes, strict=True))
    for layer in layers:
        assert layer.fields.cumulative.known and layer.block is layer.block_cut is layer.cumulative_cut is None
        assert 0 < layer.cumulative["width"].value <= layer.uniform["cumulative"]["width"]
        assert layer.cumulative["of_theoretical"].value < 1.2


CLIPS = 0.1 * torch.randn(4, 32000, generator=torch.Generator().manual_seed(0))


class Shift(nn.Module):
    """Each output is the token a number of places before (after, if negative), in a circle."""

    width, receptive_field = 8, (None, None)

    def __init__(self, places: int) -> None:
        super().__init__()
        self.places = places

    def forward(self, x, padding=None):
        return x.roll(self.places, 1)


def heard(encoder, clips=CLIPS):
    torch.manual_seed(0)
    network = SpeechClassifier(3, SpeechFrontend(8, mels=5, stem="stacked", stride=4), encoder)
    return effective_field_ms(network.eval(), clips)


@pytest.mark.parametrize("places", [0, 3, 7, -5])
def test_a_shift_reaches_as_far_as_it_shifts(places):
    back, ahead = heard(Shift(places))  # tokens of four frames of 10 ms, ±15 ms around their center
    for number, side in ((places, back), (-places, ahead)):
        if number > 0:
            assert 40 * number - 15 <= side <= 40 * number + 15
        elif number == 0:
            assert side <= 15


def test_a_causal_network_hears_ahead_only_within_its_token():
    back, ahead = heard(RecurrentEncoder(8, 2, bidirectional=False))
    assert back > 15 and ahead <= 15
    assert min(heard(RecurrentEncoder(8, 2))) > 15


def test_a_window_bounds_both():
    back, ahead = heard(WindowMLP(8, left=6, right=2, hidden=16))
    assert 100 < back <= 6 * 40 + 15 and 15 < ahead <= 2 * 40 + 15
