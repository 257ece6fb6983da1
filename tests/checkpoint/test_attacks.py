"""Released folders that somebody altered on purpose, with sums that fit: each is refused in one line, in bounded time.

None makes loading or evaluating run code, read a file outside of the folder, or use the network.
"""

import os
import socket
import struct
import subprocess
import time

import pytest
import torch
from altered import alter, alter_card, seal
from safetensors.torch import load_file, save_file

import vitspeech
from vitspeech import checkpoint
from vitspeech.checkpoint.card_dataset import card_dataset, find_manifest
from vitspeech.checkpoint.leakage import training_items
from vitspeech.errors import InputError

VIT = {"classes": 3, "image": 8, "patch": 4, "width": 8, "encoder": {"depth": 1, "heads": 2}}
PIXELS = {"image": 8, "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}
CARD = {
    "name": "x",
    "data": {"class_path": "vitspeech.Shapes", "init_args": {"count": 250}},
    "metrics": {"test_accuracy": 0.5, "interval_95": [0.4, 0.6]},
    "seeds": [0],
}
SYMBOLS, LABELS = ["a", "b", "+"], ["x", "y"]


@pytest.fixture(scope="module")
def model():
    """A tiny classifier of pictures."""
    torch.manual_seed(0)
    config = {"class_path": "vitspeech.ViT", "init_args": VIT}
    return checkpoint.Model(checkpoint.build(config), ["a", "b", "ç"], dict(PIXELS), dict(CARD), config)


@pytest.fixture
def released(model, tmp_path):
    checkpoint.save(model, tmp_path / "released")
    return tmp_path / "released"


@pytest.fixture(autouse=True)
def harmless(monkeypatch):
    """Fail if anything starts a process or connects to another machine."""

    def fail(*arguments, **options):
        raise AssertionError(f"started or connected: {arguments}")

    for owner, name in ((os, "system"), (subprocess.Popen, "__init__"), (socket.socket, "connect")):
        monkeypatch.setattr(owner, name, fail)


def refused(folder, message):
    """Check that loading is refused in one line that names the folder, and at once."""
    start = time.process_time()
    with pytest.raises(InputError, match=message) as raised:
        vitspeech.load(folder)
    assert str(raised.value).startswith(f"{folder}") and "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1500 and time.process_time() - start < 5


CONFIGS = {
    "labels are a number": (("labels",), 5, "labels=5 is not a list"),
    "too few labels": (("labels",), ["a", "b"], "3 outputs, but there are 2 labels"),
    "a label twice": (("labels",), ["a", "b", "a"], "labels: 'a' is there twice"),
    "a label of two lines": (("labels",), ["a", "b", "c\nd"], "is not a text of one line"),
    "a label that rewrites the terminal": (("labels",), ["a", "b", "\x1b[2J"], "is not a text of one line"),
    "no preprocessing": (("preprocessing",), None, "preprocessing must be a mapping"),
    "of both": (("preprocessing",), PIXELS | {"sample_rate_hz": 16000}, "one of image, sample_rate_hz, symbols"),
    "unknown": (("preprocessing", "crop"), 5, "'crop' is unknown"),
    "another size": (("preprocessing", "image"), 12, "the network cannot be built"),
    "a mean that is no number": (("preprocessing", "mean"), [0.5, float("nan"), 0.5], "is not three numbers"),
    "a deviation of zero": (("preprocessing", "std"), [0.0, 1.0, 1.0], "is not three numbers"),
    "a negative rate": (("preprocessing",), {"sample_rate_hz": -1}, "sample_rate_hz=-1 is not a number within"),
    "unknown units": (("preprocessing",), {"sample_rate_hz": 16000, "units": "phones"}, "units='phones' is not"),
    "characters": (("preprocessing",), {"sample_rate_hz": 16000, "units": "characters"}, "' ' is missing"),
    "audio for pictures": (
        ("preprocessing",),
        {"sample_rate_hz": 16000, "seconds": 1.0},
        "the network cannot be built",
    ),
    "a task of torch": (("task",), "torch.hub.load", "task='torch.hub.load' is not a task"),
    "a task that is imported": (("task",), "torch.testing._internal.common_utils.TestCase", "is not a task"),
    "a network that is a list": (("network",), [1], "is not a network"),
    "os.system": (("network", "class_path"), "os.system", "os.system is not part of vitspeech"),
    "builtins": (("network", "class_path"), "builtins.eval", "builtins.eval is not part of vitspeech"),
    "a function": (("network", "class_path"), "torch.hub.load", "is not a network"),
    "a loader": (("network", "class_path"), "torch.jit.load", "is not a network"),
    "unpickling": (("network", "class_path"), "torch.load", "is not a network"),
    "a module elsewhere": (("network", "class_path"), "torch.distributed.nn.RemoteModule", "is not a network"),
    "a detour": (("network", "class_path"), "torch.nn.modules.module.torch.hub.load", "cannot be imported"),
    "a detour of ours": (("network", "class_path"), "vitspeech.trust.os.system", "is not a network of vitspeech"),
    "a score that is a function": (
        ("network", "init_args", "encoder", "score"),
        "torch.hub.load",
        "'torch.hub.load' is not a network",
    ),
    "a score that is no score": (("network", "init_args", "encoder", "score"), "torch.nn.Linear", "Score"),
    "a nested loader": (
        ("network", "init_args", "pooling"),
        {"class_path": "torch.jit.load", "init_args": {"f": "/etc/passwd"}},
        "is not a network",
    ),
    "nested in lists": (
        ("network", "init_args", "pooling"),
        [[{"class_path": "os.system", "init_args": {"command": "true"}}]],
        "os.system is not part of vitspeech",
    ),
    "an argument that is a text": (("network", "init_args", "width"), "x", "the network cannot be built"),
    "a negative width": (("network", "init_args", "width"), -8, "the network cannot be built"),
    "an infinite argument": (("network", "init_args", "width"), float("inf"), "the network cannot be built"),
    "an unknown argument": (("network", "init_args", "widht"), 8, "widht"),
    "a key that is a number": (("network", "init_args", 5), 8, "the network cannot be built"),
    "an encoder with a number": (("network", "init_args", "encoder", "heads"), "2", "the network cannot be built"),
    "another width": (("network", "init_args", "width"), 16, "size mismatch"),
}


@pytest.mark.parametrize(("path", "value", "message"), CONFIGS.values(), ids=CONFIGS)
def test_an_altered_configuration_is_refused(released, path, value, message):
    alter(released, *path, to=value)
    refused(released, message)


TIMM = {
    "weights of the hub": ({"timm_name": "hf-hub:somebody/model"}, "is not a network of timm"),
    "weights of a folder": ({"timm_name": "local-dir:/etc"}, "is not a network of timm"),
    "a checkpoint": ({"options": {"checkpoint_path": "/etc/passwd"}}, "checkpoint_path would load weights"),
    "pretrained": ({"options": {"pretrained": True}}, "pretrained would load weights"),
    "a configuration": ({"options": {"pretrained_cfg": {"file": "/etc/passwd"}}}, "would load weights"),
    "options that are a list": ({"options": ["pretrained"]}, "cannot be built"),
    "a class as a text": ({"options": {"norm_layer": "os.system"}}, "cannot be built"),
}


@pytest.mark.parametrize(("arguments", "message"), TIMM.values(), ids=TIMM)
def test_a_timm_network_loads_no_weights_of_its_own(released, arguments, message):
    arguments = {"classes": 3, "timm_name": "mobilenetv3_small_050"} | arguments
    alter(released, "network", to={"class_path": "vitspeech.TimmModel", "init_args": arguments})
    refused(released, message)


CARDS = {
    "metrics": ([1], r"metrics=\[1\] is not a mapping"),
    "heard_words": ("cat", "heard_words='cat' is not"),
    "format": ("x", "of format 'x'"),
    "sha256": (5, "sha256=5 is not a SHA-256"),
    "data": ("os.system", "data='os.system' is not a mapping"),
    "name": (["x"], r"name=\['x'\] is not"),
    "parameters": (None, "parameters=None is not"),
    "resumed": ([1], r"resumed=\[1\] is not"),
    "hardware": ("\x1b]0;x\x07", "hardware=.* is not"),
    "spotting": ([0.5], r"spotting=\[0.5\] is not"),
}


@pytest.mark.parametrize(("key", "value", "message"), [(key, *rest) for key, rest in CARDS.items()], ids=CARDS)
def test_an_altered_card_is_refused(released, key, value, message):
    alter_card(released, key, to=value)
    refused(released, rf"card\.json: {message}")


SPOTTING = {
    "a threshold of NaN": ({"thresholds": float("nan")}, "NaN is not a number"),
    "a huge threshold": ({"thresholds": 10**400}, "a number that is too long"),
    "a word that rewrites the terminal": ({"thresholds": {"\x1b[2J": 0.5}}, "none for the word 'a'"),
    "a word of the settings that is none": (
        {"thresholds": {"a": 1, "b": 1, "ç": 1, "d": 1}},
        "the model does not have the word 'd'",
    ),
    "ten thousand words": ({"thresholds": {f"word {n}": 1 for n in range(10_000)}}, "none for the word 'a'"),
    "an endless duration": ({"smoothing_s": 1e300}, "spotting: smoothing_s=1e[+]300 is not within"),
    "a fraction of 2": ({"least_fraction": 2}, "spotting: least_fraction=2 is not within"),
    "an unknown setting": ({"beam": 4}, "spotting: 'beam' is unknown; known: thresholds"),
}


@pytest.mark.parametrize(("settings", "message"), SPOTTING.values(), ids=SPOTTING)
def test_settings_of_a_spotter_that_nobody_chose_are_refused(released, settings, message):
    alter_card(released, "spotting", to=settings)
    refused(released, message)


def test_settings_of_a_spotter_on_the_card_are_those_of_the_model(released):
    assert vitspeech.load(released).spotting is None
    alter_card(released, "spotting", to={"thresholds": {"a": 0, "b": 0.5, "ç": 1}, "refractory_s": 0.5})
    assert vitspeech.load(released).spotting.refractory_s == 0.5


@pytest.mark.parametrize(
    "metrics",
    [
        {"search": {"beam": 10**9}},
        {"search": {"beam": 1.5}},
        {"search": {"beams": 4}},
        {"search": "beam"},
        {"also": {"x": {"search": {"ctc_weight": 2}}}},
        {"accuracy": {"nested": [["x"]]}},
    ],
)
def test_a_card_asks_for_no_other_search(released, metrics):
    alter_card(released, "metrics", to=metrics)
    refused(released, "metrics=")


def test_a_model_of_a_newer_version_is_refused_with_that_reason(released):
    alter_card(released, "format", to=99)
    refused(released, "of format 99; this version of vitspeech reads format 2")


def huge_header(size):
    return lambda weights: struct.pack("<Q", size) + b"{}"


def with_first(change):
    def write(weights):
        name = next(name for name, tensor in weights.items() if tensor.ndim > 1)
        return weights | {name: change(weights[name])}

    return write


WEIGHTS = {
    "empty": (lambda weights: b"", "not safetensors"),
    "short": (lambda weights: b"\0" * 7, "not safetensors"),
    "a pickle": (lambda weights: b"\x80\x04cos\nsystem\n(S'true'\ntR.", "not safetensors"),
    "a header of 10 GB": (huge_header(10 * 2**30), "not safetensors"),
    "a header of 2^64": (huge_header(2**64 - 1), "not safetensors"),
    "not a number": (with_first(lambda tensor: tensor * float("nan")), "not finite"),
    "infinite": (with_first(lambda tensor: tensor + float("inf")), "not finite"),
    "integers": (with_first(lambda tensor: tensor.long()), "torch.int64"),
    "another shape": (lambda weights: {name: one[..., :1].contiguous() for name, one in weights.items()}, "mismatch"),
    "extra": (lambda weights: weights | {"extra\x1b[2J": torch.ones(3)}, r"Unexpected key\(s\) .*extra\\x1b"),
    "missing": (lambda weights: dict(list(weights.items())[1:]), r"Missing key\(s\)"),
}


@pytest.mark.parametrize(("change", "message"), WEIGHTS.values(), ids=WEIGHTS)
def test_altered_weights_are_refused(released, change, message):
    content = change(load_file(released / "model.safetensors"))
    if isinstance(content, bytes):
        (released / "model.safetensors").write_bytes(content)
    else:
        save_file(content, released / "model.safetensors")
    seal(released)
    refused(released, message)


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "card.json"])
def test_a_link_out_of_the_folder_is_refused_before_it_is_read(released, tmp_path, name):
    (released / name).rename(tmp_path / name)
    (released / name).symlink_to(tmp_path / name)
    refused(released, f"{name}: a link to a file outside of the folder")
    (released / name).unlink()
    os.mkfifo(released / name)
    refused(released, f"{name}: not a regular file")


