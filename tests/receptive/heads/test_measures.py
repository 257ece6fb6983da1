"""Measures of attention heads against numbers worked out by hand, and against their definitions as loops."""

import math
from itertools import product

import numpy
import pytest
import torch
from receptive_networks import noise, vit
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import attention_from_convolution, window_mask
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier
from vitspeech.receptive.heads.measures import (
    ConvolutionLikeness,
    class_tokens_of,
    diagonality,
    directed_distances,
    entropy,
    head_measures,
    mean_distance,
    relative_distance,
)
from vitspeech.receptive.heads.weights import attention_weights


def grid(rows, columns, patch_px=1.0):
    """The centers of patches in raster order."""
    places = torch.tensor(list(product(range(rows), range(columns))), dtype=torch.float64)
    return patch_px * (places + 0.5)


def moments(tokens, hop_ms=1.0):
    return 7.0 + hop_ms * torch.arange(tokens)[:, None]


def shared(allowed):
    """One input and one head that shares attention equally among what is allowed."""
    return (allowed.double() / allowed.sum(-1, keepdim=True))[None, None]


def attention(*shape, seed=0, sharpness=2.0):
    """Softmax of random scores."""
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (sharpness * scores).softmax(-1)


def near(places, reach_px):
    """Pairs at most that far apart along each axis."""
    return (places - places[:, None]).abs().amax(-1) <= reach_px


def likeness(weights, places, allowed=None):
    made = ConvolutionLikeness(places, allowed)
    made.update(weights)
    return made.compute()


def everything(tokens):
    return torch.ones(tokens, tokens, dtype=torch.bool)


def test_each_head_and_input_has_its_own_distance():
    weights, places = attention(2, 3, 15, 15), grid(3, 5, 2)
    found = mean_distance(weights, places)
    assert found.shape == (2, 3)
    for b, h in product(range(2), range(3)):
        pairs = product(range(15), repeat=2)
        total = sum(weights[b, h, q, k].item() * math.dist(places[q], places[k]) for q, k in pairs)
        assert found[b, h].item() == pytest.approx(total / 15)


def test_relative_distance_of_uniform_attention_is_one_also_within_a_window():
    places, window = moments(23, 40.0), window_mask(23, 23, 5, 2)
    truncated = shared(window)
    assert_close(relative_distance(shared(everything(23)), places), torch.ones(1, 1, dtype=torch.float64))
    assert_close(relative_distance(truncated, places, window), torch.ones(1, 1, dtype=torch.float64))
    assert relative_distance(truncated, places).item() < 0.4
    # Each query's mean over its window, by hand.
    by_query = [[abs(s - t) for s in range(max(t - 5, 0), min(t + 3, 23))] for t in range(23)]
    expected = 40 * sum(sum(keys) / len(keys) for keys in by_query) / 23
    assert mean_distance(truncated, places).item() == pytest.approx(expected)


@pytest.mark.parametrize("allowed", [None, window_mask(23, 23, 5, 2), window_mask(23, 23, None, 0)])
def test_entropy_of_uniform_attention_is_one_and_of_a_single_key_zero(allowed):
    uniform = shared(everything(23) if allowed is None else allowed)
    assert_close(entropy(uniform, allowed), torch.ones(1, 1, dtype=torch.float64))
    assert entropy(torch.eye(23)[None, None], allowed).item() == 0


def test_entropy_is_that_of_each_row_by_its_own_number_of_keys():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.25, 0.25]], dtype=torch.float64)[None, None]
    of_two, of_three = 1.0, 1.5 * math.log(2) / math.log(3)
    assert entropy(weights, window_mask(3, 3, None, 0)).item() == pytest.approx((of_two + of_three) / 2)
    assert entropy(weights).item() == pytest.approx((0 + math.log(2) / math.log(3) + of_three) / 3)
    assert entropy(weights, torch.eye(3, dtype=torch.bool)).isnan().all()


