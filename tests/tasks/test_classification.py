"""The training task: its loss, what networks may add to it, and a stop where numbers break."""

from types import SimpleNamespace

import pytest
import torch
from arguments import nested
from PIL import Image
from tiny import TINY
from torch import nn
from torch.nn import functional as F

from vitspeech.attention import SelfAttentivePooling
from vitspeech.data import TensorItems
from vitspeech.errors import InputError
from vitspeech.models import ViT
from vitspeech.tasks import Classification
from vitspeech.training.train import TrainingCLI


def step(network: nn.Module, **options) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Classification]:
    task = Classification(network, **options)
    task.log = lambda *_, **__: None
    task.labels = list("abcde")
    inputs, labels = torch.randn(7, 3, 8, 8), torch.arange(7) % 5
    return task.training_step((inputs, labels), 0), inputs, labels, task


def tiny(**options) -> ViT:
    return ViT(5, **nested(image=8, patch=4, width=12, depth=1, heads=3, **options))


def test_the_loss_is_smoothed_cross_entropy():
    loss, inputs, labels, task = step(tiny(), label_smoothing=0.1)
    shares = F.one_hot(labels, 5) * 0.9 + 0.1 / 5
    expected = -(shares * task(inputs).log_softmax(-1)).sum(-1).mean()
    assert torch.allclose(loss, expected)


def test_an_auxiliary_loss_of_any_module_is_added():
    pooling = SelfAttentivePooling(12, hops=3, penalty=0.5)
    loss, inputs, labels, task = step(tiny(pooling=pooling))
    assert pooling.auxiliary_loss is None
    plain = F.cross_entropy(task(inputs), labels)
    assert pooling.auxiliary_loss > 0 and torch.allclose(loss, plain + pooling.auxiliary_loss)


@pytest.mark.parametrize("items", ["clips", "images"])
def test_the_sample_of_clips_is_augmented_as_in_training_and_that_of_images_is_not(items):
    inputs = torch.arange(5000)[:, None]
    data = SimpleNamespace(
        items=items,
        seed=23,
        train=TensorItems(inputs, torch.zeros(5000).long()),
        normalize=lambda rows: rows / 8,
        training_batch=lambda rows, labels, seed: (rows + seed, labels),
    )
    found = Classification(tiny()).sample(data).flatten()
    assert len(found) == 2000
    drawn = found - 23 if items == "clips" else 8 * found
    assert drawn[0] == 0 and drawn[-1] == 4999


def test_one_class_is_refused_before_a_run_is_created(tmp_path):
    for number in range(12):
        file = tmp_path / f"data/train/ape/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (number, 0, 0)).save(file)
    data = ["--data=vitspeech.ImageFolder", f"--data.root={tmp_path / 'data'}", "--data.image=32", "--data.batch=4"]
    others = [option for option in TINY if not option.startswith("--data")]
    with pytest.raises(InputError, match="the data has one class, 'ape'"):
        TrainingCLI([*others, *data, f"--run={tmp_path / 'run'}"]).train()
    assert not (tmp_path / "run").exists()


def test_a_loss_that_breaks_stops_the_run_and_names_the_last_good_checkpoint(tmp_path, monkeypatch):
    run = tmp_path / "broken"
    cli = TrainingCLI([*TINY, f"--run={run}"])
    healthy = ViT.forward

    def breaks(self: ViT, images: torch.Tensor) -> torch.Tensor:
        later = self.training and cli.trainer.current_epoch == 1
        return healthy(self, images) * (float("nan") if later else 1)

    monkeypatch.setattr(ViT, "forward", breaks)
    with pytest.raises(
        FloatingPointError, match=rf"training loss .* NaN at one of the steps 5 to 9, epoch 1; .*{run}/last\.ckpt"
    ):
        cli.train()
    kept = torch.load(run / "last.ckpt", weights_only=True)
    assert kept["epoch"] == 0
    assert all(tensor.isfinite().all() for tensor in kept["state_dict"].values())
    assert not (run / "model").exists()


def test_broken_validation_stops_before_the_weights_are_saved(tmp_path, monkeypatch):
    run = tmp_path / "broken"
    cli = TrainingCLI([*TINY, f"--run={run}"])
    healthy = ViT.forward
    monkeypatch.setattr(
        ViT, "forward", lambda self, images: healthy(self, images) * (1 if self.training else float("inf"))
    )
    with pytest.raises(
        FloatingPointError,
        match="validation loss is infinite or NaN at step 0, epoch 0; last good checkpoint: none yet",
    ):
        cli.train()
    assert not (run / "last.ckpt").exists()


def test_validation_counts_items_alike_and_does_not_smooth_labels():
    task, logged = Classification(nn.Identity(), label_smoothing=0.2), {}
    task.labels = list("abc")
    task.trainer = SimpleNamespace(datamodule=SimpleNamespace(labels=task.labels), current_epoch=0)
    task.setup("validate")
    task.log = lambda name, value, **_: logged.update({name: value})
    logits = torch.tensor([[2.0, 0, 0], [2, 0, 0], [0, 2, 0], [2, 0, 0], [2, 0, 0.5]])
    labels = torch.tensor([0, 0, 0, 1, 0])
    task.validation_step((logits[:4], labels[:4]), 0)
    task.validation_step((logits[4:], labels[4:]), 1)
    loss = -logits.log_softmax(-1)[range(5), labels].mean()
    assert logged["val_accuracy"].compute().item() == pytest.approx(3 / 5)
    assert logged["val_loss"].compute().item() == pytest.approx(loss.item())