DATA = {
    "a folder": ({"root": "/etc"}, "root='/etc', which a card must not set"),
    "a download": ({"download": True}, "download=True, which a card must not set"),
    "a text": ({"count": "x"}, "count='x' is not int"),
    "a list": ({"count": [1]}, r"count=\[1\] is not int"),
    "unknown": ({"color": "red"}, "'color' is unknown"),
}


@pytest.mark.parametrize(("arguments", "message"), DATA.values(), ids=DATA)
def test_a_card_says_nothing_that_is_the_users_to_say(released, arguments, message):
    model = vitspeech.load(released)
    model.card["data"]["init_args"] = arguments
    with pytest.raises(InputError, match=message):
        card_dataset(model, None)


@pytest.mark.parametrize("folder", ["/etc", "..", "words/../../other"])
def test_a_card_names_recordings_within_the_data_only(released, folder):
    model = vitspeech.load(released)
    model.card["data"] = {"class_path": "vitspeech.Keywords", "init_args": {"words": ["go"], "recordings": folder}}
    with pytest.raises(InputError, match=f"recordings='{folder}', not a folder in --data"):
        card_dataset(model, None)


@pytest.mark.parametrize("arguments", [{"train": ["/etc"]}, {"train": ["a"], "test": ["../../secret"]}])
def test_a_card_names_subsets_within_the_data_only(released, tmp_path, arguments):
    model = vitspeech.load(released)
    model.card["data"] = {"class_path": "vitspeech.LibriSpeech", "init_args": arguments}
    with pytest.raises(InputError, match="not a folder in --data"):
        card_dataset(model, str(tmp_path))


