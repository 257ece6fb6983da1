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
STRIDES = pytest.mark.parametrize("stride", [1, 3, 8])
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
def test_token_depends_on_the_frames_of_its_field(stem, stride):
    tokens, whole = made(stem, stride), frames()
    assert (tokens.stride, tokens.receptive_field) == (stride, reach(stem, stride))
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
def test_there_are_as_many_tokens_as_fit_whole_in_training_too(stem, stride):
    sees = reach(stem, stride)
    for mode, counts in ((False, range(24)), (True, (0, sees - 1))):
        for count in counts:
            tokens = made(stem, stride).train(mode)(frames(count))
            assert tokens.shape == (3, len(range(0, count - sees + 1, stride)), WIDTH)


COUNTS = [31, 19, 7]


def in_training(given, counts, stride):
    torch.manual_seed(0)
    stem = ConvolutionalFrames(MELS, WIDTH, stride).double().train()
    return stem(given, None if counts is None else torch.tensor(counts)), stem


@STRIDES
def test_padding_changes_neither_the_statistics_nor_the_tokens_in_training(stride):
    given, results = frames().double(), []
    for longer, value in ((0, 0.0), (0, 9.0), (240, 0.0)):
        padded = torch.cat((given, given.new_full((3, longer, MELS), value)), 1)
        for row, count in zip(padded, COUNTS, strict=True):
            row[count:] = value
        tokens, stem = in_training(padded, COUNTS, stride)
        tokens = torch.cat([row[: 1 + (count - 7) // stride] for row, count in zip(tokens, COUNTS, strict=True)])
        gradients = torch.autograd.grad(tokens.square().sin().sum(), stem.parameters())
        results.append([tokens, *stem.buffers(), *gradients])
    for result in results[1:]:
        for tensor, same in zip(result, results[0], strict=True):
            assert_close(tensor, same)
    # Counted, as it was, the padding moves the variance.
    assert not torch.allclose(in_training(padded, None, stride)[1].stem[1].running_var, results[0][2], rtol=0.01)


@STRIDES
def test_statistics_are_those_of_all_valid_frames(stride):
    given = frames().double()
    _, stem = in_training(given, COUNTS, stride)
    kernels = [layer.weight for layer in stem.stem if isinstance(layer, nn.Conv1d)]
    rows = [F.conv1d(row[:count].T, kernels[0]) for row, count in zip(given, COUNTS, strict=True)]
    hidden = torch.cat(rows, 1)
    assert_close(stem.stem[1].running_mean, 0.1 * hidden.mean(1))
    assert_close(stem.stem[1].running_var, 0.9 + 0.1 * hidden.var(1))
    mean, deviation = hidden.mean(1, keepdim=True), (hidden.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
    last = torch.cat([F.conv1d(F.gelu((row - mean) / deviation), kernels[1], stride=stride) for row in rows], 1)
    assert_close(stem.stem[4].running_mean, 0.1 * last.mean(1))
    assert_close(stem.stem[4].running_var, 0.9 + 0.1 * last.var(1))


@STEMS
def test_counts_change_nothing_in_evaluation(stem):
    tokens = made(stem, 2)
    assert torch.equal(tokens(frames(), torch.tensor(COUNTS)), tokens(frames()))
