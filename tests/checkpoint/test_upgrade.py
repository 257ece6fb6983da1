"""Released models of format 1: another spelling, and flat arguments for encoder and decoder."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file
from torch import nn

import vitspeech
from vitspeech.attention import SelfAttentivePooling
from vitspeech.checkpoint.card import upgraded_config, upgraded_network
from vitspeech.files import sha256
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechLabeler, SpeechTranscriber, ViT

TOKENS = {"class_path": "vitspeech.SpeechFrontend", "init_args": {"width": 12, "mels": 17, "stride": 3}}
NESTED = {"depth": 2, "heads": 3, "left": [4, None], "right": 1, "mlp_ratio": 2.0, "score": "cosine"}
FLAT = NESTED | {"normaliser": "relu"}


def written(folder: Path, network: nn.Module, class_path: str, arguments: dict, preprocessing: dict) -> Path:
    """A released model as format 1 had it, with the weights of this network."""
    renamed = {name.replace("log_mel.std", "log_mel.deviation"): x for name, x in network.state_dict().items()}
    config = {"class_path": class_path, "init_args": arguments}
    config = {"network": config, "labels": ["a", "b", "c"], "preprocessing": preprocessing}
    folder.mkdir()
    save_file(renamed, folder / "model.safetensors")
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    sums = {"sha256": sha256(folder / "model.safetensors"), "config_sha256": sha256(folder / "config.yaml")}
    (folder / "card.json").write_text(json.dumps({"name": folder.name, **sums}))
    return folder


@torch.no_grad()
def test_a_vit_of_format_1_loads_with_the_same_outputs(tmp_path):
    torch.manual_seed(0)
    pooling = SelfAttentivePooling(12, 5, 2)
    network = ViT(3, 16, 4, width=12, encoder=NESTED | {"normalizer": "relu"}, pooling=pooling).eval()
    pooling = {"class_path": "vitspeech.SelfAttentivePooling", "init_args": {"width": 12, "hidden": 5, "hops": 2}}
    arguments = {"classes": 3, "image": 16, "patch": 4, "width": 12, **FLAT, "pooling": pooling}
    preprocessing = {"image": 16, "mean": [0.5] * 3, "deviation": [0.2] * 3}
    model = vitspeech.load(written(tmp_path / "old", network, "vitspeech.ViT", arguments, preprocessing))
    images = torch.randn(2, 3, 16, 16)
    assert torch.equal(model.network(images), network(images))
    assert model.preprocessing == {"image": 16, "mean": [0.5] * 3, "std": [0.2] * 3}


@torch.no_grad()
def test_a_transcriber_of_format_1_loads_with_the_same_outputs(tmp_path):
    torch.manual_seed(0)
    encoder = NESTED | {"normalizer": "relu"}
    decoder = {"depth": 1, "heads": 3, "mlp_ratio": 2.0, "score": "cosine", "normalizer": "relu"}
    tokens = SpeechFrontend(12, mels=17, stride=3)
    network = SpeechTranscriber(3, tokens, encoder=encoder, decoder=decoder, ctc=True).eval()
    network.tokens.log_mel.std.fill_(2.0)
    arguments = {"units": 3, "tokens": TOKENS, "ctc": True, "decoder_depth": 1, **FLAT}
    folder = written(tmp_path / "old", network, "vitspeech.SpeechTranscriber", arguments, {"sample_rate_hz": 16_000})
    waveforms, units = torch.randn(2, 8000), torch.tensor([[0, 2], [1, -1]])
    ours, theirs = vitspeech.load(folder).network(waveforms, None, units), network(waveforms, None, units)
    assert torch.equal(ours.logits, theirs.logits) and torch.equal(ours.ctc_logits, theirs.ctc_logits)


@torch.no_grad()
def test_a_labeller_of_format_1_is_a_labeler(tmp_path):
    torch.manual_seed(0)
    network = SpeechLabeler(4, SpeechFrontend(12, mels=17, stride=3), encoder=NESTED | {"normalizer": "relu"}).eval()
    arguments = {"classes": 4, "tokens": TOKENS, **FLAT}
    folder = written(tmp_path / "old", network, "vitspeech.SpeechLabeller", arguments, {"sample_rate_hz": 16_000})
    model, waveforms = vitspeech.load(folder), torch.randn(2, 8000)
    assert type(model.network) is SpeechLabeler
    assert torch.equal(model.network(waveforms)[0], network(waveforms)[0])


def test_what_format_1_left_out_has_its_defaults_of_then():
    upgraded = upgraded_network({"class_path": "vitspeech.ViT", "init_args": {"classes": 3}})
    assert upgraded["init_args"] == {"classes": 3, "encoder": {"depth": 9, "heads": 3}}
    upgraded = upgraded_network({"class_path": "vitspeech.SpeechTranscriber", "init_args": {"heads": 2}})
    assert upgraded["init_args"] == {"encoder": {"heads": 2}, "decoder": {"depth": 2, "heads": 2}}
    plain = {"class_path": "vitspeech.SpeechCNN", "init_args": {"classes": 3, "depth": 2}}
    assert upgraded_network(plain) == plain


@pytest.mark.parametrize(
    ("network", "task"),
    [
        ("ViT", "Classification"),
        ("CNN", "Classification"),
        ("SpeechClassifier", "Classification"),
        ("SpeechLabeller", "Labeling"),
        ("SpeechRecognizer", "Recognition"),
        ("SpeechTranscriber", "Transcription"),
    ],
)
def test_the_task_follows_from_the_network(network, task):
    config = {"network": {"class_path": f"vitspeech.{network}"}, "labels": [], "preprocessing": {}}
    assert upgraded_config(config)["task"] == f"vitspeech.{task}"
