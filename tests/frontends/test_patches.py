"""Patches against nn.Conv2d with the same weights; their order, their reach, their errors.

Shapes: B = 2 images, C = 3 channels, D = 37.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.frontends import ConvolutionalPatches, LinearPatches, WhitenedPatches
from vitspeech.models import CNN

STEMS = pytest.mark.parametrize("stem", [LinearPatches, ConvolutionalPatches, WhitenedPatches])


def images(side, channels=3, batch=2, seed=0):
    return torch.randn(batch, channels, side, side, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("side, patch, channels", [(15, 5, 3), (14, 2, 1), (7, 7, 3), (6, 1, 5)])
def test_linear_patches_equal_a_convolution_with_the_patch_as_stride(side, patch, channels):
    torch.manual_seed(0)
    ours = LinearPatches(side, patch, 37, channels).double()
    theirs = nn.Conv2d(channels, 37, patch, stride=patch, dtype=torch.float64)
    with torch.no_grad():
        ours.project.weight.copy_(theirs.weight.flatten(1))
        ours.project.bias.copy_(theirs.bias)
    given, same = (images(side, channels).double().requires_grad_() for _ in range(2))
    tokens, expected = ours(given), theirs(same).flatten(2).transpose(1, 2)
    assert tokens.shape == (2, (side // patch) ** 2, 37)
    assert_close(tokens, expected)
    tokens.square().sum().backward()
    expected.square().sum().backward()
    assert_close(given.grad, same.grad)
    assert_close(ours.project.weight.grad, theirs.weight.grad.flatten(1))


def test_convolutional_patches_take_other_channels_and_sides():
    assert ConvolutionalPatches(12, 4, 37, channels=1)(images(12, channels=1)).shape == (2, 9, 37)


@pytest.mark.parametrize("patch, widths", [(2, [37]), (4, [18, 37]), (8, [16, 18, 37])])
def test_convolutional_stem_is_a_halving_stage_for_each_power_of_two(patch, widths):
    torch.manual_seed(0)
    stem, whole = ConvolutionalPatches(32, patch, 37).eval(), images(32)
    features = whole
    for stage, width in zip(stem.stages, widths, strict=True):
        conv, norm = stage[0], stage[2]
        for drawn in (norm.weight, norm.bias, norm.running_mean):
            nn.init.normal_(drawn)
        features = F.max_pool2d(F.conv2d(features, conv.weight, padding=1), 3, stride=2, padding=1)
        scale, shift, mean, variance = (
            tensor[:, None, None] for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        )
        features = F.gelu((features - mean) / (variance + 1e-5).sqrt() * scale + shift)
        assert features.shape[1] == width
    assert_close(stem(whole), features.flatten(2).mT, atol=1e-4, rtol=1e-4)


@STEMS
@pytest.mark.parametrize("image, patch", [(32, 0), (30, 4)])
def test_patch_that_does_not_divide_the_image_is_an_error_that_names_both(stem, image, patch):
    with pytest.raises(ValueError, match=f"patch={patch} does not divide image={image}"):
        stem(image, patch, 37)


@pytest.mark.parametrize("stem", [ConvolutionalPatches, WhitenedPatches])
@pytest.mark.parametrize("patch", [1, 6])
def test_convolutional_stem_needs_a_patch_size_that_is_a_power_of_two(patch, stem):
    with pytest.raises(ValueError, match=f"patch={patch} is not 2, 4, 8"):
        stem(36, patch, 37)


@pytest.mark.parametrize("first, widths", [(5, [5, 10, 37]), (20, [20, 37, 37]), (37, [37, 37, 37])])
@pytest.mark.parametrize("stem", [ConvolutionalPatches, WhitenedPatches])
def test_first_width_of_a_stem_doubles_up_to_that_of_the_model(stem, first, widths):
    stages = stem(16, 8, 37, first=first).stages
    assert [stage[0].out_channels for stage in stages] == widths


@pytest.mark.parametrize("first", [0, 38])
def test_first_width_of_a_stem_is_at_most_that_of_the_model(first):
    with pytest.raises(ValueError, match=f"stem_width={first}"):
        WhitenedPatches(16, 4, 37, first)


def test_whitened_stem_is_the_beginning_of_the_cnn_on_padded_images():
    torch.manual_seed(0)
    network, stem, whole = CNN(widths=(5, 11, 13)).eval(), WhitenedPatches(16, 4, 11, first=5).eval(), images(16)
    network.initialize(images(16, batch=50))
    stem.whitening.load_state_dict(network.body.whitening.state_dict())
    for number, stage in enumerate(stem.stages, 1):
        stage.load_state_dict(network.body.groups[number].state_dict())
    maps = network.body.groups[:3](network.body.whitening(F.pad(whole, (0, 1, 0, 1))))
    assert_close(stem(whole), maps.flatten(2).mT)


@STEMS
@pytest.mark.parametrize("shape", [(2, 3, 12, 16), (2, 5, 16, 16), (3, 16, 16)])
def test_image_of_another_size_is_an_error_that_names_both_sizes(stem, shape):
    with pytest.raises(ValueError) as error:
        stem(16, 4, 37)(torch.zeros(shape))
    assert f"images of shape {shape} are not (batch, 3, 16, 16)" in str(error.value)
