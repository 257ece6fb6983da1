"""Models on the hub: from a stand-in on 127.0.0.1, never from the hub itself."""

import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
import torch
from hub_server import Hub, reached

import vitspeech
from vitspeech.checkpoint.hub import fetch, push
from vitspeech.commands import predict
from vitspeech.commands.release import main
from vitspeech.errors import InputError, MissingExtraError
from vitspeech.samples import FOLDER
from vitspeech.spotting.tune import check_card

RELEASED = Path(__file__).parents[2] / "checkpoints/speech-commands-truncated"
NAME = "hf-hub:someone/words"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with one released model in two commits, the first of which has the tag v1."""
    server = Hub()
    reached(server, tmp_path / "home", monkeypatch)
    draft = shutil.copytree(RELEASED, tmp_path / "draft")
    (draft / "code.py").write_text("raise SystemExit")
    server.add("someone/words", draft)
    server.tags["someone/words", "v1"] = 0
    (draft / "README.md").write_text("second")
    server.add("someone/words", draft)
    yield server
    server.close()


def test_a_model_on_the_hub_equals_the_folder(hub):
    model, expected = vitspeech.load(NAME), vitspeech.load(RELEASED)
    weights = model.network.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in expected.network.state_dict().items())
    assert model.card == expected.card and model.labels == expected.labels


def test_only_the_files_of_a_model_are_downloaded_and_none_is_a_link(hub):
    folder = fetch(NAME)
    names = {"model.safetensors", "config.yaml", "card.json", "training_items.txt"}
    assert {file.name for file in folder.rglob("*")} == names
    assert not any(file.is_symlink() for file in folder.iterdir()) and not folder.is_symlink()
    assert not any("code.py" in request or ".png" in request for request in hub.requests)


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub):
    assert fetch(f"{NAME}@v1").name == fetch(f"{NAME}@{hub.commit(0)}").name == hub.commit(0)
    assert fetch(NAME).name == fetch(f"{NAME}@main").name == hub.commit(1)


def test_a_new_commit_of_a_branch_is_downloaded(hub, tmp_path):
    before = fetch(NAME)
    hub.add("someone/words", tmp_path / "draft")
    assert fetch(NAME).name == hub.commit(2) != before.name


def test_without_network_the_last_download_is_used(hub):
    folder = fetch(NAME)
    hub.close()
    start = time.monotonic()
    assert fetch(NAME) == fetch(f"{NAME}@main") == folder
    assert fetch(f"{NAME}@{folder.name}") == folder
    with pytest.raises(InputError, match=r"^hf-hub:someone/words@v1: the hub cannot be reached, and this revision was"):
        fetch(f"{NAME}@v1")
    assert time.monotonic() - start < 5  # each asks once


def test_a_refusal_of_the_hub_does_not_keep_a_downloaded_model_from_loading(hub):
    folder = fetch(NAME)
    del hub.commits["someone/words"]  # as without a login that the hub now wants
    assert fetch(NAME) == folder
    with pytest.raises(InputError, match="no such repository, or a private one"):
        fetch(f"{NAME}@v1")


def test_what_is_not_there_is_named(hub):
    with pytest.raises(InputError, match=r"^hf-hub:someone/else: no such repository, or a private one"):
        vitspeech.load("hf-hub:someone/else")
    with pytest.raises(InputError, match=r"^hf-hub:someone/words@v9: the repository has no such revision$"):
        vitspeech.load(f"{NAME}@v9")


@pytest.mark.parametrize("name", ["words", "a/b/c", "a/b@", "a/b@c d", "../b@v1@v2", ""])
def test_a_name_of_another_form_is_refused_without_a_request(hub, name):
    with pytest.raises(InputError, match="a model on the hub is named hf-hub:user/name"):
        vitspeech.load(f"hf-hub:{name}")
    assert hub.requests == []


def test_a_repository_of_another_kind_is_refused_before_its_weights_are_downloaded(hub, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"x" * 1000)
    hub.add("someone/bert", other)
    with pytest.raises(InputError, match=r"^hf-hub:someone/bert: not a released model of vitspeech: it has no card"):
        vitspeech.load("hf-hub:someone/bert")
    (other / "card.json").write_text('{"name": "bert"}')
    hub.add("someone/bert", other)
    with pytest.raises(InputError, match=r"not a released model of vitspeech: its card.json has no checksums"):
        vitspeech.load("hf-hub:someone/bert")
    assert not any("safetensors" in request for request in hub.requests)


def test_code_of_a_model_on_the_hub_is_not_trusted(hub, tmp_path):
    config = tmp_path / "draft/config.yaml"
    config.write_text(config.read_text().replace("vitspeech.SpeechClassifier", "code.Net"))
    card = json.loads((tmp_path / "draft/card.json").read_text())
    card["config_sha256"] = hashlib.sha256(config.read_bytes()).hexdigest()
    (tmp_path / "draft/card.json").write_text(json.dumps(card))
    hub.add("someone/words", tmp_path / "draft")
    with pytest.raises(InputError, match=r"code\.Net is not part of vitspeech, and loading it runs its code"):
        vitspeech.load(NAME)


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vitspeech\[hub\]'"):
        vitspeech.load(NAME)


def test_a_pushed_model_loads_from_the_address_that_is_returned(hub, tmp_path):
    folder = shutil.copytree(RELEASED, tmp_path / "mine")
    (folder / "notes").mkdir()
    for name in (".hidden", "notes/.hidden"):
        (folder / name).write_text("not for others")
    address = push(folder, "user/mine", private=True)
    assert address.startswith("hf-hub:user/mine@") and hub.private["user/mine"] is True
    assert set(hub.commits["user/mine"][-1]) == set(os.listdir(RELEASED))
    assert vitspeech.load(address).card == vitspeech.load(RELEASED).card
    (folder / "learning_curves.png").unlink()
    push(folder, "user/mine")
    assert "learning_curves.png" not in hub.commits["user/mine"][-1] and len(hub.commits["user/mine"]) == 3


def test_a_push_to_no_repository_is_refused(hub, tmp_path):
    for name in ("mine", "user/mine@v1"):
        with pytest.raises(InputError, match="user/name"):
            push(RELEASED, name)
    assert hub.requests == []


def test_release_pushes_a_readme_that_names_the_repository(hub, tmp_path, capsys):
    folder = shutil.copytree(RELEASED, tmp_path / "mine")
    main([str(folder), "--push", "user/mine"])
    address = capsys.readouterr().out.splitlines()[-1]
    assert address == f"hf-hub:user/mine@{hub.commit(1)}" and not hub.private["user/mine"]
    assert b'vitspeech.load("hf-hub:user/mine")' in hub.commits["user/mine"][-1]["README.md"]


def test_commands_take_a_model_on_the_hub(hub, tmp_path, capsys):
    recording = FOLDER / "left-right-go.wav"
    predict.main([NAME, str(recording)])
    assert "left-right-go.wav" in capsys.readouterr().out
    with pytest.raises(InputError, match="copy its folder"):
        check_card(NAME)
