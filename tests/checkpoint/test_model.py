"""Released models: saving and loading; broken, altered and untrusted ones are refused with a message that names why."""

import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import ROOT

import vitspeech
from vitspeech import checkpoint
from vitspeech.attention import SCORES
from vitspeech.checkpoint.card import check_labels
from vitspeech.errors import InputError
from vitspeech.models import CNN, TimmModel, ViT

HALF = [0.5, 0.5, 0.5]
PIXELS = {"image": 8, "mean": HALF, "std": HALF}  # one list twice, as data sets of a user may have it
NETWORKS = [
    (
        ViT(3, image=8, patch=4, width=8, encoder={"depth": 1, "heads": 2}),
        {"image": 8, "patch": 4, "width": 8, "encoder": {"depth": 1, "heads": 2}},
    ),
    (CNN(3, widths=(4, 5, 7)), {"widths": [4, 5, 7]}),
    (TimmModel(3, "mobilenetv3_small_050"), {"timm_name": "mobilenetv3_small_050"}),
]


@pytest.mark.parametrize(("network", "arguments"), NETWORKS, ids=["vit", "cnn", "timm"])
def test_what_is_saved_comes_back(tmp_path, network, arguments):
    config = {"class_path": f"vitspeech.{type(network).__name__}", "init_args": {"classes": 3} | arguments}
    side = 8 if isinstance(network, ViT) else 32
    preprocessing = PIXELS | {"image": side}
    saved = checkpoint.Model(network.eval(), ["a", "b", "ç"], preprocessing, {"name": "x"}, config)
    checkpoint.save(saved, tmp_path / "released")
    loaded = vitspeech.load(tmp_path / "released")
    images = torch.randn(2, 3, side, side)
    assert torch.equal(loaded.network(images), network(images))
    assert (loaded.labels, loaded.preprocessing, loaded.card["name"]) == (["a", "b", "ç"], preprocessing, "x")
    assert not loaded.network.training


def test_a_label_that_is_not_utf8_is_refused_before_it_is_trained_on():
    with pytest.raises(InputError, match="not a text of one line"):
        check_labels(["a", "b\udcff"])


def test_a_finished_run_is_loaded_by_its_folder(finished_run):
    assert vitspeech.load(finished_run).card == vitspeech.load(finished_run / "model").card


@pytest.fixture
def released(finished_run, tmp_path):
    return shutil.copytree(finished_run / "model", tmp_path / "released")


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "card.json"])
def test_a_missing_file_is_named(released, name):
    (released / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name}: missing"):
        vitspeech.load(released)


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml"])
def test_an_altered_file_is_named(released, name):
    content = bytearray((released / name).read_bytes())
    content[-3] ^= 1
    (released / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: altered"):
        vitspeech.load(released)


OWN = """
from torch import nn
import torch

class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

class Plain:
    def __init__(self, factor):
        self.factor = factor

class Net(nn.Module):
    def __init__(self, classes, scale, stages=()):
        super().__init__()
        self.head, self.factor = nn.Linear(3, classes), scale.factor
        for stage in stages:
            self.factor *= stage.factor

    def forward(self, images):
        return self.factor * self.head(images.mean((2, 3)))
"""


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """A released model whose network is a class of the user's module `own_net`, in the current folder."""
    (tmp_path / "own_net.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    config = {
        "class_path": "own_net.Net",
        "init_args": {
            "classes": 2,
            "scale": {"class_path": "own_net.Plain", "init_args": {"factor": 7}},
            "stages": [{"class_path": "own_net.Scale", "init_args": {"factor": factor}} for factor in (2, 3)],
        },
    }
    network = checkpoint.build(config, ["own_net"])
    task = "own_net.Task"
    checkpoint.save(
        checkpoint.Model(network, ["a", "b"], PIXELS | {"image": 5}, {"name": "x"}, config, task), tmp_path / "own"
    )
    yield tmp_path / "own", network
    sys.modules.pop("own_net")


def test_a_network_of_the_users_own_loads_with_trust(own_model):
    folder, network = own_model
    loaded = vitspeech.load(folder, trust=["own_net"])
    images = torch.randn(3, 3, 5, 5)
    assert torch.equal(loaded.network(images), network(images))
    assert (loaded.task, loaded.trust) == ("own_net.Task", ["own_net"])
    assert loaded.network.factor == 42  # 7 of `scale`, 2 and 3 of the list `stages`


REGISTERING = """
import vitspeech

@vitspeech.register_score("weighted")
class Weighted(vitspeech.Score):
    pass
"""


def test_a_registered_score_loads_if_its_module_is_trusted(tmp_path, monkeypatch):
    arguments = {"classes": 2, "image": 8, "patch": 4, "width": 8, "encoder": {"depth": 1, "heads": 2}}
    network = ViT(**arguments | {"encoder": {"depth": 1, "heads": 2, "score": "dot"}})
    arguments["encoder"]["score"] = "weighted"
    config = {"class_path": "vitspeech.ViT", "init_args": arguments}
    checkpoint.save(checkpoint.Model(network, ["a", "b"], PIXELS, {"name": "x"}, config), tmp_path / "own")
    (tmp_path / "own_score.py").write_text(REGISTERING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ValueError, match="score='weighted' is unknown"):
        vitspeech.load("own")
    try:
        loaded = vitspeech.load("own", trust=["own_score"])
        assert type(loaded.network.encoder.blocks[0].attention.score).__name__ == "Weighted"
    finally:
        SCORES.pop("weighted", None)
        sys.modules.pop("own_score", None)


@pytest.mark.parametrize("trust", [[], ["own"]])
def test_a_network_of_the_users_own_is_refused_without_trust(own_model, trust):
    with pytest.raises(ValueError, match=r"own_net\.Net is not part of vitspeech, .* --trust own_net "):
        vitspeech.load(own_model[0], trust=trust)


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "cannot be read"), ("[]", "has no sha256"), ("{}", "has no sha256")]
)
def test_a_broken_card_is_named(released, text, reason):
    (released / "card.json").write_text(text)
    with pytest.raises(ValueError, match=rf"card\.json: {reason}"):
        vitspeech.load(released)


