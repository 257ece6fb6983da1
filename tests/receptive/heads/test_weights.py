"""Recomputed attention weights: the same outputs, weights as defined, and a reason where they cannot be recomputed."""

import math
from functools import partial

import pytest
import timm
import torch
from arguments import nested
from receptive_networks import noise, small_timm, vit
from tiny import ROOT
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech import checkpoint
from vitspeech.attention import (
    Encoder,
    MultiHeadAttention,
    SelfAttentivePooling,
    attention_from_convolution,
    window_mask,
)
from vitspeech.encoders import RecurrentEncoder
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier
from vitspeech.receptive.heads.weights import NotRecomputable, attention_weights, scaled_dot_product

EXACT = {"rtol": 0, "atol": 1e-12}


def made(network, *arguments, dtype=torch.float64, **options):
    torch.manual_seed(0)
    return network(*arguments, **options).to(dtype).eval()


def speech(**options):
    return made(
        SpeechClassifier, 7, SpeechFrontend(22, mels=20, stride=3), **nested(**{"depth": 2, "heads": 1} | options)
    )


drawn = partial(noise, dtype=torch.float64)


class Fused(nn.Module):
    """Attention over (B, T, D) by the fused kernel, with one head."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x):
        x = x[:, None]
        return F.scaled_dot_product_attention(x, 2 * x, 3 * x, **self.options)[:, 0]


class Explicit(nn.Module):
    """Attention without it."""

    def __init__(self):
        super().__init__()
        self.over_keys = nn.Softmax(dim=-1)

    def forward(self, x):
        return self.over_keys(x @ x.transpose(1, 2)) @ x


class Pooled(nn.Module):
    """Attention, then a single query that pools the tokens by the same kernel, and one that does by hand."""

    def __init__(self):
        super().__init__()
        self.layer = Fused()

    def forward(self, x):
        x = self.layer(x)
        scores = x[:, :1] @ x.transpose(1, 2)
        return F.scaled_dot_product_attention(x[:, :1], x, x) + scores.softmax(-1) @ x


class Crossed(nn.Module):
    """Self-attention and cross-attention to the first two tokens."""

    def __init__(self):
        super().__init__()
        self.own, self.cross = MultiHeadAttention(10, 2), MultiHeadAttention(10, 5)

    def forward(self, x):
        return self.cross(self.own(x), x[:, :2])


class Louder(MultiHeadAttention):
    """A layer that is not what its weights and values give."""

    def forward(self, x):
        return 1.001 * super().forward(x)


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "mean"},
        {"pooling": "class"},
        {"pooling": "self_attentive"},
        {"score": "additive", "positions": "relative"},
        {"score": "cosine", "positions": "rotary"},
        {"normalizer": "relu", "left": 2},
    ],
)
def test_vit_gives_the_same_logits(options):
    network, images = vit(**options), drawn(5, 3, 12, 12)
    tokens = 10 if options.get("pooling") == "class" else 9
    with attention_weights(network) as weights:
        logits = network(images)
    assert_close(logits, network(images), **EXACT)
    assert list(weights) == ["encoder.blocks.0.attention", "encoder.blocks.1.attention"]
    assert all(layer.shape == (5, 3, tokens, tokens) for layer in weights.values())


@pytest.mark.parametrize("window", [{}, {"left": 5, "right": 2}, {"right": 0}, {"left": 40}])
def test_speech_gives_the_same_logits_and_no_weight_outside_the_window(window):
    network, waveforms = speech(**window), drawn(3, 32_000) / 10
    with attention_weights(network) as weights:
        logits = network(waveforms)
    assert_close(logits, network(waveforms), **EXACT)
    layer = weights["encoder.blocks.1.attention"]
    tokens = layer.shape[-1]
    assert layer.shape == (3, 1, tokens, tokens) and tokens > 60  # too long to be computed whole where truncated
    seen = window_mask(tokens, tokens, window.get("left"), window.get("right"))
    assert not layer[..., ~seen].any()
    assert_close(layer.sum(-1), torch.ones(3, 1, tokens, dtype=torch.float64), **EXACT)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_relpos_small_patch16_224"])
def test_timm_gives_the_same_logits_whatever_it_computes_attention_by(name, fused):
    network, images = small_timm(name), drawn(5, 3, 32, 32)
    for block in network.blocks:
        block.attn.fused_attn = fused
    plain = network(images)
    with attention_weights(network) as weights:
        assert_close(network(images), plain, **EXACT)
    assert list(weights) == ["blocks.0.attn", "blocks.1.attn"]
    assert [block.attn.fused_attn for block in network.blocks] == [fused, fused]


@pytest.mark.parametrize("name, shape", [("vit-cifar10", (3, 32, 32)), ("speech-commands-truncated", (16_000,))])
def test_released_models_give_the_same_logits(name, shape):
    network, inputs = checkpoint.load(ROOT / "checkpoints" / name).network, drawn(2, *shape, dtype=torch.float32)
    plain = network(inputs)
    with attention_weights(network) as weights:
        assert_close(network(inputs), plain, rtol=1e-4, atol=1e-4)
    assert len(weights) == len(network.encoder.blocks)


def test_weights_are_the_softmax_of_scaled_products_in_the_window():
    layer, x = made(MultiHeadAttention, 10, 2, left=2, right=1), drawn(3, 7, 10)
    with attention_weights(layer) as weights:
        layer(x)
    query, key = (part(x).view(3, 7, 2, 5).double() for part in (layer.query, layer.key))
    scores = torch.einsum("bthk,bshk->bhts", query, key) / math.sqrt(5)
    for t in range(7):
        scores[:, :, t, [s for s in range(7) if not t - 2 <= s <= t + 1]] = -math.inf
    exponents = scores.exp()
    assert_close(weights[""], exponents / exponents.sum(-1, keepdim=True), **EXACT)


def test_weights_of_padding_are_zero():
    network, padding = made(Encoder, 10, {"depth": 2, "heads": 5}), torch.arange(7) < torch.tensor([7, 3])[:, None]
    with attention_weights(network) as weights:
        output = network(drawn(2, 7, 10), padding=padding)
    assert_close(output, network(drawn(2, 7, 10), padding), **EXACT)
    assert not weights["blocks.1.attention"][1, ..., 3:].any()
    assert weights["blocks.1.attention"][0].all()


@pytest.mark.parametrize("normalizer", ["softmax", "relu"])
def test_weights_are_in_the_graph_of_the_output(normalizer):
    layer, x = made(MultiHeadAttention, 10, 2, normalizer=normalizer), drawn(3, 7, 10)
    with attention_weights(layer) as weights:
        output = layer(x)
    (gradient,) = torch.autograd.grad(output[1, 4, 9], weights[""])
    assert not gradient[[0, 2]].any() and not gradient[:, :, [0, 1, 2, 3, 5, 6]].any()
    # The output is linear in the weights, by the values and one row of the last projection.
    value = layer.value(x)[1].view(7, 2, 5)
    assert_close(gradient[1, :, 4], torch.einsum("shk,hk->hs", value, layer.output.weight[9].view(2, 5)), **EXACT)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.ones(7, 11, dtype=torch.bool).triu(2)[:, torch.arange(10, -1, -1)]},
        {"attn_mask": drawn(3, 1, 7, 11)},
        {"enable_gqa": True},
    ],
)
def test_definition_is_that_of_the_fused_kernel(options):
    query, key, value = drawn(3, 6, 7, 5), drawn(3, 6, 11, 5), drawn(3, 6, 11, 13)
    if "enable_gqa" in options:
        key, value = key[:, :2], value[:, :2]
    attended, weights = scaled_dot_product(query, key, value, **options)
    assert_close(attended, F.scaled_dot_product_attention(query, key, value, **options), **EXACT)
    assert weights.shape == (3, 6, 7, 11)


def test_torchs_own_layer_gives_the_weights_that_it_gives_when_asked():
    layer = nn.TransformerEncoderLayer(10, 2, 13, batch_first=True, dtype=torch.float64)
    network, x = nn.TransformerEncoder(layer, 2).eval(), drawn(3, 7, 10)
    with torch.no_grad():
        plain = network(x)
        with attention_weights(network) as weights:
            assert_close(network(x), plain, **EXACT)
        asked = network.layers[0].self_attn(x, x, x, average_attn_weights=False)[1]
    assert list(weights) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert_close(weights["layers.0.self_attn"], asked, **EXACT)


def test_convolution_as_attention_attends_to_one_pixel_per_head():
    torch.manual_seed(0)
    convolution = nn.Conv2d(2, 3, 3, padding=1, dtype=torch.float64)
    layer, image = attention_from_convolution(convolution).eval(), drawn(5, 2, 7, 11)
    with attention_weights(layer) as weights:
        assert_close(layer(image), convolution(image), **EXACT)
    heads = weights[""].view(5, 9, 7, 11, 7, 11)
    assert_close(heads[4, 0, 3, 5, 2, 4].item(), 1.0)  # the first head looks up and to the left
    assert heads[:, 0, 0].sum() < 1e-12  # from the topmost row it sees zeros, which are no pixels
    assert heads[:, 4].sum() == 5 * 7 * 11


@pytest.mark.parametrize(
    "name, options, reason",
    [
        (
            "swin_tiny_patch4_window7_224",
            {"img_size": 32},
            r"^layers\.0\.blocks\.0\.attn \(WindowAttention\): .* 20 windows of 5 inputs",
        ),
        ("xcit_nano_12_p16_224", {"img_size": 32, "depth": 1}, "its 32 queries are not the tokens of its input"),
        ("cait_xxs24_224", {"img_size": 32, "depth": 1}, r"its softmax over \(5, 4, 4, 4\) is not within"),
        ("pvt_v2_b0", {"depths": (1, 1, 1, 1)}, r"^stages\.0\.blocks\.0\.attn .* its 64 queries and 1 keys"),
        ("resnet18", {}, "^ResNet has no attention layer"),
    ],
)
def test_other_networks_of_timm_are_refused_with_the_reason(name, options, reason):
    network = made(timm.create_model, name, **options)
    with pytest.raises(NotRecomputable, match=reason), attention_weights(network):
        network(drawn(5, 3, 32, 32))


def test_the_hops_of_a_pooling_are_no_attention_between_tokens():
    tokens, pooling = SpeechFrontend(22, mels=20, stride=3), SelfAttentivePooling(22, hops=3)
    network = made(SpeechClassifier, 7, tokens, RecurrentEncoder(22, 1), pooling=pooling)
    with pytest.raises(NotRecomputable, match=r"^SpeechClassifier has no attention layer"), attention_weights(network):
        network(drawn(2, 9000))


@pytest.mark.parametrize(
    "layer, reason",
    [
        (Explicit(), r"1 \(Explicit\): its softmax over \(3, 8, 8\)"),
        (Fused(dropout_p=0.5), r"1 \(Fused\): it drops 0.5"),
        (
            nn.Sequential(nn.Unflatten(1, (4, 2)), nn.Flatten(0, 1), Fused()),
            r"1.2 \(Fused\): .* 12 windows of 3 inputs",
        ),
        (nn.Sequential(nn.Unflatten(1, (4, 2)), Fused()), r"1.1 \(Fused\): its weights \(3, 1, 4, 2, 2\) .* windows"),
        (Louder(10, 2), r"1 \(Louder\): recomputed it differs by .* from its own output"),
        (nn.Sequential(*[Fused()] * 2), r"1.0 \(Fused\): it attends more than once"),
    ],
)
def test_layer_is_refused_with_the_reason(layer, reason):
    network = nn.Sequential(nn.Identity(), layer).double().eval()
    with pytest.raises(NotRecomputable, match=f"^{reason}"), attention_weights(network):
        network(drawn(3, 8, 10))


@pytest.mark.parametrize("network, name", [(Pooled(), "layer"), (Crossed(), "own")])
def test_pooling_query_and_cross_attention_are_left_as_they_are(network, name):
    network, x = network.double().eval(), drawn(3, 7, 10)
    with attention_weights(network) as weights:
        output = network(x)
    assert_close(output, network(x), **EXACT)
    assert list(weights) == [name]


def test_training_mode_is_refused_by_name():
    network = vit(dropout=0.1)
    network.encoder.blocks[1].dropout.train()
    with (
        pytest.raises(ValueError, match=r"^encoder\.blocks\.1\.dropout is in training mode"),
        attention_weights(network),
    ):
        pass


@pytest.mark.parametrize("side", [32, 33])
def test_everything_is_restored_also_after_an_error(side):
    network, images = small_timm(), drawn(2, 3, 32, 32)
    network.blocks[0].attn.fused_attn = False
    plain, kernel = network(images), F.scaled_dot_product_attention
    try:
        with attention_weights(network) as weights:
            network(drawn(2, 3, side, side))
    except AssertionError:
        assert side == 33
    taken = dict(weights)
    assert torch.equal(network(images), plain)
    assert weights == taken and F.scaled_dot_product_attention is kernel
    assert [block.attn.fused_attn for block in network.blocks] == [False, True]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
