"""Frames to tokens against convolutions written out; what each token sees, their number, their errors.

Shapes: B = 3, F = 31 frames, M = 5 mel bins, D = 11.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.frontends import ConvolutionalFrames, StackedFrames

STEMS = pytest.mark.parametrize("stem", [StackedFrames, ConvolutionalFrames])
STRIDES = pytest.mark.parametrize("stride", [1, 2, 3, 4, 8])
MELS, WIDTH = 5, 11


def frames(count=31, batch=3, seed=0):
    return torch.randn(batch, count, MELS, generator=torch.Generator().manual_seed(seed))


def made(stem, stride):
    """A stem whose batch norms, if it has any, have seen something."""
    torch.manual_seed(0)
    stem = stem(MELS, WIDTH, stride)
    stem(3 * frames(seed=1) + 1)
    return stem.eval()


def reach(stem, stride):
    return stride if stem is StackedFrames else 7


@STRIDES
def test_stacked_frames_equal_a_convolution_with_the_stride_as_kernel(stride):
    ours, theirs = made(StackedFrames, stride), nn.Conv1d(MELS, WIDTH, stride, stride=stride)
    with torch.no_grad():
        theirs.weight.copy_(ours.project.weight.unflatten(1, (stride, MELS)).transpose(1, 2))
        theirs.bias.copy_(ours.project.bias)
    assert_close(ours(frames()), theirs(frames().mT).mT, atol=1e-5, rtol=1e-5)


@STRIDES
def test_convolutional_frames_are_two_convolutions_each_with_batch_norm_and_a_gelu_between(stride):
    stem = made(ConvolutionalFrames, stride)
    first, second = (layer for layer in stem.modules() if isinstance(layer, nn.Conv1d))
    norms = [layer for layer in stem.modules() if isinstance(layer, nn.BatchNorm1d)]
    for norm in norms:
        for drawn in (norm.weight, norm.bias):
            nn.init.normal_(drawn)

    def normed(features, norm):
        scale, shift, mean, variance = (
            tensor[:, None] for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        )
        return (features - mean) / (variance + 1e-5).sqrt() * scale + shift

    hidden = F.gelu(normed(F.conv1d(frames().mT, first.weight), norms[0]))
    expected = normed(F.conv1d(hidden, second.weight, stride=stride), norms[1])
    assert_close(stem(frames()), expected.mT, atol=1e-5, rtol=1e-5)


@STEMS
@STRIDES
def test_there_are_as_many_tokens_as_fit_whole(stem, stride):
    sees, tokens = reach(stem, stride), made(stem, stride)
    for count in range(24):
        assert tokens(frames(count)).shape == (3, len(range(0, count - sees + 1, stride)), WIDTH)


@STEMS
@STRIDES
def test_token_depends_on_the_frames_of_its_field(stem, stride):
    tokens, whole = made(stem, stride), frames()
    assert (tokens.stride, tokens.reach) == (stride, reach(stem, stride))
    expected = tokens(whole)
    for frame in range(31):
        changed = whole.clone()
        changed[:, frame] += 3
        differs = (tokens(changed) != expected).any(-1)
        assert torch.equal(differs.all(0), differs.any(0))
        seen_by = [i for i in range(expected.shape[1]) if i * stride <= frame < i * stride + reach(stem, stride)]
        assert differs[0].nonzero().flatten().tolist() == seen_by


@STEMS
@STRIDES
def test_too_few_frames_are_no_tokens_in_training_too(stem, stride):
    for mode in (True, False):
        for count in (0, reach(stem, stride) - 1):
            assert made(stem, stride).train(mode)(frames(count)).shape == (3, 0, WIDTH)


@STEMS
@STRIDES
def test_tokens_of_a_part_are_the_part_of_the_tokens_in_evaluation(stem, stride):
    tokens = made(stem, stride)
    part = tokens(frames()[:, 2 * stride :])
    assert part.shape[1] > 0
    assert_close(part, tokens(frames())[:, 2:], atol=1e-5, rtol=1e-5)


@STEMS
def test_tokens_of_an_utterance_do_not_depend_on_the_batch_in_evaluation(stem):
    tokens, whole = made(stem, 2), frames(batch=7)
    assert_close(tokens(whole)[3:4], tokens(whole[3:4]), atol=1e-5, rtol=1e-5)


@STEMS
def test_every_parameter_and_every_frame_gets_a_gradient(stem):
    tokens, given = made(stem, 3).train(), frames(31).requires_grad_()
    (tokens(given) * torch.randn(WIDTH)).square().sum().backward()
    assert all(parameter.grad.any() for parameter in tokens.parameters())
    covered = 3 * (tokens(given).shape[1] - 1) + reach(stem, 3)
    assert given.grad.any(-1).all(0).tolist() == [frame < covered for frame in range(31)]


@STEMS
@pytest.mark.parametrize("stride", [0, -2])
def test_stride_below_one_is_refused(stem, stride):
    with pytest.raises(ValueError, match=f"stride={stride} is below 1"):
        stem(MELS, WIDTH, stride)
