"""Attention weights as outputs of graphs: equal to those that figures and reports show; networks of timm."""

import json
from types import SimpleNamespace

import numpy
import onnxruntime
import pytest
import torch

from vitspeech.attention import EncoderConfig
from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError
from vitspeech.export.folder import export, spec_of
from vitspeech.export.parity import compare_weights
from vitspeech.export.speech import compare_stream_weights
from vitspeech.export.stream_step import StreamStep
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import CNN, SpeechClassifier, TimmModel, ViT
from vitspeech.receptive.heads.figure import forward_with_attention
from vitspeech.receptive.heads.weights import attention_weights

MEAN, STD = [0.4, 0.5, 0.3], [0.2, 0.3, 0.25]
SIDE = 12
VITS = {  # scores, normalizers, positions and poolings, with and without a window
    "class": {"positions": "relative", "pooling": "class", "encoder": {"score": "cosine", "right": 2}},
    "rotary": {"positions": "rotary", "encoder": {"score": "additive", "normalizer": "relu", "left": 3, "right": 1}},
}
SWIN = {"embed_dim": 12, "depths": [1, 1], "num_heads": [1, 1], "window_size": 4}
TIMM = {"embed_dim": 12, "num_heads": 3, "depth": 2, "patch_size": 4}


def model_of(network, side=SIDE):
    """A model with this network."""
    return Model(network.eval(), [f"label {number}" for number in range(5)],
                 {"image": side, "mean": MEAN, "std": STD}, {"name": "random"}, {})  # fmt: skip


def exported(model, folder):
    """An exported folder's metadata and session."""
    metadata = export(model, folder, attention=True)
    assert metadata == json.loads((folder / "model.json").read_text())
    return metadata, onnxruntime.InferenceSession(folder / "model.onnx")


def pixels(count, side=SIDE):
    """Random pictures: uint8 (count, side, side, 3)."""
    return torch.randint(256, (count, side, side, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def normalized(batch):
    """Pictures as a network takes them."""
    return (batch.movedim(3, 1) / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


@pytest.mark.parametrize("name", ["class", pytest.param("rotary", marks=pytest.mark.slow)])
def test_weights_of_a_vit_are_those_that_are_drawn(name, tmp_path):
    torch.manual_seed(1)
    options = VITS[name]
    encoder = EncoderConfig.of({"depth": 2, "heads": 2} | options["encoder"])
    network = ViT(5, SIDE, 4, width=16, **(options | {"encoder": encoder}))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    metadata, running = exported(model_of(network), tmp_path / "exported")
    class_tokens = int(options.get("pooling") == "class")
    assert metadata["attention"] == [{"output": f"attention_{block}", "heads": 2} for block in range(2)]
    assert (metadata["grid"], metadata["class_tokens"]) == ([3, 3], class_tokens)
    batch = pixels(3)
    probabilities, *weights = running.run(None, {"pixels": batch.numpy()})
    assert [output.name for output in running.get_outputs()] == ["probabilities", "attention_0", "attention_1"]
    expected = forward_with_attention(network, normalized(batch))
    assert expected.weights.shape == (2, 3, 2, 9 + class_tokens, 9 + class_tokens)
    assert numpy.abs(numpy.stack(weights) - expected.weights.numpy()).max() < 1e-5
    assert numpy.abs(probabilities - expected.logits.softmax(-1).numpy()).max() < 1e-5


def test_weights_of_a_timm_network_are_those_of_the_report(tmp_path):
    torch.manual_seed(2)
    network = TimmModel(5, "vit_tiny_patch16_224", TIMM | {"reg_tokens": 2}, image=SIDE)
    metadata, running = exported(model_of(network), tmp_path / "exported")
    assert metadata["attention"] == [{"output": f"attention_{block}", "heads": 3} for block in range(2)]
    assert (metadata["grid"], metadata["class_tokens"]) == ([3, 3], 3)  # one class token, two registers
    batch = pixels(3)
    with torch.inference_mode(), attention_weights(network) as expected:
        network(normalized(batch))
    weights = running.run(None, {"pixels": batch.numpy()})[1:]
    assert len(weights) == len(expected) == 2
    for ours, theirs in zip(weights, expected.values(), strict=True):
        assert numpy.abs(ours - theirs.numpy()).max() < 1e-5


@pytest.mark.parametrize("network, side, reason", [
    (lambda: CNN(5, widths=(4, 8, 8)), 32, "CNN has no attention"),
    (lambda: TimmModel(5, "resnet18"), 32, "ResNet has no attention"),
    (lambda: TimmModel(5, "swin_tiny_patch4_window7_224", SWIN, image=32), 32, "SwinTransformer: .*layer 0"),
    (lambda: TimmModel(5, "xcit_nano_12_p16_224", {"embed_dim": 12, "depth": 1, "num_heads": 2}, image=32), 32,
     "Xcit: its attention can.t be exported: its tokens"),
])  # fmt: skip
def test_a_network_without_known_weights_is_refused(network, side, reason, tmp_path):
    with pytest.raises(InputError, match=reason):
        export(model_of(network(), side), tmp_path / "exported", attention=True)
    assert not (tmp_path / "exported").exists()
    assert spec_of(model_of(network(), side), attention=None).metadata["attention"] == []  # as the page exports it


def test_the_network_stays_as_it_is():
    network = TimmModel(5, "vit_tiny_patch16_224", TIMM, image=SIDE).eval()
    assert len(spec_of(model_of(network), attention=None).metadata["attention"]) == 2
    assert all(block.attn.fused_attn and not block.attn.attn_drop._forward_hooks for block in network.network.blocks)


def test_other_weights_are_refused():
    one, other = torch.rand(2, 2, 3, 9, 9).softmax(-1).numpy()
    assert compare_weights([(one, one), (other, other)]) == {"attention_difference": 0}
    with pytest.raises(InputError, match="attention weights of ONNX Runtime differ"):
        compare_weights([(one, one), (one, other)])


def test_the_weights_of_streams_are_compared():
    """Blocks look back and ahead differently, so that each computes the attention of another token in a step."""
    torch.manual_seed(5)
    encoder = {"depth": 3, "heads": 2, "left": [2, 1, 3], "right": [1, 0, 2]}
    tokens = SpeechFrontend(width=8)
    network = SpeechClassifier(3, tokens, encoder=encoder, pooling="mean").eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    step = StreamStep(network, attention=True).eval()

    def run(names, feeds):
        with torch.inference_mode():
            return [output.numpy() for output in step(*map(torch.from_numpy, feeds.values()))]

    def mirrored(names, feeds):
        *others, weights = run(names, feeds)
        return [*others, weights[..., ::-1]]

    samples = 0.1 * torch.randn(16_000)
    found = compare_stream_weights(SimpleNamespace(run=run), step, samples)
    assert found["attention_difference"] < 1e-5
    with pytest.raises(InputError, match="attention weights"):
        compare_stream_weights(SimpleNamespace(run=mirrored), step, samples)
