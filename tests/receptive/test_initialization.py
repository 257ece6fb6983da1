"""Residual branches that start multiplied by zero: found in the graph, switched on, reported; nothing else is changed.

Shapes: B = 4 inputs, N = 32 px.
"""

import pytest
import timm
import torch
from receptive_networks import MEL, noise
from torch import nn

from vitspeech.frontends import SpeechFrontend
from vitspeech.models import CNN, SpeechClassifier, SpeechCNN, ViT
from vitspeech.receptive.fields.layers import INPUT, Layer
from vitspeech.receptive.initialization import (
    estimate_statistics,
    initialize_from,
    switch_on_branches,
    zero_multipliers,
)

SOURCE = Layer(INPUT)


def untrained(make, *arguments, **options):
    torch.manual_seed(0)
    return make(*arguments, **options).eval().requires_grad_(False)


class Branches(nn.Module):
    """x + gain · convolution(x), as often as there are gains."""

    def __init__(self, gains, channels=3):
        super().__init__()
        self.gains = nn.ParameterList([nn.Parameter(torch.tensor(gain)) for gain in gains])
        self.convolutions = nn.ModuleList([nn.Conv2d(channels, channels, 3, padding=1) for _ in gains])
        self.head = nn.Linear(channels, 2)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        for gain, convolution in zip(self.gains, self.convolutions, strict=True):
            x = x + gain * convolution(x)
        return self.head(x.mean((2, 3)))


def test_resnets_are_measured_as_if_their_last_norms_had_not_been_zeroed():
    images = noise(4, 3, 32, 32)
    zeroed = untrained(timm.create_model, "resnet18", zero_init_last=True)
    plain = untrained(timm.create_model, "resnet18", zero_init_last=False)
    note = switch_on_branches(zeroed, images, SOURCE)
    assert note == (
        "residual branches are multiplied by 0 at initialization (8 × BatchNorm2d.weight); "
        "measured with them switched on (set to 1)"
    )
    estimate_statistics(plain, images)
    expected = plain.state_dict()
    assert all(
        torch.equal(tensor, expected[name]) for name, tensor in zeroed.state_dict().items() if "num_" not in name
    )


@pytest.mark.parametrize(
    "name, options, parameters",
    [
        ("resnet18", {}, {f"layer{stage}.{block}.bn2.weight" for stage in (1, 2, 3, 4) for block in (0, 1)}),
        ("resnet18", {"zero_init_last": False}, set()),
        # The gain is a factor of the weights of the last convolution, or of what that gives.
        ("nf_resnet26", {}, {f"stages.{stage}.{block}.conv3.gain" for stage in range(4) for block in (0, 1)}),
        ("convnext_atto", {"depths": (1, 1, 1, 1)}, {f"stages.{stage}.blocks.0.gamma" for stage in range(4)}),
        (
            "swinv2_tiny_window8_256",
            {"img_size": 32, "window_size": 4, "depths": (1, 1), "num_heads": (1, 2), "embed_dim": 12},
            {f"layers.{stage}.blocks.0.norm{number}.weight" for stage in (0, 1) for number in (1, 2)},
        ),
        (
            "vit_tiny_patch16_224",
            {"img_size": 32, "depth": 1, "init_values": 1e-5},
            {f"blocks.0.ls{number}.gamma" for number in (1, 2)},
        ),
        ("vit_tiny_patch16_224", {"img_size": 32, "depth": 1, "init_values": 0.1}, set()),
        ("efficientnet_b0", {}, set()),
    ],
)
def test_multipliers_are_found_in_networks_of_timm(name, options, parameters):
    network = untrained(timm.create_model, name, **options)
    assert set(zero_multipliers(network, noise(2, 3, 32, 32), SOURCE)) == parameters
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_zero_gains_are_found_and_neither_zero_heads_nor_zero_biases():
    network = untrained(Branches, [0.0, 0.5, 0.0])
    nn.init.zeros_(network.convolutions[1].bias)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    note = switch_on_branches(network, noise(2, 3, 8, 8), SOURCE)
    assert "multiplied by 0 at initialization (1 × ParameterList.0, 1 × ParameterList.2)" in note
    changed = {name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"gains.0", "gains.2"} and network.gains[0] == network.gains[2] == 1


def test_zero_convolutions_are_drawn_anew_also_behind_zero_gains():
    network = untrained(Branches, [0.0])
    nn.init.zeros_(network.convolutions[0].weight)
    state = torch.random.get_rng_state()
    note = switch_on_branches(network, noise(2, 3, 8, 8), SOURCE)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert note.endswith(
        "(1 × ParameterList.0, 1 × Conv2d.weight); measured with them switched on (default initialization)"
    )
    bound = 27**-0.5
    assert network.gains[0] == 1 and 0.5 * bound < network.convolutions[0].weight.abs().max() <= bound


def speech(kind, **options):
    tokens = SpeechFrontend(8, mels=5, stride=3)
    return lambda: kind(3, tokens, **options)


@pytest.mark.parametrize(
    "make, shape, source",
    [
        (lambda: ViT(3, image=32, patch=4, width=8, encoder={"depth": 1, "heads": 2}), (4, 3, 32, 32), SOURCE),
        (lambda: CNN(3, widths=(5, 7, 11)), (4, 3, 32, 32), SOURCE),
        (speech(SpeechClassifier, encoder={"depth": 1}), (4, 9000), MEL),
        (speech(SpeechCNN, depth=1), (4, 9000), MEL),
    ],
)
def test_our_own_networks_are_not_changed_and_have_no_note(make, shape, source):
    network, inputs = untrained(make), noise(*shape)
    initialize_from(network, inputs)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert switch_on_branches(network, inputs, source) is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
