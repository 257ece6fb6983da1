"""Networks, data sets and tasks of the user: refused unless their module is trusted, and then trained to the end."""

import json
import sys
from pathlib import Path

import pytest
import torch
import yaml
from running import one_line
from safetensors.torch import load_file
from tiny import TINY

from vitspeech.training.config import read_arguments
from vitspeech.training.train import train

MINE = """
import torch
import vitspeech
from torch import nn
from vitspeech.data.batches import TensorItems
from vitspeech.data.images.module import ImageData
from vitspeech.evaluation import Report


class Net(nn.Module):
    def __init__(self, classes: int = 0, width: int = 8):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 5, 5), nn.GELU(), nn.Flatten(), nn.LazyLinear(classes))
        self(torch.zeros(1, 3, 20, 20))

    def forward(self, images):
        return self.layers(images)


class Stripes(ImageData):
    image = 20

    def __init__(self, count: int = 60, *, batch: int = 20, seed: int = 0):
        super().__init__(batch=batch, augment=None, seed=seed)
        self.count, self.labels = count, ["across", "down", "none"]

    def read(self, split: str):
        labels = torch.arange(self.count) % 3
        images = torch.randint(0, 60, (self.count, 3, 20, 20), dtype=torch.uint8)
        images[labels == 0, :, ::4] = 255
        images[labels == 1, :, :, ::4] = 255
        return TensorItems(images, labels)


class Smoothed(vitspeech.Classification):
    @classmethod
    def evaluate(cls, network, data, *, search=None, progress=True):
        report = super().evaluate(network, data, search=search, progress=progress)
        return Report({"own_metric": 0.5} | report.metrics, "own text", report.write)
"""

