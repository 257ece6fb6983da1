"""What the exporter refuses: one line that names the operator and the layer, silence otherwise, and nothing written."""

import pytest
import torch
from torch import nn

from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError
from vitspeech.export import export
from vitspeech.export.graphs import Graph, to_onnx


class Bessel(nn.Module):
    """A function that ONNX lacks."""

    def forward(self, x):
        return torch.special.bessel_j0(x)


class Branch(nn.Module):
    """Control flow by values of the input."""

    def forward(self, x):
        return 2 * x if x.sum() > 0 else x


class Mapping(nn.Module):
    def forward(self, x):
        return {"logits": x}


class Pair(nn.Module):
    def forward(self, x):
        return x, x


def network(layer):
    return nn.Sequential(nn.Conv2d(3, 4, 8), nn.Flatten(), nn.Sequential(nn.LayerNorm(4), layer)).eval()


def model(layer):
    return Model(network(layer), list("abcd"), {"image": 8, "mean": [0.5] * 3, "std": [0.5] * 3}, {}, {})


@pytest.mark.parametrize(
    "layer, message",
    [
        (Bessel(), r"prims\.bessel_j0 in 2\.1 \(Bessel\) has no ONNX counterpart"),
        (
            nn.AdaptiveMaxPool1d(2),
            r"aten\.adaptive_max_pool2d to \[1, 2\] has no ONNX counterpart in 2\.1 \(AdaptiveMaxPool1d\)",
        ),
        (Branch(), r"control flow in 2\.1 \(Branch\) depends on values of the input"),
    ],
)
def test_an_operation_without_counterpart_is_named_with_its_layer_and_nothing_is_written(
    layer, message, tmp_path, capfd
):
    with pytest.raises(InputError, match=rf"^Sequential can't be exported: .*{message}.*$") as caught:
        export(model(layer), tmp_path / "exported")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [] and capfd.readouterr() == ("", "")


@pytest.mark.parametrize("layer, returned", [(Mapping(), "dict"), (Pair(), "Tensor, Tensor")])
def test_a_network_that_returns_something_else_than_a_tensor(layer, returned):
    with pytest.raises(InputError, match=f"^Sequential can't be exported: it returns {returned}, not a tensor$"):
        to_onnx(Graph(network(layer), {"x": torch.zeros(1, 3, 8, 8)}, ["logits"]))
