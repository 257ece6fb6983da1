"""What classifiers have in common with timm's: a head that can be replaced, the outputs of blocks, errors of inputs."""

import numpy
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import CNN, SpeechClassifier, SpeechCNN, SpeechRecognizer, TimmModel, ViT

ENCODER = {"depth": 3, "heads": 2}
TOKENS = {"width": 16, "mels": 5, "stride": 4}


def vit(**options):
    return lambda: ViT(7, 12, 4, width=16, encoder=ENCODER, **options)


def speech(encoder=ENCODER, **options):
    return lambda: SpeechClassifier(7, SpeechFrontend(**TOKENS), encoder, **options)


NETWORKS = {
    "ViT": vit(),
    "class token": vit(pooling="class"),
    "self-attentive": vit(pooling="self_attentive"),
    "rotary": vit(positions="rotary_2d"),
    "hybrid": vit(stem="whitened"),
    "post-norm": lambda: ViT(7, 12, 4, width=16, encoder=ENCODER | {"norm": "post"}),
    "CNN": lambda: CNN(7, widths=(24, 25, 26)),
    "ResNet": lambda: CNN(7, "resnet18"),
    "speech": speech(),
    "sinusoidal speech": speech(positions="sinusoidal"),
    "recurrent speech": speech(RecurrentEncoder(16, depth=2)),
    "speech windows": speech(WindowMLP(16, left=1, right=1)),
    "speech CNN": lambda: SpeechCNN(7, SpeechFrontend(**TOKENS), 2, 3),
    "timm": lambda: TimmModel(7, "resnet10t"),
}
EVERY = pytest.mark.parametrize("name", NETWORKS)


def built(name):
    torch.manual_seed(0)
    network = NETWORKS[name]().double().eval()
    side = {"CNN": 16, "ResNet": 32, "timm": 32}.get(name, 12)
    shape = (2, 4000) if "speech" in name else (2, 3, side, side)
    return network, 0.1 * torch.randn(shape, dtype=torch.float64)


@EVERY
def test_the_head_is_replaced_and_takes_the_same_features(name):
    network, inputs = built(name)
    assert network.num_classes == 7
    features = network.forward_head(network.forward_features(inputs), pre_logits=True)
    assert features.shape == (2, network.num_features)
    assert_close(network.get_classifier()(features), network(inputs))
    network.reset_classifier(4)
    assert network(inputs).shape == (2, 4) and network(inputs).dtype == torch.float64
    assert network.num_classes == 4 and not network.get_classifier().training
    network.reset_classifier(num_classes=0)
    assert_close(network(inputs), features)


@EVERY
def test_intermediates_are_what_the_blocks_return(name):
    network, inputs = built(name)
    final, found = network.forward_intermediates(inputs)
    assert_close(final, network.forward_features(inputs))
    if name == "timm":
        return
    blocks, outputs = network.stages(inputs)[1], []
    handles = [block.register_forward_hook(lambda *arguments: outputs.append(arguments[2])) for block in blocks]
    network(inputs)
    for handle in handles:
        handle.remove()
    if isinstance(network, ViT):
        outputs = [tokens[:, -9:].transpose(1, 2).unflatten(2, (3, 3)) for tokens in outputs]
    assert len(found) == len(outputs) == len(blocks)
    for one, other in zip(found, outputs, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(
    ("indices", "expected"), [(None, [0, 1, 2]), (2, [1, 2]), ([0, -1], [0, 2]), ([-1, 0], [0, 2]), (range(2), [0, 1])]
)
def test_indices_choose_blocks_as_in_timm(indices, expected):
    network, inputs = built("ViT")
    _, every = network.forward_intermediates(inputs)
    found = network.forward_intermediates(inputs, indices, intermediates_only=True)
    assert len(found) == len(expected)
    for one, number in zip(found, expected, strict=True):
        assert_close(one, every[number])


def test_a_vision_transformer_of_timm_with_the_same_weights_has_the_same_intermediates():
    import timm

    theirs = timm.models.VisionTransformer(
        12, 4, num_classes=7, embed_dim=16, depth=3, num_heads=2, global_pool="token", weight_init="", act_layer=nn.GELU
    )
    theirs, (ours, images) = theirs.double().eval(), built("class token")
    with torch.no_grad():
        for block in ours.encoder.blocks:
            for norm in (block.attention_norm, block.mlp_norm):
                norm.eps = 1e-6
        ours.encoder.norm.eps = 1e-6
        theirs.patch_embed.proj.weight.copy_(ours.patches.project.weight.view(16, 3, 4, 4))
        theirs.patch_embed.proj.bias.copy_(ours.patches.project.bias)
        theirs.cls_token.copy_(ours.pooling.token)
        theirs.pos_embed.zero_()
        theirs.pos_embed[:, 1:].copy_(ours.positions.table)
        theirs.norm.load_state_dict(ours.encoder.norm.state_dict())
        theirs.head.load_state_dict(ours.head.state_dict())
        for mine, other in zip(ours.encoder.blocks, theirs.blocks, strict=True):
            parts = [mine.attention.query, mine.attention.key, mine.attention.value]
            other.attn.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            other.attn.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
            other.attn.proj.load_state_dict(mine.attention.output.state_dict())
            other.norm1.load_state_dict(mine.attention_norm.state_dict())
            other.norm2.load_state_dict(mine.mlp_norm.state_dict())
            other.mlp.fc1.load_state_dict(mine.mlp[0].state_dict())
            other.mlp.fc2.load_state_dict(mine.mlp[3].state_dict())
    assert_close(ours(images), theirs(images))
    options = [{}, {"norm": True}, {"indices": 2, "output_fmt": "NLC"}, {"indices": [0], "stop_early": True}]
    for given in options:
        (final, found), (their_final, their_found) = (
            net.forward_intermediates(images, **given) for net in (ours, theirs)
        )
        assert_close(final, their_final)
        assert_close(found, their_found)


def test_wrong_indices_and_encoders_without_blocks_are_refused():
    network, inputs = built("ViT")
    for wrong in (0, 4, [3], [-4], []):
        with pytest.raises(InputError, match="there are blocks 0 to 2"):
            network.forward_intermediates(inputs, wrong)
    encoder = nn.Linear(16, 16)
    encoder.width, encoder.receptive_field = 16, (0, 0)
    with pytest.raises(InputError, match="Linear has no blocks"):
        speech(encoder)().forward_intermediates(torch.zeros(1, 4000))


@pytest.mark.parametrize("name", ["ViT", "hybrid", "CNN", "ResNet", "timm"])
def test_pixels_that_are_no_floats_or_no_tensor_are_refused_with_what_to_do(name):
    network, inputs = built(name)
    for wrong, kind in ((inputs.byte(), "torch.uint8"), (inputs.numpy(), "ndarray"), ([1], "list")):
        for method in (network, network.forward_features, network.forward_intermediates):
            with pytest.raises(InputError, match=rf"pixels are {kind}, not a float tensor: normalize them by \(pixels"):
                method(wrong)


@pytest.mark.parametrize("network", [speech(), lambda: SpeechCNN(7), lambda: SpeechRecognizer(7)])
def test_samples_that_are_no_tensor_are_refused(network):
    with pytest.raises(InputError, match="samples are ndarray, not a tensor of floats within ±1"):
        network().eval()(numpy.zeros((1, 16_000), numpy.float32))
