"""Every shipped config builds, and a mistake in one is named."""

from pathlib import Path

import pytest
import torch
import yaml
from tiny import ROOT

from vitspeech.training import TrainingCLI

CONFIGS = sorted((ROOT / "configs").glob("*/*.yaml"))
EXPERIMENTS = [path for path in CONFIGS if path.parent.name != "trainer"]
OVERLAYS = [path for path in CONFIGS if path.parent.name == "trainer"]
ON_CPU = ["--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.strategy=auto"]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", EXPERIMENTS, ids=name)
def test_every_experiment_builds_and_gives_one_logit_a_class(path, tmp_path):
    cli = TrainingCLI([f"--config={path}", *ON_CPU, f"--run={tmp_path / 'run'}"])
    network, hears = cli.model.network.eval(), cli.datamodule.items == "clips"
    labels = {"cifar10": 10, "cifar100": 100}.get(path.parent.name) or len(cli.datamodule.labels)
    with torch.no_grad():
        assert network(torch.randn(1, 16_000) if hears else torch.randn(1, 3, 32, 32)).shape == (1, labels)


@pytest.mark.parametrize("path", OVERLAYS, ids=name)
def test_every_overlay_applies(path, tmp_path):
    config = ROOT / "configs/shapes/vit.yaml"
    cli = TrainingCLI([f"--config={config}", f"--config={path}", *ON_CPU, f"--run={tmp_path / 'run'}"])
    for key, value in yaml.safe_load(path.read_text())["trainer"].items():
        if key not in ("accelerator", "devices", "strategy"):
            assert cli.config.trainer[key] == value


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_every_config_opens_by_saying_what_it_is(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    if path in EXPERIMENTS:
        assert any(line.startswith(f"# python scripts/train.py --config {path.relative_to(ROOT)}") for line in lines)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("modle: {warmup: 0.1}", "modle"),
        ("model: {network: {class_path: vitspeech.ViT, init_args: {classes: 10, widht: 192}}}", "widht"),
        ("data: {class_path: vitspeech.Shape}", "vitspeech.Shape"),
        ("trainer: {max_epoch: 3}", "max_epoch"),
        ("model: [", "parsing"),
    ],
)
def test_a_mistake_in_a_config_is_one_line_that_names_it(tmp_path, capsys, text, key):
    (tmp_path / "wrong.yaml").write_text(text)
    base = ROOT / "configs/shapes/vit.yaml"
    with pytest.raises(SystemExit) as stopped:
        TrainingCLI([f"--config={base}", f"--config={tmp_path / 'wrong.yaml'}"])
    message = capsys.readouterr().err
    assert stopped.value.code == 1 and key in message and message.count("\n") == 1
    assert "wrong.yaml: " in message


def test_a_mistake_on_the_command_line_is_one_of_usage(capsys):
    with pytest.raises(SystemExit) as stopped:
        TrainingCLI([f"--config={ROOT / 'configs/shapes/vit.yaml'}", "--model.warmpu=0.1"])
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and "warmpu" in message and message.count("\n") == 1