@pytest.mark.parametrize("measure", [entropy, diagonality, lambda weights: mean_distance(weights, moments(3))])
def test_rows_are_measured_whatever_their_sum_and_left_out_if_it_is_zero(measure):
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8], [0.5, 0.25, 0.25]], dtype=torch.float64)
    scaled = torch.tensor([0.1, 1.0, 7.0])[:, None] * weights
    assert_close(measure(scaled[None, None]), measure(weights[None, None]))
    rows = [measure((weights * (torch.arange(3) == row)[:, None])[None, None]) for row in range(3)]
    assert_close(torch.stack(rows).mean(0), measure(weights[None, None]))
    assert measure(torch.zeros(1, 1, 3, 3)).isnan().all()


def test_diagonality_is_one_for_itself_alone_and_zero_for_the_farthest_key():
    farthest = torch.zeros(1, 1, 5, 5)
    farthest[..., torch.arange(5), torch.tensor([4, 4, 0, 0, 0])] = 1
    assert diagonality(torch.eye(5)[None, None]).item() == 1
    assert diagonality(farthest).item() == 0
    # |i - j| / max_j |i - j| of three tokens: 0 ½ 1, 1 0 1, 1 ½ 0.
    assert diagonality(shared(everything(3))).item() == pytest.approx(1 - (1.5 + 2 + 1.5) / 9)
    assert diagonality(torch.ones(1, 1, 1, 1)).item() == 1


def test_back_and_ahead_are_what_a_distance_is_made_of():
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])[None, None]
    back, ahead = directed_distances(weights, moments(3, 40.0)[:, 0])
    assert (back.item(), ahead.item()) == pytest.approx(((0 + 10 + 80) / 3, (20 + 20 + 0) / 3))
    assert back + ahead == pytest.approx(mean_distance(weights, moments(3, 40.0)))
    assert directed_distances(shared(window_mask(23, 23, None, 0)), moments(23)[:, 0])[1].item() == 0


def test_convolution_as_attention_is_like_a_convolution_and_attention_by_content_is_not():
    torch.manual_seed(0)
    layer = attention_from_convolution(nn.Conv2d(2, 3, 3, padding=1, dtype=torch.float64)).eval()
    with attention_weights(layer) as weights:
        layer(torch.randn(2, 2, 5, 7, dtype=torch.float64))
    assert_close(likeness(weights[""], grid(5, 7)), torch.ones(9, dtype=torch.float64), rtol=0, atol=1e-9)
    assert (likeness(attention(2, 3, 35, 35), grid(5, 7)) < 0.3).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_uniform_head_is_explained_by_a_constant_kernel_whatever_its_rounding(dtype):
    weights = torch.full((2, 1, 35, 35), 1 / 35, dtype=dtype)
    weights += torch.finfo(dtype).eps / 35 * torch.randn(weights.shape, dtype=dtype)
    assert likeness(weights, grid(5, 7)).item() == 1