def test_saving_replaces_a_model_whole(released):
    model = vitspeech.load(released)
    (released / "errors.txt").touch()  # of the model before
    model.card["name"] = "second"
    checkpoint.save(model, released)
    assert {path.name for path in released.iterdir()} == {"model.safetensors", "config.yaml", "card.json"}
    assert vitspeech.load(released).card["name"] == "second"
    assert load_file(released / "model.safetensors").keys() == model.network.state_dict().keys()


def test_saving_keeps_the_users_own_files_beside_a_model(released):
    model = vitspeech.load(released)
    (released / ".git/refs").mkdir(parents=True)
    (released / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (released / "notes.md").write_text("mine\n")
    (released / "answers.jsonl").write_text("{}\n")
    (released / "link").symlink_to("nowhere")
    checkpoint.save(model, released)
    assert (released / ".git/HEAD").read_text() == "ref: refs/heads/main\n" and (released / ".git/refs").is_dir()
    assert (released / "notes.md").read_text() == "mine\n" and (released / "link").is_symlink()
    assert (released / "answers.jsonl").read_text() == "{}\n"  # no manifest of the model


@pytest.mark.parametrize("reason", [OSError("no space left on device"), KeyboardInterrupt()])
def test_a_model_that_cannot_be_replaced_is_kept(released, monkeypatch, reason):
    model, rename = vitspeech.load(released), Path.rename

    def fail(path, target):
        if path.name.endswith(".draft"):
            raise reason
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(type(reason)):
        checkpoint.save(model, released)
    assert vitspeech.load(released).card == model.card


def test_a_model_whose_replacement_was_killed_between_two_renames_comes_back(released):
    model = vitspeech.load(released)
    before = released.with_name(f".{released.name}.before")
    released.rename(before)
    with pytest.raises(FileNotFoundError, match=rf"the model before is {before}"):
        vitspeech.load(released)
    model.card["name"] = "second"
    checkpoint.save(model, released)
    assert [path.name for path in released.parent.iterdir()] == [released.name]
    assert vitspeech.load(released).card["name"] == "second"


def test_saving_changes_no_folder_of_the_users_and_goes_through_links(released, tmp_path):
    model = vitspeech.load(released)
    for ending in ("before", "draft"):
        (tmp_path / f"{released.name}.{ending}").mkdir()
        (tmp_path / f"{released.name}.{ending}/letter.txt").touch()
    (tmp_path / "link").symlink_to(released)
    model.card["name"] = "second"
    checkpoint.save(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and vitspeech.load(released).card["name"] == "second"
    for ending in ("before", "draft"):
        assert (tmp_path / f"{released.name}.{ending}/letter.txt").exists()


def test_a_folder_with_foreign_files_is_unchanged(released, tmp_path):
    model = vitspeech.load(released)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter.txt").touch()
    with pytest.raises(FileExistsError, match="not a released model"):
        checkpoint.save(model, tmp_path / "home")
    assert (tmp_path / "home/letter.txt").exists()


def test_a_run_that_is_not_finished_is_refused_with_how_to_continue_it(tmp_path):
    for name in ("run.json", "config.yaml"):
        (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError, match=r"the run is not finished; .*vitspeech train --resume"):
        vitspeech.load(tmp_path)


def test_the_name_of_a_released_model_is_answered_with_its_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"did you mean {re.escape(str(ROOT))}/checkpoints/vit-cifar10"):
        vitspeech.load("checkpoints/vit-cifar10")
    monkeypatch.chdir(ROOT)
    with pytest.raises(FileNotFoundError, match=r"^vit-cifar10: no such folder; did you mean checkpoints/vit-cifar10"):
        vitspeech.load("vit-cifar10")
    with pytest.raises(FileNotFoundError, match=r"did you mean checkpoints/vit-cifar10"):
        vitspeech.load("checkpoints/ViT_CIFAR10")
    with pytest.raises(InputError, match=r"model\.safetensors: not a folder$"):
        vitspeech.load("checkpoints/vit-cifar10/model.safetensors")
    with pytest.raises(FileNotFoundError, match=r"^vit-cifar9: missing; a released model has"):
        vitspeech.load("vit-cifar9")
