"""The convolutional baseline: its contract with both bodies, and its whitening layer.

Shapes: B = 3 images of N = 16 pixels, 7 classes, 5, 11 and 13 channels.
"""

import pytest
import timm
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.frontends.image_stem import AT_ONCE, Whitening
from vitspeech.models import CNN

BODIES = pytest.mark.parametrize("body, features", [("small", 13), ("resnet18", 512)])


def images(batch=3, side=16):
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(0))


def cnn(body="small"):
    torch.manual_seed(0)
    return CNN(7, body, widths=(5, 11, 13))


def photographs(batch=97):
    """Normalized images whose neighboring pixels and channels resemble each other, as in photographs."""
    torch.manual_seed(0)
    smooth = F.interpolate(torch.randn(batch, 3, 5, 5), size=17, mode="bilinear")
    grainy = smooth + torch.randn(batch, 1, 17, 17) + 0.3 * torch.randn(batch, 3, 17, 17)
    mean, std = (of(grainy, (0, 2, 3), keepdim=True) for of in (torch.mean, torch.std))
    return (grainy - mean) / std


@BODIES
def test_gradients_reach_every_trained_parameter(body, features):
    network = cnn(body).train()
    for name, parameter in network.named_parameters():
        if name.endswith("bn2.weight"):  # zero at first in timm's ResNets, which shuts the branch
            torch.nn.init.ones_(parameter)
    network(images()).square().sum().backward()
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and (parameter.grad != 0).any(), name


def test_small_body_takes_any_side_from_16():
    network = cnn().eval()
    assert network(images(side=16)).shape == network(images(side=37)).shape == (3, 7)


def test_resnet18_is_that_of_timm_but_for_a_stem_for_small_images():
    network, theirs = cnn("resnet18").eval(), timm.create_model("resnet18", num_classes=0)
    theirs.conv1, theirs.maxpool = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False), torch.nn.Identity()
    theirs.load_state_dict(network.body.state_dict())
    pooled = network.forward_head(network.forward_features(images()), pre_logits=True)
    assert_close(pooled, theirs.eval()(images()), atol=1e-4, rtol=1e-4)


def test_whitening_responses_have_unit_variance_and_are_uncorrelated():
    network, sample = cnn(), photographs()
    patches = F.unfold(sample, 2).transpose(1, 2).flatten(0, 1)
    correlated = torch.cov(patches.T)
    assert (correlated - correlated.diag().diag()).abs().max() > 0.3
    network.initialize(sample)
    responses = F.conv2d(sample, network.body.whitening.weight[:12]).transpose(0, 1).flatten(1)
    assert_close(torch.cov(responses), torch.eye(12), atol=0.02, rtol=0)


def test_whitening_floor_keeps_absent_components_small():
    network, sample = cnn(), photographs()[:, :1].expand(-1, 3, -1, -1)
    network.initialize(sample)
    responses = F.conv2d(sample, network.body.whitening.weight[:12]).transpose(0, 1).flatten(1)
    variances = responses.var(1).sort().values
    assert (variances[:8] < 1e-3).all()
    assert_close(variances[8:], torch.ones(4), atol=0.02, rtol=0)
    assert network.body.whitening.weight.abs().max() <= 1.01 / 5e-4**0.5


def test_second_half_of_the_whitening_filters_are_the_negatives_of_the_first():
    network = cnn()
    network.initialize(photographs())
    weight = network.body.whitening.weight
    assert weight.shape == (24, 3, 2, 2)
    assert torch.equal(weight[12:], -weight[:12])


def test_whitening_filters_and_scales_of_batch_norm_are_not_trained():
    network = cnn().train()
    network.initialize(photographs())
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, weight_decay=0.1)
    network(images()).square().sum().backward()
    optimizer.step()
    kept = [name for name, parameter in network.named_parameters() if torch.equal(parameter, before[name])]
    scales = [f"body.groups.{group}.{norm}.weight" for group in (1, 2, 3) for norm in (2, 5)]
    assert kept == ["body.whitening.weight", *scales]


def test_convolutions_of_a_group_pass_their_inputs_on_at_first():
    convolutions = [module for module in cnn().body.groups.modules() if isinstance(module, torch.nn.Conv2d)]
    assert len(convolutions) == 6
    for convolution in convolutions:
        inputs = torch.randn(2, convolution.in_channels, 6, 6)
        outputs = convolution(inputs)
        count = min(inputs.shape[1], outputs.shape[1])
        assert_close(outputs[:, :count], inputs[:, :count])
        assert outputs[:, count:].abs().mean() > 0.01 or count == outputs.shape[1]


def test_initializing_changes_nothing_else():
    for network in (cnn(), cnn("resnet18")):
        before = {name: value.clone() for name, value in network.state_dict().items()}
        network.initialize(photographs(5))
        after = network.state_dict()
        changed = [name for name in after if not torch.equal(after[name], before[name])]
        assert changed == (["body.whitening.weight"] if hasattr(network.body, "whitening") else [])


def test_unknown_body_is_an_error_that_lists_the_known():
    with pytest.raises(ValueError, match="body='large' is unknown; known: small, resnet18"):
        CNN(7, "large")


def test_the_whitening_of_many_images_is_that_of_their_patches():
    images = torch.randn(AT_ONCE + 3, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    whitening = Whitening()
    whitening.whiten(images, floor=0.0)
    outputs = torch.nn.functional.conv2d(images, whitening.weight)[:, :12].transpose(0, 1).flatten(1)
    torch.testing.assert_close(outputs @ outputs.T / outputs.shape[1], torch.eye(12), rtol=0, atol=1e-3)
