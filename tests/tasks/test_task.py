"""What all tasks share: the initialization of the network, the schedule, and how a task is found."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vitspeech.errors import InputError
from vitspeech.models import SpeechClassifier, SpeechRecognizer, SpeechTranscriber
from vitspeech.tasks import (
    Classification,
    JointRecognition,
    Labeling,
    MaskedPrediction,
    Recognition,
    Spotting,
    Task,
    Transcription,
    find_task,
)


class Sampled(Task):
    """A task whose sample is all ones."""

    def sample(self, data) -> torch.Tensor:
        return torch.ones(3, 5)


class Fitted(nn.Linear):
    """A network that keeps what it was initialized with, and whether it was compiled."""

    given, compiled = None, False

    def initialize(self, inputs: torch.Tensor) -> None:
        self.given = inputs

    def compile(self) -> None:
        self.compiled = True


def prepared(stage: str, network: nn.Module, **options) -> Task:
    task = Sampled(network, **options)
    data = SimpleNamespace(labels=("a", "b"))
    task.trainer = SimpleNamespace(datamodule=data, estimated_stepping_batches=40, precision="32-true")
    task.setup(stage)
    return task


def test_a_network_is_initialized_with_the_sample_before_training_alone():
    task = prepared("fit", Fitted(5, 2))
    assert torch.equal(task.network.given, torch.ones(3, 5)) and not task.network.compiled
    assert task.labels == ["a", "b"]
    assert prepared("validate", Fitted(5, 2), compile=True).network.given is None


def test_the_learning_rate_rises_for_the_warmup_fraction_of_the_steps():
    task = prepared("fit", nn.Linear(5, 2), optimizer=lambda groups: torch.optim.SGD(groups, lr=0.8), warmup=0.1)
    configuration = task.configure_optimizers()
    optimizer, schedule = configuration["optimizer"], configuration["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(40):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert all(one > other for one, other in pairwise(rates[4:]))
    assert configuration["lr_scheduler"]["interval"] == "step"


TASKS = (Classification, Labeling, Recognition, Transcription, JointRecognition, Spotting, MaskedPrediction)


def test_what_is_not_a_task_or_not_trusted_is_refused():
    with pytest.raises(ValueError, match=r"vitspeech\.ViT is not a task"):
        find_task("vitspeech.ViT")
    with pytest.raises(ValueError, match=r"mine\.Task is not part of vitspeech"):
        find_task("mine.Task")


def test_the_best_checkpoint_is_that_of_accuracy_or_error_rate():
    assert {task.__name__: (task.monitor, task.mode) for task in TASKS} == {
        "Classification": ("val_accuracy", "max"),
        "Labeling": ("val_accuracy", "max"),
        "Recognition": ("val_error_rate", "min"),
        "Transcription": ("val_error_rate", "min"),
        "JointRecognition": ("val_error_rate", "min"),
        "Spotting": ("val_accuracy", "max"),
        "MaskedPrediction": ("val_loss", "min"),
    }


def test_the_size_of_the_head_follows_from_the_labels():
    assert [task.network_sizes(["a", "b", "c"]) for task in TASKS] == [
        {"classes": 3, "units": 3},
        {"classes": 4},  # the words and "none"
        {"classes": 3, "units": 3},
        {"classes": 3, "units": 3},
        {"classes": 3, "units": 3},
        {"classes": 3, "units": 3},
        {"classes": 3, "units": 3},
    ]


@pytest.mark.parametrize("items", ["images", "clips", "birds", "utterances"])
@pytest.mark.parametrize("task", [task for task in TASKS if task is not MaskedPrediction])
def test_utterances_and_single_labels_need_different_tasks(task, items):
    data = SimpleNamespace(items=items)
    if issubclass(task, Classification) == (items != "utterances"):
        task.check_data(data)
    else:
        with pytest.raises(ValueError, match=f"{task.__name__} does not fit SimpleNamespace"):
            task.check_data(data)


@pytest.mark.parametrize(
    ("task", "network", "arguments"),
    [
        (Classification, nn.Linear(5, 2), {"warmup": 1.5}),
        (Classification, nn.Linear(5, 2), {"label_smoothing": float("nan")}),
        (Spotting, SpeechClassifier(4), {"clips_per_row": 0}),
        (Spotting, SpeechClassifier(4), {"rejection": -1}),
        (Recognition, SpeechRecognizer(4), {"intermediate_ctc": 1.0}),
        (Transcription, SpeechTranscriber(4, ctc=True), {"ctc_weight": -0.3}),
    ],
)
def test_a_number_out_of_its_range_is_named(task, network, arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(InputError, match=f"{name}={value} is not"):
        task(network, **arguments)


@pytest.mark.parametrize(("other", "accepted"), [("", 3), ("the blank", 4)])
def test_a_network_needs_a_class_for_each_label_and_for_the_blank(other, accepted):
    task = Sampled(nn.Linear(5, 2))
    task.labels = ["a", "b", "c"]
    task.check_classes(torch.zeros(2, accepted), other)
    with pytest.raises(InputError, match=f"the network has {accepted + 1} classes, the data 3 labels"):
        task.check_classes(torch.zeros(2, accepted + 1), other)
