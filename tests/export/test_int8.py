"""Weights in 8 bits: what is quantized, what is reported, and when it is refused."""

from dataclasses import replace
from types import SimpleNamespace

import onnx
import pytest
import torch

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.errors import InputError
from vitspeech.export import folder as folders
from vitspeech.export import int8
from vitspeech.export.folder import export, spec_of, to_onnx
from vitspeech.export.graphs import session


@pytest.fixture(scope="module")
def model(finished_run):
    """The tiny ViT. It has hardly learned: a bias decides its label, which the rounding to 8 bits does not change."""
    model = vitspeech.load(finished_run)
    model.network.head.bias.data[0] = 2
    return model


@pytest.fixture(scope="module")
def exported(model, graph, tmp_path_factory):
    """It with 8-bit weights."""
    folder, copy = tmp_path_factory.mktemp("int8") / "vit", onnx.ModelProto()
    copy.CopyFrom(graph)
    (bias,) = (tensor for tensor in copy.graph.initializer if tensor.name.endswith("head.bias"))
    bias.CopyFrom(onnx.numpy_helper.from_array(model.network.head.bias.detach().numpy(), bias.name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "to_onnx", lambda *args: copy)
        return folder, export(model, folder, int8=True)


def test_metadata_says_accuracy_size_and_speed_of_both(exported, model):
    folder, metadata = exported
    before, after = metadata["int8"]["fp32"], metadata["int8"]["int8"]
    test = card_dataset(model, None).read("test")
    assert before["test_accuracy"] == pytest.approx((test.labels == 0).float().mean().item())
    assert after["test_accuracy"] >= before["test_accuracy"] - 0.005
    assert after["bytes"] < before["bytes"] and min(before["milliseconds"], after["milliseconds"]) > 0
    assert abs((folder / "model.onnx").stat().st_size - after["bytes"]) < 10_000  # the metadata


def test_linear_layers_have_8_bits_and_the_front_end_has_not(exported):
    nodes = onnx.load(exported[0] / "model.onnx").graph.node
    quantized = [node for node in nodes if node.op_type == "MatMulInteger"]
    assert len(quantized) >= 6  # query, key, value, output and two of the MLP
    assert not [node.name for node in quantized if node.name.startswith("network.patches")]


def test_log_mel_filters_of_a_stream_stay_in_float(finished_speech_run):
    model = vitspeech.load(finished_speech_run)
    spec = spec_of(model)
    before = to_onnx(spec.graphs["model.onnx"])
    quantized = int8.quantize(before, spec, None)
    filters = [node for node in quantized.graph.node if "log_mel" in node.name and "MatMul" in node.op_type]
    assert [node.op_type for node in filters] == ["MatMul"]
    assert any(node.op_type == "MatMulInteger" for node in quantized.graph.node)


def test_convolutions_of_a_cnn_have_8_bits_and_the_first_one_has_not(finished_run):
    run = vitspeech.load(finished_run)
    model = replace(run, network=vitspeech.CNN(len(run.labels), widths=(8, 8, 8)).eval())
    spec = spec_of(model)
    before = to_onnx(spec.graphs["model.onnx"])
    for node in before.graph.node:
        node.name = node.name.replace("head/", "fc/")  # of networks of timm and of one's own
    quantized = int8.quantize(before, spec, card_dataset(run, None))
    is_8_bit = {tensor.name: tensor.data_type == onnx.TensorProto.INT8 for tensor in quantized.graph.initializer}
    made_by = {output: node for node in quantized.graph.node for output in node.output}
    convolutions = [made_by.get(node.input[1]) for node in quantized.graph.node if node.op_type == "Conv"]
    assert convolutions[0] is None  # its weights are floats in the graph
    assert len(convolutions) >= 5 and all(is_8_bit[node.input[0]] for node in convolutions[1:])


@pytest.mark.parametrize(
    ("metric", "before", "after", "is_refused"),
    [
        ("word_error_rate", 0.05, 0.06, True),
        ("word_error_rate", 0.05, 0.03, False),
        ("test_accuracy", 0.90, 0.89, True),
        ("test_accuracy", 0.90, 0.92, False),
    ],
)
def test_a_fall_of_accuracy_and_a_rise_of_an_error_rate_are_refused(
    finished_run, monkeypatch, metric, before, after, is_refused
):
    values = iter((before, after))
    monkeypatch.setattr(int8, "measured", lambda *_: {metric: next(values), "milliseconds": 1.0})
    monkeypatch.setattr(int8, "quantize", lambda graph, *_: graph)
    monkeypatch.setattr(int8, "card_dataset", lambda *_: None)
    spec = spec_of(vitspeech.load(finished_run))
    if is_refused:
        with pytest.raises(InputError, match=f"--int8 changes {metric} from {before:.4f} to {after:.4f}"):
            int8.to_int8(None, spec, onnx.ModelProto(), None)
    else:
        assert int8.to_int8(None, spec, onnx.ModelProto(), None)[1]["int8"][metric] == after


def test_encoder_decoders_have_no_8_bits():
    spec = SimpleNamespace(name="encoder-decoder")
    with pytest.raises(InputError, match=r"--int8 is for .*, not for a model of the kind encoder-decoder"):
        int8.to_int8(None, spec, onnx.ModelProto(), None)


@torch.no_grad()
def test_products_in_8_bits_are_those_in_single_precision_on_every_processor(model, exported):
    """Signed weights, whose sums overflow on x86 without VNNI, differed by a third of the standard deviation there."""
    spec = spec_of(model)
    shape = 20, *spec.graphs["model.onnx"].inputs["pixels"].shape[1:]
    pixels = torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    quantized = session((exported[0] / "model.onnx").read_bytes()).run(None, {"pixels": pixels.numpy()})[0]
    expected = spec.graphs["model.onnx"].module(pixels)
    assert (torch.from_numpy(quantized) - expected).square().mean().sqrt() < 0.05 * expected.std()
