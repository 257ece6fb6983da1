"""Rollout and relevance against closed forms, numbers worked out by hand and finite differences."""

from functools import partial

import pytest
import timm
import torch
from receptive_networks import noise, small_timm, vit
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.attention import SelfAttentivePooling
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier
from vitspeech.receptive.heads.measures import class_tokens_of
from vitspeech.receptive.heads.relevance import relevance, rollout, token_relevance


class Kernel(nn.Module):
    """Attention over (B, T, D) by the fused kernel, the queries scaled."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        x = x[:, None]
        return F.scaled_dot_product_attention(self.scale * x, x, x)[:, 0]


class TwoLayers(nn.Module):
    """x + attention, twice; a logit for each channel of the first token."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Kernel(1.5), Kernel(-0.7)

    def forward(self, x):
        x = x + self.first(x)
        return (x + self.second(x))[:, 0]


class OneLayer(nn.Module):
    """Attention without a residual path; a logit for each channel of the first token."""

    def __init__(self):
        super().__init__()
        self.layer = Kernel(1.0)

    def forward(self, x):
        return self.layer(x)[:, 0]


drawn = partial(noise, dtype=torch.float64)


def test_rollout_of_uniform_attention_halves_what_a_token_keeps_of_itself():
    uniform = {str(layer): torch.full((2, 3, 5, 5), 1 / 5) for layer in range(4)}
    found = rollout(uniform)
    assert found.shape == (4, 2, 5, 5)
    for layer, kept in enumerate((1 / 2, 1 / 4, 1 / 8, 1 / 16)):
        assert_close(found[layer, 1], kept * torch.eye(5) + (1 - kept) / 5)


def test_rollout_of_two_layers_by_hand():
    first = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])[None]  # heads' mean ½ ½, ½ ½
    second = torch.tensor([[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])[None]
    found = rollout({"first": first, "second": second})
    assert_close(found[0, 0], torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
    # [½ ½; 0 1] · [¾ ¼; ¼ ¾]
    assert_close(found[1, 0], torch.tensor([[0.5, 0.5], [0.25, 0.75]]))


def test_relevance_of_two_tokens_by_hand():
    x = torch.tensor([[[1.0, -1.0], [3.0, 2.0]]], dtype=torch.float64)
    score = torch.tensor([2.0, 1.0]) / 2**0.5  # of the first token's query: 1·1 + 1·1 and 3 - 2
    first, second = score.softmax(0).tolist()
    # The gradient of logit c by A[0, s] is x[s, c]; that by the second token's row is zero.
    for target, row in ((0, [1 + first * 1, second * 3]), (1, [1.0, second * 2])):
        found = relevance(OneLayer().eval(), x, torch.tensor([target]))
        assert_close(found, torch.tensor([[row, [0.0, 1.0]]], dtype=torch.float64))


@pytest.mark.parametrize("target", [None, [2, 0, 4]])
def test_relevance_of_two_layers_by_finite_differences(target):
    network, x = TwoLayers().eval(), drawn(3, 7, 5)
    classes = network(x).argmax(-1).tolist() if target is None else target
    for number, chosen in enumerate(classes):
        start = x[number]
        first = (1.5 * start @ start.T / 5**0.5).softmax(-1)
        middle = start + first @ start
        second = (-0.7 * middle @ middle.T / 5**0.5).softmax(-1)

        def logit(one, two=None, start=start, chosen=chosen):
            middle = start + one @ start
            two = (-0.7 * middle @ middle.T / 5**0.5).softmax(-1) if two is None else two
            return (middle + two @ middle)[0, chosen]

        expected = torch.eye(7, dtype=torch.float64)
        for weights, changed in ((first, logit), (second, lambda two, one=first, logit=logit: logit(one, two))):
            gradient = torch.zeros(7, 7, dtype=torch.float64)
            for t in range(7):
                for s in range(7):
                    step = torch.zeros(7, 7, dtype=torch.float64)
                    step[t, s] = 1e-5
                    gradient[t, s] = (changed(weights + step) - changed(weights - step)) / 2e-5
            expected = expected + (gradient * weights).clamp(min=0) @ expected
        found = relevance(network, x, None if target is None else torch.tensor(target))
        assert_close(found[number], expected, rtol=1e-7, atol=1e-9)


def test_relevance_needs_no_parameter_that_is_trained_and_leaves_no_gradient():
    network, images = vit(), drawn(2, 3, 12, 12)
    expected = relevance(network, images)
    assert all(parameter.grad is None for parameter in network.parameters())
    with torch.no_grad():
        assert torch.equal(relevance(network.requires_grad_(False), images), expected)
    assert not expected.requires_grad and not images.requires_grad


def gained(network, inputs):
    """What attention adds to the identity that the relevance begins as."""
    found = relevance(network, inputs)
    return found - torch.eye(found.shape[-1]).to(found)


def test_speech_tokens_count_as_their_pooling_weighs_them():
    torch.manual_seed(0)
    tokens = SpeechFrontend(22, mels=20, stride=3)
    network = SpeechClassifier(
        7, tokens, {"depth": 2, "heads": 1}, pooling=SelfAttentivePooling(22, hidden=5, hops=3)
    ).eval()
    waveforms = torch.randn(3, 8000) / 10
    shares = network.pooling.weights(network.forward_features(waveforms)).mean(1)
    expected = torch.einsum("bt,bts->bs", shares, gained(network, waveforms))
    assert_close(token_relevance(network, waveforms), expected.detach())
    assert not network.pooling._forward_pre_hooks


@pytest.mark.parametrize(
    "options, rows",
    [
        ({}, slice(0, 1)),
        ({"reg_tokens": 3}, slice(0, 1)),
        ({"global_pool": "avg"}, slice(1, 5)),
        ({"global_pool": "avg", "pool_include_prefix": True}, slice(0, 5)),
        ({"global_pool": "avg", "class_token": False}, slice(0, 4)),
    ],
)
def test_timm_is_read_by_its_own_pooling(options, rows):
    network, images = small_timm(**options), drawn(5, 3, 32, 32)
    expected = gained(network, images)[:, rows].mean(1)[:, class_tokens_of(network) :]
    assert expected.shape == (5, 4)
    assert_close(token_relevance(network, images), expected)


def test_other_pooling_is_an_error():
    with pytest.raises(ValueError, match=r"VisionTransformer pools tokens by .*: global_pool='max'"):
        token_relevance(small_timm(global_pool="max"), drawn(2, 3, 32, 32))


def test_layers_of_different_sizes_are_an_error():
    network = timm.create_model("visformer_tiny", img_size=32, depth=(0, 1, 1)).eval()
    with pytest.raises(ValueError, match=r"differ in \(heads, tokens\)"):
        relevance(network, torch.randn(2, 3, 32, 32))
