"""Scores, their softmax, and the explicit and the fused way to the weighted sum.

Shapes: B = 2 sequences, H = 3 heads, T = 5 queries, S = 11 keys, K = 7.
"""

import math

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.attention.scores import SCORES, weights_of


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def score(name):
    """A score in float64 with every parameter drawn at random."""
    torch.manual_seed(0)
    made = SCORES[name](3, 7).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def by_definition(name, made, query, key, head):
    """The paper's formula for one query and one key."""
    if name == "dot":
        return query @ key
    if name == "scaled_dot":
        return query @ key / 7**0.5
    if name == "general":
        return query @ made.weight[head] @ key
    if name == "cosine":
        return F.cosine_similarity(query, key, dim=0) / made.log_temperature[head].exp().clamp(min=0.01)
    transformed = query @ made.query_weight[head] + key @ made.key_weight[head]
    return made.additive_vector[head] @ torch.tanh(transformed)


@pytest.mark.parametrize("name", SCORES)
def test_score_of_each_pair_is_that_of_its_paper(name):
    made, query, key = score(name), drawn(2, 3, 5, 7), drawn(2, 3, 11, 7, seed=1)
    scores = made(query, key).detach()
    assert scores.shape == (2, 3, 5, 11)
    for b, h, t, s in numpy.ndindex(2, 3, 5, 11):
        expected = by_definition(name, made, query[b, h, t], key[b, h, s], h).item()
        assert math.isclose(scores[b, h, t, s], expected, abs_tol=1e-12), (b, h, t, s)


@pytest.mark.parametrize("name", SCORES)
def test_every_parameter_of_a_score_gets_a_gradient(name):
    made = score(name)
    made(drawn(2, 3, 5, 7).requires_grad_(), drawn(2, 3, 11, 7, seed=1)).square().sum().backward()
    assert all(parameter.grad.abs().min() > 0 for parameter in made.parameters())
    assert {key.split(".")[-1] for key in made.state_dict()} == {
        "general": {"weight"},
        "additive": {"query_weight", "key_weight", "additive_vector"},
        "cosine": {"log_temperature"},
    }.get(name, set())


def test_general_score_starts_as_the_scaled_dot_product():
    query, key = drawn(2, 3, 5, 7).float(), drawn(2, 3, 11, 7, seed=1).float()
    assert_close(SCORES["general"](3, 7)(query, key), SCORES["scaled_dot"](3, 7)(query, key))


def test_temperature_of_the_cosine_does_not_fall_below_a_hundredth():
    made = SCORES["cosine"](3, 7)
    nn.init.constant_(made.log_temperature, -20)
    key = drawn(2, 3, 5, 7).float()
    assert_close(made(3 * key, key).diagonal(dim1=-2, dim2=-1), torch.full((2, 3, 5), 100.0))


def test_cosine_of_a_zero_vector_is_zero_with_finite_gradients():
    query = torch.zeros(1, 3, 2, 7, requires_grad=True)
    scores = SCORES["cosine"](3, 7)(query, torch.ones(1, 3, 4, 7))
    scores.sum().backward()
    assert (scores == 0).all() and query.grad.isfinite().all()
    half = SCORES["cosine"](3, 7).half()
    assert (half(torch.zeros(1, 3, 2, 7).half(), torch.ones(1, 3, 4, 7).half()) == 0).all()


def test_relu_weights_are_the_positive_scores_over_the_number_of_allowed_keys():
    scores, mask = torch.tensor([[6.0, -3.0, 9.0, 30.0]]), torch.tensor([[True, True, True, False]])
    assert weights_of(scores, mask, "relu").tolist() == [[2, 0, 3, 0]]
    assert weights_of(scores, None, "relu").tolist() == [[1.5, 0, 2.25, 7.5]]


def test_huge_scores_do_not_overflow():
    assert weights_of(torch.tensor([[3e38, -3e38]])).tolist() == [[1, 0]]
