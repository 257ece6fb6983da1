"""Distillation: its loss against the definition, which teachers are refused, and what a run keeps of them."""

import json

import pytest
import torch
import yaml
from tiny import TINY
from torch.nn import functional as F

import vitspeech
from vitspeech.checkpoint.model import save
from vitspeech.errors import InputError
from vitspeech.files import sha256
from vitspeech.tasks import Classification, Distillation
from vitspeech.tasks.distillation import Teachers
from vitspeech.training.train import TrainingCLI


def settings_of(run):
    """The labels and the preprocessing of a run."""
    model = vitspeech.load(run)
    return model.labels, model.preprocessing


def other_weights(run, folder, seed=7):
    """A copy of a run's model with other weights."""
    model = vitspeech.load(run)
    torch.manual_seed(seed)
    for parameter in model.network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save(model, folder)
    return str(folder)


def interrupt_second_epoch(task):
    if task.current_epoch == 1:
        raise KeyboardInterrupt


def noise(model, batch=6):
    side = model.preprocessing["image"]
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(0))


def test_the_loss_is_the_divergence_from_the_mean_of_the_teachers(finished_run, tmp_path):
    folders = [str(finished_run), other_weights(finished_run, tmp_path / "other")]
    teachers = Teachers(Distillation(folders, temperature=3.0), *settings_of(finished_run))
    models = [vitspeech.load(folder) for folder in folders]
    inputs = noise(models[0])
    logits = torch.randn(6, len(models[0].labels), requires_grad=True)
    loss = teachers.loss(inputs, logits)
    with torch.no_grad():
        target = sum(F.softmax(model.network(inputs) / 3, -1) for model in models) / 2
    by_hand = 9 * (target * (target.log() - F.log_softmax(logits / 3, -1))).sum(-1).mean()
    torch.testing.assert_close(loss, by_hand)
    loss.backward()
    torch.testing.assert_close(logits.grad, 3 * (F.softmax(logits.detach() / 3, -1) - target) / 6)


def test_labels_have_the_rest_of_the_loss(finished_run):
    model = vitspeech.load(finished_run)
    inputs, labels = noise(model), torch.arange(6) % len(model.labels)
    losses = {}
    for weight in (0.0, 0.3, 1.0):
        task = Classification(model.network, distillation=Distillation(str(finished_run), weight=weight))
        task.labels, task.teachers = model.labels, Teachers(task.distillation, *settings_of(finished_run))
        losses[weight] = task.loss((inputs, labels))
    torch.testing.assert_close(losses[0.0], F.cross_entropy(model.network(inputs), labels))
    assert losses[1.0].abs() < 1e-6  # the network is its own teacher
    torch.testing.assert_close(losses[0.3], 0.7 * losses[0.0])


def test_a_run_learns_from_its_teacher_and_names_it(finished_run, tmp_path, capsys):
    # A teacher that always gives the first label, with certainty: a network that learns from it alone says so, too.
    teacher = vitspeech.load(finished_run)
    torch.nn.init.zeros_(teacher.network.head.weight)
    with torch.no_grad():
        teacher.network.head.bias.copy_(torch.tensor([9.0] + [0.0] * (len(teacher.labels) - 1)))
    save(teacher, tmp_path / "certain")
    distill = [f"--model.distillation.teachers={tmp_path / 'certain'}", "--model.distillation.weight=1.0"]
    TrainingCLI([*TINY, *distill, "--trainer.max_epochs=8", f"--run={tmp_path / 'run'}"]).train()
    card = json.loads((tmp_path / "run/model/card.json").read_text())
    assert card["teachers"] == ["certain"]
    assert card["teachers_sha256"] == [sha256(tmp_path / "certain/model.safetensors")]
    model = vitspeech.load(tmp_path / "run")
    assert (model.network(noise(model)).argmax(-1) == 0).all()
    assert not any("teacher" in name for name in model.network.state_dict())
    checkpoint = torch.load(tmp_path / "run/last.ckpt", weights_only=True)
    assert not any("teacher" in name for name in checkpoint["state_dict"])
    assert "teacher" not in yaml.safe_load((tmp_path / "run/model/config.yaml").read_text())["network"].get("init_args")


def test_a_run_is_not_resumed_with_other_weights_of_its_teacher(finished_run, tmp_path, monkeypatch):
    teacher = other_weights(finished_run, tmp_path / "teacher")
    arguments = [f"--model.distillation.teachers={teacher}", "--trainer.max_epochs=2", f"--run={tmp_path / 'run'}"]
    with monkeypatch.context() as stopped, pytest.raises(SystemExit):
        stopped.setattr(Classification, "on_train_epoch_start", interrupt_second_epoch, raising=False)
        TrainingCLI([*TINY, *arguments]).train()
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    other_weights(finished_run, tmp_path / "teacher", seed=8)
    with pytest.raises(
        InputError, match="run: its teachers have other weights than when the run began; start a new run"
    ):
        TrainingCLI([f"--resume={tmp_path / 'run'}"]).train()
    assert before == {path: path.read_bytes() for path in before}
    other_weights(finished_run, tmp_path / "teacher")
    TrainingCLI([f"--resume={tmp_path / 'run'}"]).train()
    assert (tmp_path / "run/model").is_dir()


def test_a_teacher_of_other_inputs_or_labels_is_refused(finished_run, finished_speech_run, tmp_path):
    labels, preprocessing = settings_of(finished_run)
    with pytest.raises(InputError, match="its labels are not those of the data"):
        Teachers(Distillation(str(finished_run)), labels[::-1], preprocessing)
    with pytest.raises(InputError, match="image is 32, but 16 in the data"):
        Teachers(Distillation(str(finished_run)), labels, preprocessing | {"image": 16})
    with pytest.raises(FileNotFoundError, match="missing"):
        Teachers(Distillation(str(tmp_path / "nothing")), labels, preprocessing)
    run = tmp_path / "run"
    with pytest.raises(InputError, match="its labels are not those of the data"):  # before there is a run
        TrainingCLI([*TINY, f"--model.distillation.teachers={finished_speech_run}", f"--run={run}"]).train()
    assert not run.exists()
