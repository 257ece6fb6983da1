"""Parameter groups and schedules."""

import math

import pytest
import timm.optim
import torch
from torch import nn

from vitspeech.attention import LearnedPositions, RelativePositions
from vitspeech.attention.pooling import ClassToken
from vitspeech.attention.scores import SCORES
from vitspeech.models import TimmModel, ViT
from vitspeech.tasks.optimizer import learning_rate, parameter_groups


def kinds(network):
    """Of each parameter by name: whether it has weight decay, and whether Muon takes it."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    found = {}
    for group in parameter_groups(network):
        kind = ("weight_decay" not in group, not group.get("use_fallback", False))
        assert kind != (False, True)
        for parameter in group["params"]:
            assert names[id(parameter)] not in found  # in one group only
            found[names[id(parameter)]] = kind
    return found


HIDDEN, OUTPUT, PLAIN = (True, True), (True, False), (False, False)
KINDS = [
    (nn.Linear(5, 7), {"weight": HIDDEN, "bias": PLAIN}),
    (nn.Conv1d(5, 7, 3), {"weight": HIDDEN, "bias": PLAIN}),
    (nn.LayerNorm((5, 7)), {"weight": PLAIN, "bias": PLAIN}),
    (nn.BatchNorm2d(5), {"weight": PLAIN, "bias": PLAIN}),
    (nn.Embedding(5, 7), {"weight": PLAIN}),
    (RelativePositions(6), {"key": PLAIN, "value": PLAIN}),
    (LearnedPositions(5, 6), {"table": PLAIN}),
    (ClassToken(6), {"token": PLAIN}),
    (SCORES["general"](2, 6), {"weight": HIDDEN}),
    (SCORES["additive"](2, 6), {"query_weight": HIDDEN, "key_weight": HIDDEN, "additive_vector": PLAIN}),
    (SCORES["cosine"](2, 6), {"log_temperature": PLAIN}),
]


@pytest.mark.parametrize(("module", "expected"), KINDS, ids=[type(module).__name__ for module, _ in KINDS])
def test_each_kind_of_parameter_has_its_group_at_any_depth(module, expected):
    assert kinds(module) == expected
    nested = nn.Sequential(nn.ReLU(), nn.Sequential(module))
    assert kinds(nested) == {f"1.0.{name}": kind for name, kind in expected.items()}


@pytest.mark.parametrize(
    ("name", "options", "plain", "head"),
    [
        ("vit_tiny_patch16_224", {"img_size": 32}, "pos_embed", "head.weight"),
        ("resnet18", {}, "layer1.0.bn1.weight", "fc.weight"),
        ("swin_tiny_patch4_window7_224", {}, "layers.0.blocks.0.attn.relative_position_bias_table", "head.fc.weight"),
    ],
)
def test_networks_of_timm_name_their_own(name, options, plain, head):
    found = kinds(TimmModel(7, name, options))
    assert found[f"network.{plain}"] == PLAIN and found[f"network.{head}"] == OUTPUT


def test_a_module_of_a_users_own_names_its_parameters_with_wildcards():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.ModuleList([nn.Linear(5, 5), nn.Bilinear(5, 5, 5)]), nn.Linear(5, 7)

        def no_weight_decay(self):
            return {"body.1.*"}

    found = kinds(Own())
    assert found["body.0.weight"] == HIDDEN and found["body.1.weight"] == PLAIN and found["head.weight"] == OUTPUT


def test_muon_takes_hidden_weights_only():
    network = ViT(10, width=16, encoder={"depth": 1, "heads": 2}, positions="relative")
    optimizer = timm.optim.Muon(parameter_groups(network), lr=0.1, weight_decay=0.0)
    network(torch.randn(3, 3, 32, 32)).square().sum().backward()
    optimizer.step()
    taken = {name for name, parameter in network.named_parameters() if optimizer.state[parameter]["use_muon"]}
    assert taken == {name for name, kind in kinds(network).items() if kind == HIDDEN}
    assert not any("head" in name or "relative" in name or "bias" in name for name in taken)


def rates(decay: str, steps: int = 100, warmup_steps: int = 10) -> list[float]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = learning_rate(optimizer, steps=steps, warmup_steps=warmup_steps, decay=decay)
    seen = []
    for _ in range(steps + 1):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


def test_warmup_rises_evenly_to_the_full_rate():
    assert rates("linear")[:10] == pytest.approx([0.2 * step for step in range(1, 11)])


def test_each_decay_has_its_shape_and_ends_where_it_should():
    assert rates("linear")[10:] == pytest.approx([2 * (1 - step / 90) for step in range(91)])
    assert rates("cosine")[10:] == pytest.approx([1 + math.cos(math.pi * step / 90) for step in range(91)])
    assert rates("constant")[10:] == [2.0] * 91


def test_inverse_square_root_is_the_schedule_of_vaswani():
    """lr = peak · min(step^-0.5, step · warmup^-1.5) / warmup^-0.5, steps counted from 1 (arXiv:1706.03762, eq. 3)."""
    expected = [2 * min(step**-0.5, step * 10**-1.5) / 10**-0.5 for step in range(1, 102)]
    assert rates("inverse_sqrt") == pytest.approx(expected)
    assert rates("inverse_sqrt", warmup_steps=0)[3] == pytest.approx(2 / math.sqrt(4))
