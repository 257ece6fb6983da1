"""A network and a data set of the user's own: trained, evaluated, used and released with `--trust`, refused without."""

import sys

import pytest
import yaml
from running import one_line

OWN = '''
import torch
from torch import nn

from vitspeech import ImageData, TensorItems


class Net(nn.Module):
    def __init__(self, classes=0, width=5):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        return self.head(self.layers(images))


class Halves(ImageData):
    """Images whose upper or lower half is bright."""

    labels = ("upper", "lower")
    image = 8

    def __init__(self, count=40, batch=10, seed=0):
        super().__init__(batch=batch, augment=None, seed=seed)
        self.count = count

    def read(self, split):
        labels = torch.arange(self.count) % 2
        images = torch.zeros(self.count, 3, 8, 8, dtype=torch.uint8)
        images[labels == 0, :, :4] = 255
        images[labels == 1, :, 4:] = 255
        return TensorItems(images, labels)
'''


@pytest.fixture
def own_config(tmp_path, monkeypatch):
    """A config in the current folder that names classes of the module `own_halves` beside it."""
    (tmp_path / "own_halves.py").write_text(OWN)
    config = {
        "data": {"class_path": "own_halves.Halves"},
        "model": {
            "class_path": "vitspeech.Classification",
            "init_args": {"network": {"class_path": "own_halves.Net", "init_args": {"width": 3}}},
        },
        "trainer": {"accelerator": "cpu", "max_epochs": 1, "enable_progress_bar": False},
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "own.yaml"
    sys.modules.pop("own_halves", None)


def test_own_classes_go_all_the_way_with_trust_and_nowhere_without(command, own_config, star):
    train = ["train", "--config", own_config, "--run", "run"]
    assert "own_halves.Halves is not part of vitspeech" in one_line(command(*train))
    result = command(*train, "--trust", "own_halves")
    assert result.returncode == 0, result.stderr
    for arguments in (["evaluate", "run"], ["predict", "run", star], ["release", "run", "released/own"]):
        assert "own_halves.Net is not part of vitspeech" in one_line(command(*arguments))
        result = command(*arguments, "--trust", "own_halves")
        assert result.returncode == 0, result.stderr
    assert command("evaluate", "released/own", "--trust", "own_halves").stdout.splitlines()[-1].startswith("test_acc")
