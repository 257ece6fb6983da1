"""Poolings against sums written out in numpy and penalties worked by hand.

Shapes: B = 3 sequences, T = 7 tokens, D = 11, A = 13 hidden, R = 5 hops.
"""

import numpy
import pytest
import torch
from torch.testing import assert_close

from vitspeech.attention import (
    ClassToken,
    MeanPooling,
    SelfAttentivePooling,
    padding_mask,
    redundancy_penalty,
)

LENGTHS = [7, 3, 1]
PADDING = padding_mask(torch.tensor(LENGTHS), 7)


def tokens():
    return torch.randn(3, 7, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def by_numpy(pooling, x):
    """softmax(W2 tanh(W1 Hᵀ)) and its product with H, of one sequence (eq. 6)."""
    states, (w1, w2) = x.numpy(), (parameter.detach().numpy() for parameter in pooling.parameters())
    scores = w2 @ numpy.tanh(w1 @ states.T)
    weights = numpy.exp(scores) / numpy.exp(scores).sum(1, keepdims=True)
    return torch.from_numpy(weights), torch.from_numpy(weights @ states)


def test_mean_is_the_mean_over_the_valid_tokens():
    x = tokens()
    assert_close(MeanPooling()(x), torch.stack([sum(sequence) / 7 for sequence in x]))
    expected = [sum(sequence[:length]) / length for sequence, length in zip(x, LENGTHS, strict=True)]
    assert_close(MeanPooling()(x, PADDING), torch.stack(expected))


def test_mean_of_no_valid_token_is_zero():
    nothing = torch.zeros(3, 7, dtype=torch.bool)
    assert torch.equal(MeanPooling()(tokens(), nothing), torch.zeros(3, 11, dtype=torch.float64))


def test_class_token_is_put_first_and_returned():
    pooling, x = ClassToken(11).double(), tokens()
    prepared = pooling.prepare(x)
    assert prepared.shape == (3, 8, 11)
    assert torch.equal(prepared[:, 1:], x)
    assert torch.equal(pooling(prepared), pooling.token.expand(3, -1))


@pytest.mark.parametrize("padding, lengths", [(None, [7] * 3), (PADDING, LENGTHS)])
@pytest.mark.parametrize("hops", [1, 5])
def test_self_attentive_pooling_equals_numpy_on_the_valid_tokens(hops, padding, lengths):
    pooling, x = SelfAttentivePooling(11, 13, hops).double(), tokens()
    for b, length in enumerate(lengths):
        weights, pooled = by_numpy(pooling, x[b, :length])
        assert_close(pooling.weights(x, padding)[b, :, :length], weights)
        assert_close(pooling(x, padding)[b], pooled.flatten())


def test_without_hidden_layer_the_tokens_are_scored_by_one_map():
    pooling, x = SelfAttentivePooling(11, hidden=0).double(), tokens()
    (w2,) = (parameter.detach().numpy()[0] for parameter in pooling.parameters())
    for b, sequence in enumerate(x.numpy()):
        scores = numpy.exp(sequence @ w2)
        assert_close(pooling(x)[b], torch.from_numpy(scores @ sequence / scores.sum()))


def test_penalty_has_the_values_worked_by_hand():
    assert redundancy_penalty(torch.eye(7)[None, :5]) == 0
    blurred = torch.tensor([[[0.5, 0.5], [0.5, 0.5]]])  # A Aᵀ = ½: diagonal ½ - 1, off it ½
    same = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])  # A Aᵀ = 1: diagonal 0, off it 1
    mixed = torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])  # A Aᵀ = (0.68, 0.44; 0.44, 0.52)
    assert redundancy_penalty(blurred) == 1
    assert redundancy_penalty(same) == 2
    assert_close(redundancy_penalty(mixed), torch.tensor(0.32**2 + 0.48**2 + 2 * 0.44**2))
    assert redundancy_penalty(torch.cat((blurred, same))) == 1.5


def test_training_step_leaves_the_weighted_penalty():
    pooling, x = SelfAttentivePooling(11, 13, 5, penalty=0.3).double().train(), tokens()
    assert pooling.auxiliary_loss is None
    pooling(x)
    penalties = []
    for sequence in x:
        weights, _ = by_numpy(pooling, sequence)
        penalties.append(((weights @ weights.T - torch.eye(5)) ** 2).sum())
    assert_close(pooling.auxiliary_loss, 0.3 * sum(penalties) / 3)
    pooling.auxiliary_loss.backward()
    assert all((parameter.grad != 0).any() for parameter in pooling.parameters())


def test_evaluation_leaves_no_penalty_nor_does_training_without_one():
    plain = SelfAttentivePooling(11, 13, 5).double().train()
    plain(tokens())
    assert plain.auxiliary_loss is None
    pooling, x = SelfAttentivePooling(11, 13, 5, penalty=0.3).double(), tokens()
    pooling.train()(x)
    assert pooling.auxiliary_loss is not None
    pooling.eval()(x)
    assert pooling.auxiliary_loss is None