NO_DATA = "torch.testing._internal.common_utils.TestCase vitspeech.data.Shapes vitspeech.ViT torch.load os.system"


@pytest.mark.parametrize("path", NO_DATA.split())
def test_a_card_names_nothing_but_data_sets(released, path):
    model = vitspeech.load(released)
    model.card["data"]["class_path"] = path
    with pytest.raises(InputError, match=r"is not a data set|os\.system is not part of vitspeech"):
        card_dataset(model, None)


@pytest.mark.parametrize("text", ["secret:x:0:0\n", "0" * 12 + " " + "g" * 12, "\udcff"])
def test_a_list_of_training_items_that_is_none_is_refused_without_its_contents(released, text):
    (released / "training_items.txt").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"not a list of training items|not UTF-8") as raised:
        training_items(released)
    assert "secret" not in str(raised.value)


def test_a_list_of_training_items_elsewhere_is_not_read(released, tmp_path):
    (tmp_path / "training_items.txt").write_text("0" * 12 + "\n")
    (released / "training_items.txt").symlink_to("../training_items.txt")
    with pytest.raises(InputError, match="a link to a file outside of the folder"):
        training_items(released)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret.jsonl", "SECRET", "a/../../secret.jsonl", "link.jsonl", ".."]
)
def test_a_manifest_of_a_card_is_nowhere_but_beside_the_model_or_in_the_data(tmp_path, monkeypatch, name):
    (tmp_path / "secret.jsonl").write_text("secret")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/link.jsonl").symlink_to("../secret.jsonl")
    monkeypatch.chdir(tmp_path)
    name = str(tmp_path / "secret.jsonl") if name == "SECRET" else name
    with pytest.raises(FileNotFoundError, match=f"the card's manifest .* is not in {tmp_path / 'model'}; put it there"):
        find_manifest(name, [tmp_path / "model"])


