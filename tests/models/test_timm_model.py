"""Any network of timm under our contract, and nothing that would fetch or read weights.

Shapes: B = 3 images of N = 32 pixels, 7 classes.
"""

import pytest
import timm
import torch

from vitspeech.models import TimmModel

NAMES = ["mobilenetv3_small_100", "resnet10t"]


@pytest.fixture(scope="module", params=NAMES)
def network(request):
    torch.manual_seed(0)
    return TimmModel(7, request.param)


def images(batch=3):
    return torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_network_is_that_of_timm():
    torch.manual_seed(0)
    theirs = timm.create_model("resnet10t", num_classes=7).eval()
    ours = TimmModel(7, "resnet10t").eval()
    ours.network.load_state_dict(theirs.state_dict())
    assert torch.equal(ours(images()), theirs(images()))


def test_options_reach_timm():
    assert TimmModel(7, "resnet10t", {"in_chans": 1})(torch.randn(3, 1, 32, 32)).shape == (3, 7)


def test_unknown_name_is_an_error_that_names_it_and_its_like():
    with pytest.raises(ValueError, match=r"timm_name='resnet_10t' is not a network .* close names: .*resnet"):
        TimmModel(7, "resnet_10t")
    with pytest.raises(ValueError, match="timm_name='nosuchnet' is not a network of timm"):
        TimmModel(7, "nosuchnet")


@pytest.mark.parametrize("name", ["hf-hub:x", "resnet10t.hf-hub:x", "local-dir:/tmp/resnet10t"])
def test_name_that_would_fetch_or_read_a_model_is_refused(name, monkeypatch):
    monkeypatch.setattr(timm, "create_model", lambda *given, **options: pytest.fail("timm was asked for it"))
    with pytest.raises(ValueError, match=f"timm_name='{name}' is not a network of timm"):
        TimmModel(7, name)


@pytest.mark.parametrize("option", ["pretrained", "pretrained_cfg", "checkpoint_path"])
def test_option_that_would_load_weights_is_refused(option, monkeypatch):
    monkeypatch.setattr(timm, "create_model", lambda *given, **options: pytest.fail("timm was asked for it"))
    with pytest.raises(ValueError, match=f"options {option} would load weights"):
        TimmModel(7, "resnet10t", {option: "anything"})


def test_without_classes_features_are_returned():
    network = TimmModel(timm_name="resnet10t").eval()
    assert network(images()).shape == (3, 512)
