"""What is timed computes the same as its peer, and the report has a number of each."""

import json
import math

import pytest
import torch
import yaml
from tiny import ROOT
from torch.testing import assert_close

from benchmarks import speech
from benchmarks.speech import Settings
from vitspeech.checkpoint.build import build
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.frontends import SpeechFrontend
from vitspeech.frontends.log_mel import LogMel
from vitspeech.inference.stream import stream
from vitspeech.models import SpeechClassifier
from vitspeech.training.config import config_chain

TINY = {"batch": 2, "repeats": 2, "stream_minutes": 0.06}


@pytest.fixture
def few(monkeypatch):
    """A handful of clips to read, and little noise to mix in."""
    for name, number in (("FILES", 5), ("HELD", 7), ("BACKGROUND_S", 20)):
        monkeypatch.setattr(speech, name, number)


def numbers(found):
    """Every number in a report, at any depth."""
    if isinstance(found, dict | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from numbers(part)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield found


def test_torchaudio_computes_our_log_mel_56_samples_later():
    torch.manual_seed(0)
    ours, waveforms = LogMel(80), torch.randn(3, 16_000) / 10
    theirs = speech.torchaudio_log_mel(ours)(waveforms).transpose(1, 2)
    assert ours.log_energies(waveforms).shape == (3, 98, 80) and theirs.shape == (3, 97, 80)
    assert_close(theirs, ours.log_energies(waveforms[:, 56:])[:, :97], atol=1e-4, rtol=0)


def network_config(name):
    """The network that a config describes, with what it takes from the config that it extends."""
    network = {}
    for path in config_chain(ROOT / f"configs/speech_commands/{name}.yaml"):
        merge(network, yaml.safe_load(path.read_text())["model"]["init_args"]["network"])
    if network["class_path"] == "vitspeech.SpeechCNN":
        network["init_args"].pop("encoder")  # of the network that it replaces
    network["init_args"]["classes"] = 14
    return network


def merge(target, changes):
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value


def test_the_networks_are_those_of_the_configs():
    for name, network in speech.networks(Settings()).items():
        expected = build(network_config(name))
        assert not network.training
        assert {key: value.shape for key, value in network.state_dict().items()} == {
            key: value.shape for key, value in expected.state_dict().items()
        }
        if name != "cnn":
            assert (network.encoder.left, network.encoder.right) == (expected.encoder.left, expected.encoder.right)
            assert network.encoder.blocks[0].attention.heads == expected.encoder.blocks[0].attention.heads


def test_the_report_has_every_number_finite_and_positive(few, tmp_path):
    path, threads = tmp_path / "speech.json", torch.get_num_threads()
    report = speech.benchmark(Settings(**TINY), path)
    stored = json.loads(path.read_text())
    assert stored == json.loads(json.dumps(report)) and stored["complete"] and stored["commit"]
    for part in ("parameters", "log_mel", "classify", "reading", "stream"):
        assert all(math.isfinite(number) and number > 0 for number in numbers(stored[part]))
    assert set(stored["log_mel"]["times"]) == {"ours", "torchaudio"}
    assert [cell["dtype"] for cell in stored["classify"]] == ["fp32", "bf16"]
    for cell in stored["classify"]:
        assert (
            set(cell["times"])
            == {"log_mel", "full", "truncated", "causal", "cnn"}
            == {
                "log_mel",
                *stored["parameters"],
            }
        )
    for times in (stored["log_mel"]["times"], stored["reading"]["times"], stored["classify"][0]["times"]):
        assert all(row["clips_per_second"] and row["repeats"] == 2 for row in times.values())
    stretches = stored["stream"]["stretches"]
    assert [row["minutes"] for row in stretches.values()] == pytest.approx([0.03, 0.03, 0.06], rel=0.02)
    assert stretches["first"]["state_bytes"] == stretches["last"]["state_bytes"]
    whole = stretches["all"]["real_time_factor"]
    assert whole == pytest.approx(sum(stretches[name]["real_time_factor"] for name in ("first", "last")) / 2)
    assert stretches["all"]["longest_push_ms"] == max(row["longest_push_ms"] for row in stretches.values())
    assert torch.get_num_threads() == threads
    shown = speech.table(report)
    assert all(name in shown for name in ("torchaudio", "truncated", "WAV files", "real-time factor", "state, bytes"))


def test_the_state_holds_waiting_samples_the_past_and_the_unfinished_token():
    sound = stream(speech.networks(Settings())["truncated"])
    for _ in range(4 * 50):  # two seconds
        sound.push(torch.zeros(160))
    width, left, right, blocks, kernel = 128, 8, 2, 5, 7
    room = 2 * (left + right + 1)  # of the buffers of keys and values
    # Inputs and queries wait, each query with the key that it was rotated with; keys and values stay, and what the
    # convolution looks back on.
    tokens = blocks * width * (3 * right + 2 * room + kernel - 1)
    assert speech.state_bytes(sound) == 4 * (tokens + 1280)


@pytest.mark.parametrize("encoder", [RecurrentEncoder(8, 2, bidirectional=False), WindowMLP(8, left=4, right=2)])
def test_the_state_of_other_encoders_is_counted_too(encoder):
    sound = stream(SpeechClassifier(3, SpeechFrontend(8, mels=5, stem="stacked", stride=4), encoder).eval())
    empty = speech.state_bytes(sound)
    sound.push(torch.zeros(16_000))
    first = speech.state_bytes(sound)
    sound.push(torch.zeros(16_000))
    assert empty < first == speech.state_bytes(sound)


def test_a_checkpoint_is_measured_without_other_networks(few, finished_speech_run, tmp_path):
    settings = Settings(**TINY, dtypes=["fp32"], checkpoint=str(finished_speech_run / "model"))
    report = speech.benchmark(settings, tmp_path / "speech.json")
    assert set(report["parameters"]) == {"model"} and report["stream"]["network"] == "model"
    assert "model" in speech.table(report)


def test_a_network_that_cannot_be_streamed_is_reported_with_the_reason(few, monkeypatch, tmp_path):
    full = speech.networks(Settings())["full"]
    monkeypatch.setattr(speech, "networks", lambda settings: {"truncated": full})
    report = speech.benchmark(Settings(**TINY), tmp_path / "speech.json")
    assert "its look-ahead is unlimited" in speech.table(report).splitlines()[-1] and report["complete"]
