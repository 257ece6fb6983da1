"""Released models: what is saved comes back, and what is broken, altered or foreign is refused by name."""

import json
import shutil

import pytest
import torch
import yaml
from safetensors.torch import load_file

import vitspeech
from vitspeech import checkpoint
from vitspeech.data.files import sha256
from vitspeech.models import CNN, TimmModel, ViT

NETWORKS = [
    (
        ViT(3, image=8, patch=4, width=8, encoder={"depth": 1, "heads": 2}),
        {"image": 8, "patch": 4, "width": 8, "encoder": {"depth": 1, "heads": 2}},
    ),
    (CNN(3, widths=(4, 5, 7)), {"widths": [4, 5, 7]}),
    (TimmModel(3, "mobilenetv3_small_050"), {"timm_name": "mobilenetv3_small_050"}),
    (
        ViT(3, 8, 4, width=8, pooling=vitspeech.SelfAttentivePooling(8, 5, 2), encoder={"depth": 1, "heads": 2}),
        {"image": 8, "patch": 4, "width": 8, "encoder": {"depth": 1, "heads": 2}}
        | {
            "pooling": {
                "class_path": "vitspeech.SelfAttentivePooling",
                "init_args": {"width": 8, "hidden": 5, "hops": 2},
            }
        },
    ),
]


@pytest.mark.parametrize(("network", "arguments"), NETWORKS, ids=["vit", "cnn", "timm", "hops"])
def test_what_is_saved_comes_back(tmp_path, network, arguments):
    config = {"class_path": f"vitspeech.{type(network).__name__}", "init_args": {"classes": 3} | arguments}
    saved = checkpoint.Model(network.eval(), ["a", "b", "ç"], {"image": 8}, {"name": "x"}, config)
    checkpoint.save(saved, tmp_path / "released")
    loaded = vitspeech.load(tmp_path / "released")
    images = torch.randn(2, 3, 8 if isinstance(network, ViT) else 32, 8 if isinstance(network, ViT) else 32)
    assert torch.equal(loaded.network(images), network(images))
    assert (loaded.labels, loaded.preprocessing, loaded.card["name"]) == (["a", "b", "ç"], {"image": 8}, "x")
    assert not loaded.network.training


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


def resealed(released, **changes) -> None:
    """Alter the configuration and give the card the sum that fits: what somebody with intent would do."""
    config = yaml.safe_load((released / "config.yaml").read_text())
    config["network"] |= changes
    (released / "config.yaml").write_text(yaml.safe_dump(config))
    card = json.loads((released / "card.json").read_text())
    card["config_sha256"] = sha256(released / "config.yaml")
    (released / "card.json").write_text(json.dumps(card))


NO_NETWORKS = ["os.system", "vitspeech.load", "vitspeech.Shapes", "vitspeech.training.cli.TrainingCLI"]


@pytest.mark.parametrize("path", NO_NETWORKS)
def test_a_configuration_can_name_nothing_but_networks(released, path):
    resealed(released, class_path=path)
    with pytest.raises(ValueError, match="is no network of vitspeech"):
        vitspeech.load(released)


def test_weights_that_do_not_fit_are_refused(released):
    resealed(released, init_args={"classes": 10, "width": 32, "encoder": {"depth": 1, "heads": 2}})
    with pytest.raises(ValueError, match="can't be made from its configuration and weights"):
        vitspeech.load(released)


def test_an_unknown_argument_is_named(released):
    resealed(released, init_args={"classes": 10, "widht": 32})
    with pytest.raises(ValueError, match="widht"):
        vitspeech.load(released)


@pytest.mark.parametrize(("text", "reason"), [("{", "can't be read"), ("[]", "has no sha256"), ("{}", "has no sha256")])
def test_a_broken_card_is_named(released, text, reason):
    (released / "card.json").write_text(text)
    with pytest.raises(ValueError, match=rf"card\.json: {reason}"):
        vitspeech.load(released)


def test_saving_replaces_a_model_whole(released):
    model = vitspeech.load(released)
    (released / "stray.txt").touch()
    model.card["name"] = "second"
    checkpoint.save(model, released)
    assert {path.name for path in released.iterdir()} == {"model.safetensors", "config.yaml", "card.json"}
    assert vitspeech.load(released).card["name"] == "second"
    assert load_file(released / "model.safetensors").keys() == model.network.state_dict().keys()


def test_a_folder_with_something_else_in_it_is_left_alone(released, tmp_path):
    model = vitspeech.load(released)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter.txt").touch()
    with pytest.raises(FileExistsError, match="no released model"):
        checkpoint.save(model, tmp_path / "home")
    assert (tmp_path / "home/letter.txt").exists()
