"""Exported models on the test sets of their cards, by run.py without torch: the cards' accuracy.

VITSPEECH_DATA is the folder of the data sets that the cards name. It takes minutes: run with -m slow.
"""

import os

import numpy
import pytest
import torch
from bare import run
from tiny import ROOT

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.checkpoint.leakage import check_test_items

CHECKPOINTS = ROOT / "checkpoints"
PREDICT = """
import sys, numpy
folder, inputs, out = sys.argv[1:]
sys.path.insert(0, folder)
from run import Model
model, inputs = Model(), numpy.load(inputs)
if model.about["kind"] == "stream":
    best = [model.clip(clip).argmax() for clip in inputs]
else:
    best = [model(inputs[first : first + 100]).argmax(1) for first in range(0, len(inputs), 100)]
numpy.save(out, numpy.hstack(best))
"""


@pytest.mark.data
@pytest.mark.timeout(1200)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* recordings? (is|are) (clipped|silent)")
@pytest.mark.parametrize(
    "name",
    [
        "cnn-cifar10",
        "vit-cifar10",
        "speech-commands",
        "speech-commands-cnn",
        "speech-commands-truncated",
        "speech-commands-causal",
        "keywords-12",
    ],
)
def test_accuracy_is_that_of_the_card(bare, exported, name, tmp_path):
    model = vitspeech.load(CHECKPOINTS / name)
    data = card_dataset(model, os.environ["VITSPEECH_DATA"])
    check_test_items(data.item_names(), model.card, CHECKPOINTS / name, data.item_root)
    batches = [(inputs, labels) for inputs, labels, _ in data.test_dataloader()]
    inputs, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    if "image" in model.preprocessing:
        inputs = inputs.movedim(1, 3)
    assert inputs.dtype == (torch.uint8 if "image" in model.preprocessing else torch.int16)
    numpy.save(tmp_path / "inputs.npy", inputs.contiguous().numpy())
    result = run(bare, "-c", PREDICT, exported(name), tmp_path / "inputs.npy", tmp_path / "best.npy")
    assert result.stderr == ""
    correct = (numpy.load(tmp_path / "best.npy") == labels.numpy()).sum()
    metrics = model.card["metrics"]
    assert len(labels) == metrics.get("images", metrics.get("clips"))
    print(f"{name}: {correct} of {len(labels)}, {correct / len(labels):.6f}; card {metrics['test_accuracy']:.6f}")
    assert correct / len(labels) == metrics["test_accuracy"]
