"""What is compared has the same shape and computes the same."""

import pytest
import torch
import yaml
from timm.layers import use_fused_attn
from tiny import ROOT
from torch.testing import assert_close

from benchmarks import layer, speech, vit
from benchmarks.layer import LAYERS
from benchmarks.measure import NotRunError
from benchmarks.vit import NETWORKS, Shape
from vitspeech.checkpoint.build import build
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.frontends.log_mel import LogMel
from vitspeech.inference.stream import stream
from vitspeech.models import SpeechClassifier
from vitspeech.training.config import config_chain

TINY = Shape(image=16, patch=4, width=24, depth=2, heads=2, classes=7)


def test_layers_compute_the_same_from_the_same_weights():
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
    for made in (ours, fused, theirs):
        gradients = layer.training_pass(made, x, "bf16")()
        assert len(gradients) == 1 + len(list(made.parameters()))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_images_have_one_shape_and_learn(name):
    try:
        network = NETWORKS[name](TINY)
    except NotRunError as error:
        pytest.skip(str(error))
    assert network(torch.randn(3, 3, 16, 16)).shape == (3, 7)
    count = sum(parameter.numel() for parameter in NETWORKS[name](Shape()).parameters())
    assert count == pytest.approx(2_693_194, rel=0.01)  # 6 blocks of 12 · 192², and the rest
    before = [parameter.clone() for parameter in network.parameters()]
    step = vit.training_step(network, torch.randn(3, 3, 16, 16), torch.tensor([0, 6, 2]), "bf16")
    assert step().isfinite() and step().isfinite()  # after one, torchvision's head, zero at first, lets no gradient by
    changed = [not torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True)]
    assert sum(changed) >= 0.9 * len(changed)


def test_timm_has_as_many_tokens_as_ours_and_fused_attention_is_disabled_in_one_network_alone():
    assert vit.timm(TINY).pos_embed.shape[1] == (TINY.image // TINY.patch) ** 2
    fused = [module.fused_attn for module in vit.timm(TINY).modules() if hasattr(module, "fused_attn")]
    unfused = [module.fused_attn for module in vit.timm_unfused(TINY).modules() if hasattr(module, "fused_attn")]
    assert fused == [True, True] and unfused == [False, False] and use_fused_attn()


def test_torchaudio_computes_our_log_mel_56_samples_later():
    torch.manual_seed(0)
    ours, waveforms = LogMel(80), torch.randn(3, 16_000) / 10
    theirs = speech.torchaudio_log_mel(ours)(waveforms).transpose(1, 2)
    assert ours.log_energies(waveforms).shape == (3, 98, 80) and theirs.shape == (3, 97, 80)
    assert_close(theirs, ours.log_energies(waveforms[:, 56:])[:, :97], atol=1e-4, rtol=0)


def merge(target, changes):
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value


@pytest.mark.parametrize("name", ["full", "truncated", "causal", "cnn"])
def test_networks_of_speech_are_those_of_the_configs(name):
    config = {}
    for path in config_chain(ROOT / f"configs/speech_commands/{name}.yaml"):
        merge(config, yaml.safe_load(path.read_text())["model"]["init_args"]["network"])
    if name == "cnn":
        config["init_args"].pop("encoder")  # of the network that it replaces
    config["init_args"]["classes"] = 14
    network, expected = speech.networks(speech.Settings())[name], build(config)
    assert not network.training
    shapes = [{key: value.shape for key, value in each.state_dict().items()} for each in (network, expected)]
    assert shapes[0] == shapes[1]
    if name != "cnn":
        assert (network.encoder.left, network.encoder.right) == (expected.encoder.left, expected.encoder.right)
        assert network.encoder.blocks[0].attention.heads == expected.encoder.blocks[0].attention.heads


@pytest.mark.parametrize(
    "encoder",
    [
        {"depth": 2, "heads": 2, "left": 8, "right": 2},
        RecurrentEncoder(8, 2, bidirectional=False),
        WindowMLP(8, left=4, right=2),
    ],
)
def test_the_counted_state_of_a_stream_is_constant(encoder):
    sound = stream(SpeechClassifier(3, SpeechFrontend(8, mels=5, stem="stacked", stride=4), encoder).eval())
    empty, held = speech.state_bytes(sound), []
    for _ in range(3):
        for _ in range(100):
            sound.push(torch.zeros(160))
        held.append(speech.state_bytes(sound))
    assert empty < held[0] == held[1] == held[2]


def test_a_checkpoint_of_another_kind_is_refused(finished_run, tmp_path):
    with pytest.raises(InputError, match="ViT does not take waveforms"):
        speech.benchmark(speech.Settings(checkpoint=str(finished_run)), tmp_path / "speech.json")