def test_a_manifest_of_a_card_is_found_in_the_package_beside_the_model_and_in_the_data(tmp_path):
    assert find_manifest("speech-commands-1-7", [tmp_path]) == "speech-commands-1-7"
    for folder in ("model", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.jsonl").touch()
    folders = [tmp_path / "model", tmp_path / "data"]
    assert find_manifest("where/it/was/data.jsonl", folders) == str(tmp_path / "data/data.jsonl")
    assert find_manifest("model.jsonl", folders) == str(tmp_path / "model/model.jsonl")


@pytest.fixture
def symbols(tmp_path):
    """A tiny network whose output head is tied to the embedding."""
    torch.manual_seed(0)
    arguments = {"units": 2, "symbols": 3, "width": 8, "encoder": {"depth": 1, "heads": 2}, "tied": True}
    config = {"class_path": "vitspeech.Seq2Seq", "init_args": arguments}
    network = checkpoint.build(config).eval()
    model = checkpoint.Model(network, LABELS, {"symbols": SYMBOLS}, {}, config, "vitspeech.Transcription")
    checkpoint.save(model, tmp_path / "released")
    return tmp_path / "released", network


@torch.no_grad()
def test_a_tied_network_is_saved_and_loaded_with_both_names_and_stays_tied(symbols):
    folder, network = symbols
    weights = load_file(folder / "model.safetensors")
    assert torch.equal(weights["head.weight"], weights["embedding.weight"])
    model = vitspeech.load(folder)
    assert model.network.head.weight is model.network.embedding.weight
    given = torch.tensor([[2, 0, 1]]), None, torch.tensor([[1, 0]])
    assert torch.equal(model.network(*given).logits, network(*given).logits)
    assert model.preprocessing == {"symbols": SYMBOLS} and model.labels == LABELS


@pytest.mark.parametrize(
    "path, value, message",
    [
        (("preprocessing", "symbols"), 3, "preprocessing: symbols=3 is not"),
        (("preprocessing", "symbols"), ["a", "b", "c d"], "preprocessing: symbols: 'c d' contains white space"),
        (("preprocessing", "symbols"), ["a", "b", "\x1b[2J"], "is not a text of one line"),
        (("preprocessing", "symbols"), [*"abcd"], "the network cannot be built"),
        (("preprocessing", "units"), "words", "preprocessing: 'units' is unknown; known: symbols"),
        (("labels",), ["x"], "2 outputs, but there are 1 labels"),
        (("preprocessing",), {"image": 8, "mean": [0.5] * 3, "std": [0.5] * 3}, "the network cannot be built"),
        (("network", "class_path"), "torch.nn.Identity", "the network cannot be built"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(symbols, path, value, message):
    alter(symbols[0], *path, to=value)
    refused(symbols[0], message)
