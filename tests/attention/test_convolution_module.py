"""The convolution module: what it covers, and what it leaves out."""

import subprocess
import sys

import pytest
import torch

from vitspeech.attention import ConvolutionModule, Encoder, EncoderConfig
from vitspeech.errors import InputError


def influence(module, tokens=12, place=6):
    """The places of outputs that change with the input at `place`."""
    x = torch.randn(1, tokens, 4, dtype=torch.float64)
    changed = x.clone()
    changed[:, place] += torch.randn(4, dtype=torch.float64)
    return (module(x) - module(changed))[0].abs().amax(-1).nonzero()[:, 0].tolist()


@pytest.mark.parametrize(("right", "places"), [(0, [6, 7, 8, 9, 10]), (2, [4, 5, 6, 7, 8]), (4, [2, 3, 4, 5, 6])])
def test_a_token_depends_on_those_of_the_kernel(right, places):
    torch.manual_seed(0)
    assert influence(ConvolutionModule(4, 5, right).double()) == places


def test_it_is_the_formula_of_the_paper_with_a_layer_norm():
    torch.manual_seed(0)
    module, x = ConvolutionModule(4, 3, 1), torch.randn(2, 7, 4)
    value, gate = module.enter(x).chunk(2, dim=-1)
    hidden = (value * gate.sigmoid()).transpose(1, 2)
    hidden = torch.nn.functional.conv1d(hidden, module.depthwise.weight, module.depthwise.bias, padding=1, groups=4)
    normed = module.norm(hidden.transpose(1, 2))
    torch.testing.assert_close(module(x), module.leave(normed * normed.sigmoid()))


def test_padding_counts_as_the_zeros_after_the_end():
    torch.manual_seed(0)
    module, x = ConvolutionModule(4, 5, 2), torch.randn(1, 6, 4)
    padded = torch.cat((x, torch.randn(1, 3, 4)), dim=1)
    valid = torch.arange(9)[None] < 6
    torch.testing.assert_close(module(padded, valid)[:, :6], module(x))


def test_the_kernel_is_centered_where_the_look_ahead_is_unlimited_and_else_causal():
    blocks = Encoder(8, EncoderConfig(depth=2, heads=2, right=[None, 1], convolution=15)).blocks
    assert [(block.convolution.left, block.convolution.right) for block in blocks] == [(7, 7), (14, 0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"convolution": -1}, "convolution=-1"),
        ({"convolution": 3, "convolution_right": 3}, "convolution_right=3"),
        ({"convolution": 3, "convolution_right": [1, 1, 1]}, r"convolution_right=\[1, 1, 1\] has 3 entries"),
    ],
)
def test_bad_settings_get_one_line(options, message):
    with pytest.raises(InputError, match=message):
        Encoder(8, EncoderConfig(depth=2, heads=2, **options))


def test_bf16_training_returns_for_every_shape():
    """oneDNN's bf16 kernel does not return from these, on two threads."""
    code = """
import torch
from vitspeech.attention import ConvolutionModule
torch.set_num_threads(2)
for shape in ((1, 56, 144), (3, 32, 144), (5, 34, 144)):
    module, x = ConvolutionModule(144, 15), torch.randn(shape)
    expected = module(x)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = module(x)
    assert mixed.dtype == torch.bfloat16
    torch.testing.assert_close(mixed.float(), expected, atol=0.02, rtol=0.05)
    mixed.sum().backward()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
