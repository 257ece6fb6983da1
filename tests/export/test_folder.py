"""The exported folder: metadata, checksums, and that nothing is left when an export fails."""

import hashlib
import json
from dataclasses import replace

import onnx
import pytest
import torch
from onnx import numpy_helper

import vitspeech
from vitspeech import SpeechClassifier, SpeechFrontend
from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError, MissingExtraError
from vitspeech.export import folder as folders
from vitspeech.export.folder import export
from vitspeech.export.graphs import Graph
from vitspeech.export.parity import compare_batches


def test_graph_and_model_json_have_the_same_metadata(quick, finished_run, tmp_path):
    returned = export(vitspeech.load(finished_run), tmp_path / "vit")
    written = json.loads((tmp_path / "vit/model.json").read_text())
    assert written == returned
    files = written.pop("files")
    (entry,) = onnx.load(tmp_path / "vit/model.onnx").metadata_props
    assert entry.key == "vitspeech" and json.loads(entry.value) == written
    for name, checksum in files.items():
        assert hashlib.sha256((tmp_path / "vit" / name).read_bytes()).hexdigest() == checksum
    source = finished_run / "model"
    assert written["source"] == {
        "sha256": hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest(),
        "card_sha256": hashlib.sha256((source / "card.json").read_bytes()).hexdigest(),
    }
    assert written["labels"] == vitspeech.load(finished_run).labels and written["side"] == 32


def test_graph_has_no_trace_of_the_machine_and_nodes_are_named_by_their_layer(graph):
    content = graph.SerializeToString()
    assert b".py" not in content and b"/home" not in content and b"site-packages" not in content
    names = [node.name for node in graph.graph.node]
    assert "network.encoder.blocks.0.attention.query/MatMul" in names
    assert len(names) == len(set(names))


def test_a_graph_that_computes_something_else_is_not_written(quick, finished_run, tmp_path):
    bias = next(tensor for tensor in quick.graph.initializer if tensor.name.endswith("head.bias"))
    changed = numpy_helper.to_array(bias).copy()
    changed[0] += 0.1
    bias.CopyFrom(numpy_helper.from_array(changed, bias.name))
    with pytest.raises(InputError, match=r"^ONNX Runtime differs from the network by 0\.0\d* of"):
        export(vitspeech.load(finished_run), tmp_path / "new" / "vit")
    assert not [*tmp_path.iterdir()]


def test_probabilities_that_single_precision_cannot_hold_are_no_difference():
    network = torch.nn.Linear(2, 3).eval()
    torch.nn.init.constant_(network.weight, 0.0)
    network.bias.data = torch.tensor([0.0, -90.0, -300.0])  # softmax: 1, a subnormal number, 0
    module = torch.nn.Sequential(network, torch.nn.Softmax(-1))
    graph = folders.to_onnx(Graph(module, {"x": torch.zeros(1, 2)}, ["probabilities"]))
    found = compare_batches(folders.session(graph.SerializeToString()), module, [torch.zeros(1, 2)])
    assert found["difference"] < 1e-5


def test_an_interrupted_export_leaves_nothing(quick, finished_run, tmp_path, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(vitspeech.load(finished_run), tmp_path / "vit")
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(finished_run, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "to_onnx", lambda *args: pytest.fail("work was done"))
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in (".", "file", "link", "file/vit"):
        with pytest.raises(OSError):
            export(vitspeech.load(finished_run), tmp_path / name)


def test_labels_that_run_py_would_refuse_are_refused(quick, finished_run, tmp_path):
    model = vitspeech.load(finished_run)
    with pytest.raises(InputError, match=r"labels\[1\]="):
        export(replace(model, labels=[model.labels[0], "a\u202eb", *model.labels[2:]]), tmp_path / "vit")


def test_models_that_are_neither_of_images_nor_of_speech_are_refused(finished_run, tmp_path):
    model = replace(vitspeech.load(finished_run), preprocessing={"symbols": ["a", "b"]})
    with pytest.raises(InputError, match=r"^ViT can't be exported: only classifiers of images and clips"):
        export(model, tmp_path / "symbols")


@pytest.mark.parametrize("encoder, pooling, expected", [
    ({"left": 2, "right": 1}, "mean", "stream"),
    ({"left": 2, "right": 1}, "self_attentive", "clips"),  # its rows do not add up to the logits of a clip
    ({}, "mean", "clips"),
    ({"left": None, "right": 1}, "mean", "clips"),  # its state would grow
])  # fmt: skip
def test_classifiers_are_streams_if_their_rows_are_all_that_they_compute(encoder, pooling, expected):
    network = SpeechClassifier(3, SpeechFrontend(8), {"depth": 1, "heads": 2, **encoder}, pooling=pooling).eval()
    model = Model(network, list("abc"), {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {})
    assert folders.spec_of(model).name == expected
    assert folders.spec_of(model, offline=True).name == "clips"
    if expected != "stream":
        reason = "SelfAttentivePooling needs the whole clip" if pooling == "self_attentive" else "unlimited"
        with pytest.raises(InputError, match=reason):
            folders.spec_of(model, stream=True)
        with pytest.raises(InputError, match="for whole clips is exported without attention weights"):
            folders.spec_of(model, attention=True)


def test_offline_is_for_classifiers_of_clips(finished_run):
    with pytest.raises(InputError, match=r"--offline.* is for classifiers of clips of speech, and ViT is none"):
        folders.spec_of(vitspeech.load(finished_run), offline=True)


def test_without_onnx_runtime_the_extra_is_named(finished_run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vitspeech\[export\]'"):
        export(vitspeech.load(finished_run), tmp_path / "vit")
    assert not [*tmp_path.iterdir()]