def test_likeness_is_what_its_definition_gives_however_inputs_are_batched():
    weights, places, allowed = attention(5, 2, 15, 15), grid(3, 5, 4), near(grid(3, 5, 4), 8)
    weights = weights * allowed
    weights = weights / weights.sum(-1, keepdim=True)
    array, uniform = weights.numpy(), (allowed / allowed.sum(-1, keepdim=True)).double().numpy()
    pairs = {}
    for q, k in product(range(15), repeat=2):
        pairs.setdefault((k // 5 - q // 5, k % 5 - q % 5), []).append((q, k))
    unexplained = numpy.zeros(2)
    for group in pairs.values():
        same = numpy.stack([array[:, :, q, k] for q, k in group])
        unexplained += ((same - same.mean((0, 1))) ** 2).sum((0, 1))
    expected = 1 - unexplained / ((array - uniform) ** 2).sum((0, 2, 3))
    made = ConvolutionLikeness(places, allowed)
    for part in weights.split(2):
        made.update(part)
    numpy.testing.assert_allclose(made.compute(), expected, rtol=1e-10)


def test_rows_of_zeros_are_left_out_of_the_likeness():
    weights, places = attention(3, 2, 15, 15), grid(3, 5)
    weights[0, 0, 4] = weights[2, 0, 7] = 0
    weights[:, 1, 6:] = 0
    array, used = weights.numpy(), weights.numpy().any(-1)
    for head in range(2):
        by_shift = {}
        for b, q, k in product(range(3), range(15), range(15)):
            if used[b, head, q]:
                shift = (k // 5 - q // 5, k % 5 - q % 5)
                by_shift.setdefault(shift, []).append(array[b, head, q, k])
        unexplained = sum(((numpy.array(group) - numpy.mean(group)) ** 2).sum() for group in by_shift.values())
        expected = 1 - unexplained / ((array[:, head][used[:, head]] - 1 / 15) ** 2).sum()
        assert likeness(weights, places)[head].item() == pytest.approx(expected)
    assert likeness(torch.zeros(2, 1, 15, 15), places).isnan().all()


@pytest.mark.parametrize("pooling, class_tokens", [("class", 1), ("mean", 0)])
@pytest.mark.parametrize("left", [None, 4])
def test_head_measures_are_those_of_every_layer_and_head_over_all_images(pooling, class_tokens, left):
    network, places = vit(pooling=pooling, left=left), grid(3, 3, 4)
    images = noise(5, 3, 12, 12, dtype=torch.float64)
    found = head_measures(network, images, places, class_tokens=class_tokens_of(network), batch=2)
    assert class_tokens_of(network) == class_tokens
    assert found.layers == ["encoder.blocks.0.attention", "encoder.blocks.1.attention"]
    assert (found.diagonality, found.look_back, found.look_ahead) == (None, None, None)
    with attention_weights(network) as weights:
        network(images)
    seen = everything(9) if left is None else everything(9).triu(-left)
    for number, layer in enumerate(weights.values()):
        layer = layer.detach()[..., class_tokens:, class_tokens:]
        layer = layer / layer.sum(-1, keepdim=True)
        assert_close(found.distance[number], mean_distance(layer, places).mean(0))
        assert_close(found.relative_distance[number], relative_distance(layer, places, seen).mean(0))
        assert_close(found.entropy[number], entropy(layer, seen).mean(0))
        assert_close(found.convolution_likeness[number], likeness(layer, places, seen))


def test_truncated_speech_is_measured_by_its_window():
    torch.manual_seed(0)
    tokens = SpeechFrontend(22, mels=20, stride=3)
    network = SpeechClassifier(7, tokens, {"depth": 2, "heads": 1, "left": 5, "right": [2, 0]}).eval()
    for block in network.encoder.blocks:  # all scores are equal
        nn.init.zeros_(block.attention.query.weight)
    waveforms = torch.randn(3, 16_000) / 10
    count = network.forward_features(waveforms).shape[1]
    found = head_measures(network, waveforms, moments(count, 30.0))
    one = torch.ones(2, 1, dtype=torch.float64)
    assert_close(found.relative_distance, one, rtol=1e-6, atol=0)
    assert_close(found.entropy, one, rtol=1e-6, atol=0)
    assert_close(found.look_back + found.look_ahead, found.distance)
    assert found.look_ahead[1].item() == 0 and 0 < found.look_ahead[0].item() < 60
    assert 75 - 10 < found.look_back[1].item() < 75  # five of 30 ms and itself, fewer at the beginning
    assert (found.diagonality > 0.8).all()


def test_other_number_of_places_is_an_error():
    with pytest.raises(ValueError, match="9 tokens, 1 of them class tokens, have 9 positions"):
        head_measures(vit(), torch.randn(2, 3, 12, 12).double(), grid(3, 3), class_tokens=1)
