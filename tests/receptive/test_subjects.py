"""What is compared: networks rebuilt at other sizes and before training, and their inputs.

Shapes: B = 2 batch, N image side in pixels or samples of a clip, T tokens, D width.
"""

from dataclasses import replace

import pytest
import timm
import torch
from receptive_networks import MEL, noise
from timm.layers import resample_abs_pos_embed
from tiny import ROOT
from torch.testing import assert_close

from vitspeech import checkpoint
from vitspeech.errors import InputError
from vitspeech.models import CNN, ViT
from vitspeech.receptive.fields.layers import INPUT, Layer
from vitspeech.receptive.subjects import subject, subjects_named

LABELS = ["a", "b", "c"]
PICTURES = {"image": 24, "mean": [0.5, 0.25, 0.75], "std": [0.25, 0.5, 0.125]}
CLIPS = {"sample_rate_hz": 16000, "seconds": 0.5}


@pytest.fixture
def released(tmp_path):
    """Saves a network under a seed of its own and gives the subject that it becomes."""

    def save(name, preprocessing=PICTURES, **arguments):
        config = {"class_path": f"vitspeech.{name}", "init_args": {"classes": 3, **arguments}}
        torch.manual_seed(5)
        network = checkpoint.build(config).eval()
        model = checkpoint.Model(network, LABELS, preprocessing, {"name": name}, config)
        checkpoint.save(model, tmp_path / name.lower())
        return subject(str(tmp_path / name.lower()))

    return save


VIT = {"image": 24, "patch": 4, "width": 8, "encoder": {"depth": 2, "heads": 2}}
TOKENS = {"class_path": "vitspeech.SpeechFrontend", "init_args": {"width": 8, "mels": 5, "stride": 3}}


@pytest.mark.parametrize("options", [{}, {"pooling": "class"}, {"positions": "sinusoidal"}, {"positions": "relative"}])
def test_a_vit_of_its_own_size_has_its_own_weights_to_the_bit(released, options):
    found = released("ViT", **VIT, **options)
    weights, own = found.network().state_dict(), found.model.network.state_dict()
    assert weights.keys() == own.keys() and all(torch.equal(weights[name], own[name]) for name in own)
    images = noise(2, 3, 24, 24)
    assert torch.equal(found.network()(images), found.model.network(images))


@pytest.mark.parametrize("options", [{}, {"pooling": "class"}, {"stem": "convolutional"}])
@pytest.mark.parametrize("size", [36, 16])
def test_learned_positions_are_interpolated_as_timm_does(released, options, size):
    found = released("ViT", **VIT, **options)
    network, own = found.network(size=size), found.model.network.state_dict()
    side = size // 4
    expected = resample_abs_pos_embed(own["positions.table"][None], [side, side], num_prefix_tokens=0)[0]
    assert network.positions.table.shape == (side**2, 8) and torch.equal(network.positions.table, expected)
    others = {name: tensor for name, tensor in network.state_dict().items() if name != "positions.table"}
    assert others.keys() == own.keys() - {"positions.table"}
    assert all(torch.equal(tensor, own[name]) for name, tensor in others.items())
    assert network(noise(2, 3, size, size)).shape == (2, 3)


SMALL = {"img_size": 24, "patch_size": 4, "embed_dim": 8, "depth": 1, "num_heads": 2}


@pytest.mark.parametrize(
    "options, prefix",
    [
        ({}, 1),
        ({"reg_tokens": 2}, 3),
        ({"no_embed_class": True}, 0),
        ({"class_token": False, "global_pool": "avg"}, 0),
    ],
)
@pytest.mark.parametrize("size", [36, 16])
def test_learned_positions_of_timm_are_interpolated_without_those_of_class_tokens(released, options, prefix, size):
    found = released("TimmModel", timm_name="vit_tiny_patch16_224", options=SMALL | options)
    network, own = found.network(size=size), found.model.network.state_dict()["network.pos_embed"]
    side = size // 4
    patches = resample_abs_pos_embed(own[:, prefix:], [side, side], num_prefix_tokens=0)
    assert torch.equal(network.network.pos_embed, torch.cat((own[:, :prefix], patches), 1))
    assert network(noise(2, 3, size, size)).shape == (2, 3)


def test_untrained_networks_are_the_same_each_time_and_not_the_trained_one(released):
    found = released("ViT", **VIT)
    torch.manual_seed(11)
    before = torch.rand(3)
    torch.manual_seed(11)
    first, second = (found.network(trained=False).state_dict() for _ in range(2))
    assert torch.equal(torch.rand(3), before)  # no one's random numbers are taken
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(0)
    fresh = ViT(3, **VIT).state_dict()
    assert all(torch.equal(first[name], fresh[name]) for name in first)
    trained = found.model.network.state_dict()
    assert not torch.equal(first["patches.project.weight"], trained["patches.project.weight"])
    assert not found.network(trained=False).training
    assert not any(weight.requires_grad for weight in found.network(trained=False).parameters())


def test_an_untrained_network_takes_from_its_sample_what_depends_on_data(released):
    found = released("CNN", widths=[5, 7, 11])
    images = found.inputs(torch.randint(0, 256, (29, 3, 24, 24), dtype=torch.uint8))
    plain, network = found.network(trained=False), found.network(trained=False, sample=images)
    whitened = CNN(3, widths=(5, 7, 11))
    whitened.initialize(images)
    assert_close(network.body.whitening.weight, whitened.body.whitening.weight)
    assert not torch.allclose(plain.body.whitening.weight, network.body.whitening.weight)
    # The statistics of a norm are those of what it gets.
    seen = []
    handle = network.body.groups[1][2].register_forward_hook(lambda _, taken, __: seen.append(taken[0]))
    network(images)
    handle.remove()
    norm = network.body.groups[1][2]
    assert_close(norm.running_mean, seen[0].mean((0, 2, 3)), rtol=1e-3, atol=1e-4)
    assert norm.momentum == plain.body.groups[1][2].momentum and not norm.training


