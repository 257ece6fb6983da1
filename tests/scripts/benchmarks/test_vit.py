"""The peers of our ViT have its shape, and the report says how fast each learns."""

import importlib.util
import json
import math

import pytest
import torch
from timm.layers import use_fused_attn

from benchmarks import vit
from benchmarks.measure import NotRunError
from benchmarks.vit import NETWORKS, Settings, Shape

TINY = Shape(image=16, patch=4, width=24, depth=2, heads=2, classes=7)


def made(name, shape):
    """That network, or a skip where its package is not installed."""
    try:
        return NETWORKS[name](shape)
    except NotRunError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_have_one_shape(name):
    network = made(name, TINY)
    assert network(torch.randn(3, 3, 16, 16)).shape == (3, 7)
    count = sum(parameter.numel() for parameter in made(name, Shape()).parameters())
    assert count == pytest.approx(2_693_194, rel=0.01)  # 6 blocks of 12 · 192², and the rest


@pytest.mark.parametrize("name", NETWORKS)
def test_two_steps_change_the_weights(name):
    network = made(name, TINY)
    before = [parameter.clone() for parameter in network.parameters()]
    step = vit.training_step(network, torch.randn(3, 3, 16, 16), torch.tensor([0, 6, 2]), "bf16")
    assert step().isfinite() and step().isfinite()  # after one, torchvision's head, zero at first, lets no gradient by
    changed = [not torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True)]
    assert sum(changed) >= 0.9 * len(changed)


def test_timm_attends_over_as_many_tokens_as_ours():
    assert vit.timm(TINY).pos_embed.shape[1] == (TINY.image // TINY.patch) ** 2


def test_fused_attention_is_disabled_in_only_one_network():
    fused = [module.fused_attn for module in vit.timm(TINY).modules() if hasattr(module, "fused_attn")]
    unfused = [module.fused_attn for module in vit.timm_unfused(TINY).modules() if hasattr(module, "fused_attn")]
    assert fused == [True, True] and unfused == [False, False] and use_fused_attn()


def test_the_report_has_a_rate_and_a_count_of_each(monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vit_pytorch" else find(name))
    path = tmp_path / "vit.json"
    report = vit.benchmark(Settings(batch=2, repeats=2, shape=TINY), path)
    stored = json.loads(path.read_text())
    assert stored == json.loads(json.dumps(report)) and stored["complete"] and stored["commit"]
    for cell in stored["cells"]:
        assert set(cell["times"]) == set(stored["parameters"]) == set(NETWORKS) - {"vit-pytorch"}
        for time in cell["times"].values():
            assert math.isfinite(time["images_per_second"]) and len(time["samples_ms"]) == 2
            ours = cell["times"]["ours"]["images_per_second"]
            assert time["ratio"] == pytest.approx(ours / time["images_per_second"])
    assert "vit-pytorch: not installed (pip install -e '.[bench]')" in vit.table(report)


def test_each_is_compiled_too_where_that_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(torch, "compile", lambda network: network)
    monkeypatch.setattr(vit, "NETWORKS", {"ours": vit.ours, "timm": vit.timm})
    report = vit.benchmark(
        Settings(batch=2, repeats=1, dtypes=["fp32"], compiled=True, shape=TINY), tmp_path / "vit.json"
    )
    assert list(report["cells"][0]["times"]) == ["ours", "ours, compiled", "timm", "timm, compiled"]
    assert "timm, compiled" in vit.table(report)
