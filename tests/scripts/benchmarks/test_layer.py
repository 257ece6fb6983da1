"""The layers that are timed compute the same, and the report says how fast."""

import json
import math

import pytest
import torch
from torch.testing import assert_close

from benchmarks import layer
from benchmarks.layer import LAYERS, Settings


def test_the_layers_compute_the_same_from_the_same_weights():
    torch.manual_seed(0)
    ours, fused, theirs = (make(24, 2) for make in LAYERS.values())
    fused.load_state_dict(ours.state_dict())
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    x = torch.randn(3, 11, 24)
    assert_close(fused(x), ours(x))
    assert_close(theirs(x), ours(x))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_pass_gives_a_gradient_to_the_input_and_to_every_weight(dtype):
    for make in LAYERS.values():
        made = make(24, 2)
        gradients = layer.training_pass(made, torch.randn(3, 11, 24), dtype)()
        assert len(gradients) == 1 + len(list(made.parameters()))
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_the_report_has_a_time_of_each(tmp_path):
    path = tmp_path / "layer.json"
    report = layer.benchmark(Settings(tokens=(5, 11), batch=2, width=24, heads=2, repeats=2), path)
    stored = json.loads(path.read_text())
    assert stored == json.loads(json.dumps(report)) and stored["complete"] and stored["commit"]
    assert [(cell["tokens"], cell["dtype"]) for cell in stored["cells"]] == [
        (5, "fp32"),
        (5, "bf16"),
        (11, "fp32"),
        (11, "bf16"),
    ]
    assert all(math.isfinite(cell["times"][name]["ratio"]) for cell in stored["cells"] for name in LAYERS)
    assert all(name in layer.table(report) for name in LAYERS)