# What is refused.


def test_a_parameter_of_another_shape_that_holds_no_positions_of_tokens_is_named(released):
    small = {"img_size": 32, "embed_dim": 12, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}
    found = released("TimmModel", PICTURES | {"image": 32}, timm_name="swin_tiny_patch4_window7_224", options=small)
    with pytest.raises(InputError) as refused:  # the second stage has only 2 × 2 tokens for its windows of 4 × 4
        found.network(size=16)
    name = "network.layers.1.blocks.0.attn.relative_position_bias_table"
    message = f"timmmodel can't take images of 16 px: {name} would have the shape (9, 2) instead of (49, 2)"
    assert str(refused.value).startswith(message)


def test_a_network_of_timm_has_the_size_of_its_own_weights():
    assert subject("timm:resnet10t").size == timm.get_pretrained_cfg("resnet10t").input_size[-1] == 176
    assert subject("timm:resnet10t").preprocessing["mean"] == [0.485, 0.456, 0.406]
    assert subject("timm:vit_tiny_patch16_224", pretrained=True).trained


def test_a_network_that_timm_does_not_have_is_refused_with_close_names():
    with pytest.raises(ValueError, match="timm:resnet1888: not a timm network; close names: resnet18, resnet18d"):
        subject("timm:resnet1888")
    with pytest.raises(ValueError, match=r"timm:hf-hub:a/b: not a timm network; close names: none"):
        subject("timm:hf-hub:a/b")


def test_a_finished_run_is_called_by_its_folder(finished_run, finished_recognizer_run):
    found = subject(str(finished_run))
    assert found.name == "0" == subject(str(finished_run / "model")).name
    assert found.size == 32 and found.trained and found.predicts_label and found.labels == found.model.labels
    assert found.source == Layer(INPUT)
    found = subject(str(finished_recognizer_run))
    assert found.takes_audio and not found.predicts_label and found.labels is None and found.source == MEL


def test_networks_of_timm_are_made_for_the_first_models_pictures(released):
    folder = ROOT / "checkpoints" / "vit-cifar10"
    names = ["timm:resnet10t", str(folder), "timm:resnet18"]
    assert [found.name for found in subjects_named(names)] == ["timm:resnet10t", "vit-cifar10", "timm:resnet18"]
    assert [found.size for found in subjects_named(names)] == [32, 32, 32]
    assert [found.size for found in subjects_named(names, size=48)] == [48, 32, 48]
    assert [found.size for found in subjects_named(names[:1])] == [176]


# Inputs.


def test_pictures_of_the_models_size_are_normalized_alone(released):
    found = released("ViT", **VIT)
    raw = torch.randint(0, 256, (2, 3, 24, 24), dtype=torch.uint8)
    mean, std = (torch.tensor(PICTURES[name])[:, None, None] for name in ("mean", "std"))
    assert_close(found.inputs(raw), (raw / 255 - mean) / std)


@pytest.mark.parametrize("size", [36, 12])
def test_pictures_are_scaled_within_the_range_of_pixels(released, size):
    found = released("ViT", **VIT)
    raw = torch.randint(0, 2, (2, 3, 24, 24), dtype=torch.uint8) * 255
    inputs = found.inputs(raw, size)
    mean, std = (torch.tensor(PICTURES[name])[:, None, None] for name in ("mean", "std"))
    pixels = inputs * std + mean
    assert inputs.shape == (2, 3, size, size) and pixels.min() >= -1e-6 and pixels.max() <= 1 + 1e-6
    even = found.inputs(torch.full((2, 3, 24, 24), 51, dtype=torch.uint8), size)
    assert_close(even, ((0.2 - mean) / std).expand(2, 3, size, size))


def test_clips_are_followed_by_the_next_ones(released):
    found = released("SpeechClassifier", CLIPS, tokens=TOKENS, encoder={"depth": 1, "heads": 2})
    raw = torch.arange(1, 4, dtype=torch.int16)[:, None].expand(3, 8000) * 1000
    assert_close(found.inputs(raw), raw / 32768)
    longer = (found.inputs(raw, 1.25) * 32.768).round().int()
    assert longer.shape == (3, 20000)
    assert [row[[0, 7999, 8000, 15999, 16000, 19999]].tolist() for row in longer] == [
        [1, 1, 2, 2, 3, 3],
        [2, 2, 3, 3, 1, 1],
        [3, 3, 1, 1, 2, 2],
    ]
    assert found.inputs(raw, 0.25).shape == (3, 4000)


def test_a_model_that_takes_more_than_audio_is_refused(finished_transcriber_run):
    with pytest.raises(ValueError, match="SpeechTranscriber is not a network of images or audio alone"):
        subject(str(finished_transcriber_run))


def test_networks_and_inputs_are_on_the_device_of_their_subject(released):
    elsewhere = replace(released("ViT", **VIT), device="meta")
    inputs = elsewhere.inputs(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
    assert inputs.device.type == "meta"
    for network in (elsewhere.network(), elsewhere.network(trained=False, sample=torch.zeros(2, 3, 24, 24))):
        assert {parameter.device.type for parameter in network.parameters()} == {"meta"}