CONFIG = {
    "data": {"class_path": "mine.Stripes"},
    "model": {"class_path": "mine.Smoothed", "init_args": {"network": {"class_path": "mine.Net"}}},
    "trainer": {"max_epochs": 1, "enable_progress_bar": False, "accelerator": "cpu"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a module `mine` and a config that names its classes."""
    sys.modules.pop("mine", None)  # of another test
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(CONFIG))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mine", None)


def test_code_of_ones_own_goes_all_the_way_with_trust_and_nowhere_without(folder, capsys, command, star):
    train(["--config=mine.yaml", "--trust", "mine", "--run=run"])
    output = capsys.readouterr().out
    warning = "loading it later needs --trust mine (in Python: trust=['mine'])"
    assert output.index(warning) < output.index("parameters -> run") < output.index("own text")
    resolved = yaml.safe_load(Path("run/config.yaml").read_text())
    assert resolved["model"]["init_args"]["network"] == {
        "class_path": "mine.Net",
        "init_args": {"classes": 3, "width": 8},  # the classes of the data
    }
    released = yaml.safe_load(Path("run/model/config.yaml").read_text())
    assert released["task"] == "mine.Smoothed" and released["network"]["class_path"] == "mine.Net"
    card = json.loads(Path("run/model/card.json").read_text())
    assert next(iter(card["metrics"])) == "own_metric" and card["data"]["class_path"] == "mine.Stripes"
    train(["--config=mine.yaml", "--trust", "mine", "--run=student", "--model.distillation.teachers=run"])
    assert json.loads(Path("student/model/card.json").read_text())["teachers"] == ["run"]
    for arguments in (["evaluate", "run"], ["predict", "run", star], ["release", "run", "released/own"]):
        assert "mine.Smoothed is not part" in (line := one_line(command(*arguments))) or "mine.Net is not part" in line
        result = command(*arguments, "--trust", "mine")
        assert result.returncode == 0, result.stderr
    assert command("evaluate", "released/own", "--trust", "mine").stdout.splitlines()[-1] == "own_metric 0.5000"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config=mine.yaml"],
        [*TINY, "--model.network=mine.Net"],
        [*TINY, "--model.network", "mine.Net"],
        [*TINY, "--model.network.class_path=mine.Net"],
        [*TINY, "--data", "mine.Stripes"],
        [*TINY, "--trainer.callbacks+=mine.Callback"],
        [*TINY, '--model.network={"class_path": "mine.Net"}'],
        ["--config=mine.yaml", "--trust=min"],
        ["--config=extending.yaml"],
    ],
)
def test_code_that_is_not_trusted_is_refused_before_it_is_imported(folder, arguments):
    Path("mine.py").write_text("raise SystemExit('this code has run')")
    Path("extending.yaml").write_text("extends: mine.yaml")
    Path("min.py").touch()
    with pytest.raises(ValueError, match=r"mine\.\w+ is not part of vitspeech.*--trust mine") as caught:
        train(arguments)
    assert "\n" not in str(caught.value) and "mine" not in sys.modules
    assert not Path("runs").exists()


HIDDEN = {
    "data.yaml": {"data": "part.yaml"},
    "network.yaml": {"model": {"class_path": "vitspeech.Classification", "init_args": {"network": "part.yaml"}}},
    "callbacks.yaml": {"trainer": {"callbacks": "part.yaml"}},
    "config.yaml": {"config": "part.yaml"},
    "reexport.yaml": {
        "trainer": {
            "callbacks": {
                "class_path": "lightning.pytorch.callbacks.LambdaCallback",
                "init_args": {"on_fit_start": "vitspeech.trust.os.system"},
            }
        }
    },
    "namespace.yaml": {"model": {"init_args": {"network": "spaces.mine.Net"}}},
}


@pytest.mark.parametrize(
    "arguments",
    [[*TINY, f"--config={name}"] for name in HIDDEN] + [[*TINY, "--data", "part.yaml"], ["--conf", "part.yaml"]],
)
def test_code_named_in_a_hidden_place_does_not_run(folder, arguments, monkeypatch, capsys):
    monkeypatch.syspath_prepend(folder)
    Path("spaces").mkdir()
    for path in ("mine.py", "spaces/mine.py"):
        Path(path).write_text("from pathlib import Path\nPath('evidence').touch()")
    Path("part.yaml").write_text("class_path: mine.Net\n")
    for name, config in HIDDEN.items():
        Path(name).write_text(yaml.safe_dump(config))
    with pytest.raises((ValueError, SystemExit)):
        train(arguments)
    assert not Path("evidence").exists() and not Path("runs").exists()


def test_a_config_cannot_trust_itself(folder):
    Path("mine.yaml").write_text(yaml.safe_dump(CONFIG | {"trust": ["mine"]}))
    with pytest.raises(ValueError, match=r"mine.yaml: unknown key 'trust'"):
        train(["--config=mine.yaml"])


def test_a_run_with_code_of_ones_own_is_resumed_with_trust_alone(folder, capsys):
    train(["--config=mine.yaml", "--trust=mine", "--run=run"])
    weights = load_file("run/model/model.safetensors")
    Path("run/model").rename("first")
    with pytest.raises(ValueError, match="--trust mine"):
        train(["--resume", "run"])
    train(["--resume", "run", "--trust", "mine"])
    assert "resuming after 1 of 1 epochs\n" in capsys.readouterr().out
    assert all(torch.equal(tensor, weights[name]) for name, tensor in load_file("run/model/model.safetensors").items())


def test_modules_may_be_trusted_one_by_one_or_as_a_list():
    for arguments in (
        ["--trust", "mine", "--trust=yours.networks"],
        ["--trust", "mine", "yours.networks"],
        ["--trust=[mine, yours.networks]"],
    ):
        given = read_arguments([*arguments, "--model.warmup", "0.1"])
        assert given.trust == ("mine", "yours.networks") and given.parsed == ["--model.warmup", "0.1"]


def test_an_override_with_a_space_is_not_taken_for_a_trusted_module():
    override = "--model.optimizer={class_path: torch.optim.SGD, init_args: {lr: 0.1}}"
    given = read_arguments(["--trust", "mine", override])
    assert given.trust == ("mine",) and given.parsed == [override]
