"""Every shipped config builds, and a mistake in one is named."""

from pathlib import Path

import pytest
import torch
import yaml
from tiny import ROOT

from vitspeech.models import SpeechTranscriber
from vitspeech.training.cli import TrainingCLI, task_of

CONFIGS = sorted((ROOT / "configs").glob("*/*.yaml"))
EXPERIMENTS = [path for path in CONFIGS if path.parent.name != "trainer"]
OVERLAYS = [path for path in CONFIGS if path.parent.name == "trainer"]
ON_CPU = ["--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.strategy=auto"]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", EXPERIMENTS, ids=name)
def test_every_experiment_builds_and_gives_one_logit_a_class(path, tmp_path):
    cli = TrainingCLI([f"--config={path}", *ON_CPU, f"--run={tmp_path / 'run'}"])
    network, data = cli.model.network.eval(), cli.datamodule
    labels = {"cifar10": 10, "cifar100": 100}.get(path.parent.name) or len(data.labels)
    with torch.no_grad():
        if data.items == "utterances":
            # A class more than labels: the blank, the end or none.
            assert rows_of(network, torch.randn(2, 16_000), torch.tensor([16_000, 7000])) == {labels + 1}
        else:
            inputs = torch.randn(1, 16_000) if data.items == "clips" else torch.randn(1, 3, 32, 32)
            assert network(inputs).shape == (1, labels)


def rows_of(network: torch.nn.Module, waveforms: torch.Tensor, lengths: torch.Tensor) -> set[int]:
    """How many logits the rows have that a network gives utterances."""
    if isinstance(network, SpeechTranscriber):
        output = network(waveforms, lengths, torch.tensor([[0, 1], [2, -1]]))
        assert output.logits.shape[:2] == (2, 3) and output.tokens.tolist() == network.tokens.count(lengths).tolist()
        return {rows.shape[-1] for rows in (output.logits, output.ctc_logits) if rows is not None}
    logits, rows = network(waveforms, lengths)
    assert logits.shape[:2] == (2, rows.max()) and rows[0] > rows[1]
    return {logits.shape[-1]}


TASK_OF = {"SpeechRecognizer": "recognition", "SpeechTranscriber": "transcription", "SpeechLabeler": "labeling"}


@pytest.mark.parametrize("path", EXPERIMENTS, ids=name)
def test_every_experiments_task_is_the_one_that_its_network_needs(path):
    network = yaml.safe_load(path.read_text())["model"]["network"]["class_path"]
    assert task_of([f"--config={path}"]) == TASK_OF.get(network.rpartition(".")[2], "classification")


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ([], "classification"),
        (["--config=none.yaml"], "classification"),
        (["--config=one.yaml"], "recognition"),
        (["--config", "one.yaml"], "recognition"),
        (["--config=one.yaml", "--config", "none.yaml"], "recognition"),
        (["--config=one.yaml", "--config", "other.yaml"], "labeling"),
        (["--config=other.yaml", "--config", "one.yaml"], "recognition"),
        (["--config=one.yaml", "--task=transcription", "--config=other.yaml"], "transcription"),
        (["--task", "transcription", "--config=one.yaml"], "transcription"),
        (["--config=one.yaml", "--config=broken.yaml", "--config=missing.yaml"], "recognition"),
    ],
)
def test_the_last_config_says_the_task_unless_the_command_line_does(tmp_path, monkeypatch, arguments, task):
    monkeypatch.chdir(tmp_path)
    texts = {
        "one": "task: recognition",
        "other": "{task: labeling, data: {}}",
        "none": "data: {}",
        "broken": "task: [",
    }
    for file, text in texts.items():
        Path(f"{file}.yaml").write_text(text)
    assert task_of(arguments) == task


@pytest.mark.parametrize(
    ("text", "named"), [("task: recognizing", "recognizing"), ("task: [recognition]", "recognition"), ("task: 3", "3")]
)
def test_an_unknown_task_is_one_line_that_names_it(tmp_path, capsys, text, named):
    (tmp_path / "wrong.yaml").write_text(text)
    base = ROOT / "configs/spoken_words/sequences.yaml"
    with pytest.raises(SystemExit) as stopped:
        TrainingCLI([f"--config={base}", f"--config={tmp_path / 'wrong.yaml'}"])
    message = capsys.readouterr().err
    assert stopped.value.code == 1 and "wrong.yaml: " in message and message.count("\n") == 1
    assert named in message.partition("Got value: ")[2] and "'recognition'" in message


def test_an_unknown_task_on_the_command_line_is_a_mistake_of_usage(capsys):
    with pytest.raises(SystemExit) as stopped:
        TrainingCLI([f"--config={ROOT / 'configs/shapes/vit.yaml'}", "--task=recognizing"])
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and "recognizing" in message and message.count("\n") == 1


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
