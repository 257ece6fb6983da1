"""Self-attention set to a convolution's weights against conv2d, and against a softmax over all pixels written out.

Shapes: B = 2 images, D = 3 or 7 channels in, E = 5 out, R = 11 rows, C = 13 columns.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.attention.convolution import HARD, QuadraticAttention, attention_from_convolution

# PyTorch warns that "same" with an even kernel copies the image.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")

KERNELS = {
    "1x1": {"kernel_size": 1},
    "3x3": {"kernel_size": 3},
    "no bias": {"kernel_size": 3, "bias": False},
    "5x5": {"kernel_size": 5},
    "2x2": {"kernel_size": 2},
    "4x3": {"kernel_size": (4, 3)},
    "dilated": {"kernel_size": (3, 2), "dilation": (2, 3)},
}
PADDINGS = ["same", "valid", 0, 1, (2, 5)]


def convolution(width_in=3, dtype=torch.float64, **options):
    torch.manual_seed(0)
    return nn.Conv2d(width_in, 5, **options, dtype=dtype)


def image(width=3, dtype=torch.float64):
    return torch.randn(2, width, 11, 13, generator=torch.Generator().manual_seed(1), dtype=dtype)


def conv2d(reference, x):
    options = {"padding": reference.padding, "dilation": reference.dilation}
    return F.conv2d(x, reference.weight, reference.bias, **options)


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("width_in", [3, 7], ids=["wider", "narrower"])
def test_equals_conv2d_for_every_padding(width_in, kernel, padding):
    reference, x = convolution(width_in, padding=padding, **KERNELS[kernel]), image(width_in)
    assert_close(attention_from_convolution(reference)(x), conv2d(reference, x))


def test_rounds_no_worse_than_a_convolution():
    reference, x = convolution(7, torch.float32, kernel_size=3, padding=1), image(7, torch.float32)
    truth = F.conv2d(x.double(), reference.weight.double(), reference.bias.double(), padding=1)
    ours, theirs = ((way(x) - truth).abs().max() for way in (attention_from_convolution(reference), reference))
    assert ours < 3 * theirs


def test_gradients_of_image_and_kernel_are_those_of_conv2d():
    reference, x = convolution(kernel_size=3, padding=1), image().requires_grad_()
    ours = attention_from_convolution(reference)
    result, expected = ours(x).square().sum(), reference(x).square().sum()
    assert_close(*(torch.autograd.grad(loss, x, retain_graph=True)[0] for loss in (result, expected)))
    result.backward()
    expected.backward()
    # Three channels in and five out: values pass as they are, the kernel's slices are the output's weights.
    by_place = ours.output.weight.grad.unflatten(1, (3, 3, 3)).permute(0, 3, 1, 2)
    assert_close(by_place, reference.weight.grad)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_head_looks_at_one_shift_and_its_weights_sum_to_one(kernel, dtype):
    reference = convolution(dtype=dtype, padding="same", **KERNELS[kernel])
    ours = attention_from_convolution(reference)
    above, below, left, right = ours.padding
    rows, columns = 11 + above + below, 13 + left + right
    weights = ours.weights(11, 13).detach()
    assert weights.shape == (ours.heads, 11 * 13, rows * columns)
    assert_close(weights.sum(-1), torch.ones(ours.heads, 11 * 13, dtype=dtype))
    assert (weights.max(-1).values == 1).all()
    assert (weights.sum(-1) - weights.max(-1).values < torch.finfo(dtype).eps).all()
    looked_at = weights.argmax(-1)
    query = torch.cartesian_prod(torch.arange(11) + above, torch.arange(13) + left)
    shift = torch.stack((looked_at // columns, looked_at % columns), dim=-1) - query
    assert torch.equal(shift, ours.centers.detach().long()[:, None].expand_as(shift))
    assert len(ours.centers.unique(dim=0)) == ours.heads == reference.weight[0, 0].numel()


def test_softer_heads_are_no_convolution_and_harder_ones_the_same():
    reference, x = convolution(kernel_size=3, padding=1), image()
    ours, expected = attention_from_convolution(reference), conv2d(reference, x)
    with torch.no_grad():
        ours.sharpness.fill_(2.0)
        assert not torch.isclose(ours(x), expected, atol=1e-3, rtol=0).all()
        ours.sharpness.fill_(20 * HARD)
        assert_close(ours(x), expected)


def written_out(ours, x, padding, margin):
    """Softmax over every pixel of the padded image, pair by pair, and each head's values by themselves."""
    above, below, left, right = padding
    padded = F.pad(x, (left, right, above, below))
    rows, columns = padded.shape[2:]
    keys = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
    inside = (keys >= torch.tensor(margin[::2])) & (keys < torch.tensor([rows, columns]) - torch.tensor(margin[1::2]))
    queries = keys[inside.all(1)]
    value = ours.value.weight.unflatten(0, (ours.heads, -1))
    output = ours.output.weight.unflatten(1, (ours.heads, -1))
    weights, result = [], ours.output.bias[:, None]
    for head in range(ours.heads):
        away = (keys - queries[:, None]) - ours.centers[head]
        weights.append((-ours.sharpness[head] * away.norm(dim=-1) ** 2).softmax(-1))
        result = result + output[:, head] @ value[head] @ padded.flatten(2) @ weights[-1].T
    return result, torch.stack(weights)


@pytest.mark.parametrize("margin", [None, (2, 0, 3, 1)])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 2, 0, 3)])
def test_soft_heads_equal_a_softmax_over_all_pairs_in_values_and_gradients(padding, margin):
    torch.manual_seed(0)
    ours, x = QuadraticAttention(3, 5, 4, padding=padding, margin=margin).double(), image()
    with torch.no_grad():
        ours.sharpness.copy_(torch.tensor([0.01, 0.3, 1.0, 2.5]))
        ours.output.bias.normal_()
    result, (expected, weights) = ours(x), written_out(ours, x, padding, margin or padding)
    assert_close(result.flatten(2), expected)
    assert_close(ours.weights(11, 13), weights)
    ours_of, theirs_of = (torch.autograd.grad(y.square().sum(), ours.parameters()) for y in (result, expected))
    assert_close(ours_of, theirs_of)


def test_training_finds_the_shift_of_a_convolution():
    torch.manual_seed(0)
    ours, x = QuadraticAttention(1, 1, 1, padding=2), torch.randn(7, 1, 11, 13)
    shifted = F.pad(x, (1, 0, 0, 1))[:, :, 1:, :-1]
    optimizer = torch.optim.Adam(ours.parameters(), lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        (ours(x) - shifted).square().mean().backward()
        optimizer.step()
    assert_close(ours.centers.detach(), torch.tensor([[1.0, -1.0]]), atol=0.1, rtol=0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"stride": 2}, r"^stride=\(2, 2\) of the convolution is not supported, only stride=\(1, 1\)$"),
        ({"groups": 3, "out_channels": 6}, r"^groups=3 of the convolution is not supported, only groups=1$"),
        ({"padding_mode": "reflect", "padding": 1}, "^padding_mode='reflect' of the convolution is not supported"),
    ],
)
def test_convolution_of_another_kind_is_an_error_that_names_it(options, message):
    with pytest.raises(ValueError, match=message):
        attention_from_convolution(nn.Conv2d(**{"in_channels": 3, "out_channels": 5, "kernel_size": 3, **options}))
