"""`vitspeech pack`: writes the data of a config, checks a pack, and refuses what it cannot do."""

import json
import shutil

import pytest
from PIL import Image

from vitspeech.commands import pack
from vitspeech.data.storage.packed import Pack
from vitspeech.errors import InputError
from vitspeech.training.train import TrainingCLI


@pytest.fixture
def pictures(tmp_path) -> list[str]:
    """A config of a folder of 60 pictures, as arguments."""
    for name in ("ape", "bee"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(30):
            Image.new("RGB", (20, 20), (8 * number, 0, 0)).save(tmp_path / "pictures" / name / f"{number}.png")
    return ["shapes/vit", "--data=vitspeech.ImageFolder", f"--data.root={tmp_path / 'pictures'}", "--data.image=32"]


def test_a_config_is_packed_and_trained_on(tmp_path, capsys, pictures):
    config, *data = pictures
    folder = tmp_path / "pack"
    pack.main([config, str(folder), *data])
    out = capsys.readouterr().out
    assert "50 train, 5 validation, 5 test images" in out
    assert "to train on it: vitspeech train --config shapes/vit --data.storage" in out
    description = json.loads((folder / "pack.json").read_text())
    assert description["data"] == {"class_path": "vitspeech.ImageFolder", "init_args": {"image": 32}}
    pack.main(["--check", str(folder)])
    assert capsys.readouterr().out.strip().endswith("60 items, as they were written")
    shutil.rmtree(tmp_path / "pictures")
    small = ["--data.batch=8", f"--data.storage={folder}", "--trainer.max_epochs=1", "--trainer.accelerator=cpu"]
    TrainingCLI([f"--config={config}", *data, *small, f"--run={tmp_path / 'run'}"]).train()
    card = json.loads((tmp_path / "run/model/card.json").read_text())
    assert card["metrics"]["images"] == 5 and "storage" not in card["data"]["init_args"]


@pytest.mark.data
def test_cifar_trained_from_a_pack_ends_as_from_memory(tmp_path):
    pack.main(["cifar10/vit", str(tmp_path / "pack"), "--shard-mb=32"])
    small = [f"--config={config}" for config in ("cifar10/vit", "trainer/smoke")]
    small += ["--model.network.init_args.encoder.depth=1", "--trainer.enable_progress_bar=false"]
    for run, storage in (("memory", []), ("packed", [f"--data.storage={tmp_path / 'pack'}"])):
        TrainingCLI([*small, *storage, f"--run={tmp_path / run}"]).train()
    ours, theirs = (json.loads((tmp_path / run / "model/card.json").read_text()) for run in ("memory", "packed"))
    assert ours["metrics"] == theirs["metrics"] and ours["data"] == theirs["data"]
    table = (tmp_path / "memory/metrics.csv").read_text()
    assert table == (tmp_path / "packed/metrics.csv").read_text()


def test_the_same_command_goes_on(tmp_path, pictures):
    config, *data = pictures
    for _ in range(2):
        pack.main([config, str(tmp_path / "pack"), *data])
    assert Pack(tmp_path / "pack").labels == ["ape", "bee"]
    with pytest.raises(InputError, match="holds a pack with data="):
        pack.main([config, str(tmp_path / "pack"), *data, "--data.image=24"])


def test_a_pack_with_other_items_than_the_config_is_refused(tmp_path, pictures):
    config, *data = pictures
    pack.main([config, str(tmp_path / "pack"), *data])
    file = tmp_path / "pack/pack.json"
    description = json.loads(file.read_text())
    description["data"]["init_args"] = {"image": 24, "gone": 1}  # as if other pictures had been packed
    file.write_text(json.dumps(description))
    arguments = [f"--config={config}", *data, f"--data.storage={tmp_path / 'pack'}", f"--run={tmp_path / 'run'}"]
    with pytest.raises(InputError, match="pack: was packed with image=24; the config asks for 32"):
        TrainingCLI(arguments).fit()
    assert not (tmp_path / "run").exists()


def test_a_pack_is_not_packed_again(tmp_path, pictures):
    config, *data = pictures
    pack.main([config, str(tmp_path / "pack"), *data])
    message = f"storage={tmp_path / 'pack'}: is already a pack; add --data.storage memory to read the files"
    with pytest.raises(InputError, match=message):
        pack.main([config, str(tmp_path / "again"), *data, f"--data.storage={tmp_path / 'pack'}"])
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["shapes/vit"],
        ["shapes/vit", "pack", "--check", "pack"],
        ["shapes/vit", "pack", "--modle.x=3"],
        ["shapes/vit", "pack", "--workers=0"],
        ["shapes/vit", "pack", "--shard-mb=nan"],
    ],
)
def test_wrong_usage_is_refused(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        pack.main(arguments)
    assert "usage: " in capsys.readouterr().err and not any(tmp_path.iterdir())


def test_what_cannot_be_packed_is_refused(tmp_path):
    with pytest.raises(InputError, match="Shapes has no argument `storage`: its items need no pack"):
        pack.main(["shapes/vit", str(tmp_path / "pack")])
    with pytest.raises(FileNotFoundError, match="is not a pack"):
        pack.main(["--check", str(tmp_path)])
