"""The vision transformer: its contract with every stem and pooling, and what its arguments reach.

Shapes: B = 3 images of N = 12 pixels, T = 9 tokens, D = 10, H = 5, 7 classes.
"""

import pytest
import torch
from arguments import nested
from torch.testing import assert_close

from vitspeech.attention import SelfAttentivePooling
from vitspeech.models import ViT

SIZE = {"classes": 7, "image": 12, "patch": 4, "width": 10, "depth": 2, "heads": 5}
EVERY = pytest.mark.parametrize("stem", ["linear", "convolutional", "whitened"])
POOLING = pytest.mark.parametrize("pooling", ["mean", "class", "self_attentive"])


def images(batch=3):
    return torch.randn(batch, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def vit(**options):
    torch.manual_seed(0)
    return ViT(**nested(**SIZE | options))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "relative", "rotary", "rotary_2d"])
@POOLING
def test_every_kind_of_positions_tells_patches_apart(positions, pooling):
    network = vit(positions=positions, pooling=pooling, width=20).double().eval()
    whole = images().double()
    moved = whole.roll((4, 4), (2, 3))  # the same patches elsewhere
    assert not torch.allclose(network(whole), network(moved), atol=1e-9)


@pytest.mark.parametrize("pooling", ["mean", "self_attentive"])
def test_without_positions_patches_are_a_set(pooling):
    network = vit(positions="none", pooling=pooling).double().eval()
    whole = images().double()
    assert_close(network(whole), network(whole.roll((4, 4), (2, 3))))


def test_unknown_names_are_errors_that_list_the_known():
    for argument, known in (
        ("positions", "learned, sinusoidal, none, relative, rotary, rotary_2d"),
        ("score", "scaled_dot, dot, general, additive, cosine"),
        ("normalizer", "softmax, relu"),
    ):
        with pytest.raises(ValueError, match=f"^{argument}='other' is unknown; known: {known}$"):
            vit(**{argument: "other"})


@EVERY
@POOLING
def test_gradients_reach_every_parameter(stem, pooling):
    network = vit(stem=stem, pooling=pooling).train()
    network(images()).square().sum().backward()
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:  # the filters of whitening and the scales of batch norm
            assert stem == "whitened" and name.startswith(("patches.whitening.weight", "patches.stages.")), name
            continue
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        # A softmax does not change when every key moves by the same bias.
        assert name.endswith("attention.key.bias") or (parameter.grad != 0).any(), name


def test_class_token_stands_before_the_patches_in_the_encoder():
    network = vit(pooling="class").eval()
    seen = []
    network.encoder.register_forward_hook(lambda module, given, result: seen.append((given[0], result)))
    features = network.forward_head(network.forward_features(images()), pre_logits=True)
    (tokens, encoded), *_ = seen
    assert tokens.shape == (3, 10, 10) and torch.equal(tokens[:, 0], network.pooling.token.expand(3, -1))
    assert torch.equal(features, encoded[:, 0])


def test_pooling_with_several_hops_widens_the_head():
    network = vit(pooling=SelfAttentivePooling(10, hidden=11, hops=3, penalty=0.1)).train()
    assert network.forward_head(network.forward_features(images()), pre_logits=True).shape == (3, 30)
    assert network(images()).shape == (3, 7)
    assert network.pooling.auxiliary_loss > 0


@pytest.mark.parametrize("heads", [0, 5])
def test_heads_are_checked_before_rotary_positions(heads):
    with pytest.raises(ValueError, match=f"heads={heads} does not divide width=24"):
        ViT(3, 16, 4, width=24, encoder={"heads": heads}, positions="rotary_2d")


@POOLING
def test_without_classes_features_are_returned(pooling):
    network = vit(classes=0, pooling=pooling).eval()
    assert network(images()).shape == (3, 10)
    assert torch.equal(network(images()), network.forward_head(network.forward_features(images()), pre_logits=True))


def test_initializing_sets_the_whitening_of_a_hybrid_and_nothing_else():
    for stem, changed in (("whitened", ["patches.whitening.weight"]), ("convolutional", [])):
        network = vit(stem=stem)
        before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        network.initialize(images(50))
        assert [
            name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])
        ] == changed


def test_a_linear_stem_has_no_width_of_its_own():
    with pytest.raises(ValueError, match="stem_width is for stems of convolutions"):
        vit(stem_width=5)
