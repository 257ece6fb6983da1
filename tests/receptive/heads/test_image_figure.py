"""The attention figure of vision transformers, and which networks are refused."""

import numpy
import pytest
import torch
from PIL import Image
from torch import nn

from vitspeech.attention import EncoderConfig, SelfAttentivePooling
from vitspeech.checkpoint.model import Model
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import CNN, SpeechRecognizer, ViT
from vitspeech.receptive.heads.figure import attention_maps, draw_attention, forward_with_attention

LABELS = ["cat", "$5 $6"]
IMAGE = {"image": 12, "mean": [0.5] * 3, "std": [0.25] * 3}
POOLINGS = ["mean", "class", "self_attentive"]


def vit(pooling="mean", **options):
    torch.manual_seed(0)
    encoder = EncoderConfig(depth=2, heads=5)
    return ViT(len(LABELS), image=12, patch=4, width=10, encoder=encoder, pooling=pooling, **options).eval()


def released(network, preprocessing=IMAGE):
    return Model(network.eval(), LABELS, preprocessing, {}, {})


@pytest.fixture
def images():
    return torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def photo(tmp_path):
    pixels = numpy.random.default_rng(0).integers(0, 256, (23, 31, 3), dtype=numpy.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("pooling", [*POOLINGS, SelfAttentivePooling(10, hops=3)])
def test_a_figure_is_drawn_that_can_be_read_at_400_px(pooling, photo, tmp_path):
    draw_attention(released(vit(pooling)), photo, tmp_path / "out.png")
    figure = numpy.asarray(Image.open(tmp_path / "out.png").convert("L"))
    assert figure.shape[1] == 845 and 500 < figure.shape[0] < 1100
    assert figure.std() > 20 and len(numpy.unique(figure)) > 100


@pytest.mark.parametrize(
    ("pooling", "title"), [("mean", None), ("class", "class token"), ("self_attentive", "pooling weights")]
)
def test_the_maps_are_rollout_pooling_and_each_block(pooling, title, images):
    network = vit(pooling)
    maps = attention_maps(network, images, forward_with_attention(network, images))
    assert list(maps) == ["rollout", *([title] if title else []), "block 1", "block 2"]
    assert all(values.shape == (9,) for values in maps.values())


@torch.no_grad()
def test_the_class_tokens_map_is_its_row_in_the_last_block(images):
    network = vit("class")
    attention = forward_with_attention(network, images)
    row = attention.weights[-1, 0].mean(0)[0, 1:]
    assert torch.allclose(attention_maps(network, images, attention)["class token"], 10 * row)


@torch.no_grad()
def test_the_pooling_map_is_the_mean_over_hops_of_the_poolings_weights(images):
    network = vit(SelfAttentivePooling(10, hops=3))
    attention = forward_with_attention(network, images)
    weights = network.pooling.weights(attention.tokens)
    assert torch.allclose(attention_maps(network, images, attention)["pooling weights"], 9 * weights.mean(1)[0])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_uniform_attention_is_one_in_every_map(pooling, images):
    network = vit(pooling)
    for block in network.encoder.blocks:
        nn.init.zeros_(block.attention.query.weight)
    if pooling == "self_attentive":
        nn.init.zeros_(network.pooling.score.weight)
    maps = attention_maps(network, images, forward_with_attention(network, images))
    if pooling == "class":  # the residual path keeps part of the class token in itself
        rows = maps.pop("rollout")
        assert torch.allclose(rows, rows.mean().expand(9), atol=1e-5) and rows.mean() < 1
    for values in maps.values():
        assert torch.allclose(values, torch.ones(9), atol=1e-4)


@pytest.mark.parametrize(
    ("network", "preprocessing", "message"),
    [
        (CNN(2), IMAGE, "^--attention draws ViT and SpeechClassifier; CNN has no attention$"),
        (
            SpeechRecognizer(2, SpeechFrontend(8, mels=20), EncoderConfig(depth=1, heads=2)),
            {"sample_rate_hz": 16_000, "units": "words"},
            "SpeechRecognizer is drawn by `vitspeech transcribe --picture`$",
        ),
    ],
)
def test_other_networks_are_refused_in_one_line(network, preprocessing, message, photo, tmp_path):
    with pytest.raises(ValueError, match=message):
        draw_attention(released(network, preprocessing), photo, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()
