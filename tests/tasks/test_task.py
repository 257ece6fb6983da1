"""What all training shares: what a network is given before it, the schedule, and names of tasks."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vitspeech.tasks import TASKS, Classification, Labeling, Recognition, Transcription
from vitspeech.tasks.task import Task, check_share


class Sampled(Task):
    """A task whose sample is a row of ones."""

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
    task.trainer = SimpleNamespace(datamodule=SimpleNamespace(labels=("a", "b")), estimated_stepping_batches=40)
    task.setup(stage)
    return task


def test_a_network_is_initialized_with_the_sample_before_training_alone():
    task = prepared("fit", Fitted(5, 2))
    assert torch.equal(task.network.given, torch.ones(3, 5)) and not task.network.compiled
    assert task.labels == ["a", "b"]
    assert prepared("validate", Fitted(5, 2), compile=True).network.given is None


def test_a_network_with_nothing_to_initialize_is_trained_as_it_is():
    assert prepared("fit", nn.Linear(5, 2)).labels == ["a", "b"]


def test_a_network_is_compiled_where_it_is_asked_for():
    assert prepared("fit", Fitted(5, 2), compile=True).network.compiled


def test_the_learning_rate_rises_for_the_warmups_share_of_the_steps():
    task = prepared("fit", nn.Linear(5, 2), optimizer=lambda groups: torch.optim.SGD(groups, lr=0.8), warmup=0.1)
    made = task.configure_optimizers()
    optimizer, schedule = made["optimizer"], made["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(40):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert all(one > other for one, other in pairwise(rates[4:]))
    assert made["lr_scheduler"]["interval"] == "step"


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_out_of_its_range_is_named(share):
    with pytest.raises(ValueError, match=f"warmup={share} is not within 0 .. 1"):
        Sampled(nn.Linear(5, 2), warmup=share)
    check_share("warmup", 0.0)


def test_the_tasks_have_the_names_that_configs_write():
    assert {
        "classification": Classification,
        "labeling": Labeling,
        "recognition": Recognition,
        "transcription": Transcription,
    } == TASKS
    judged_by = {name: (task.monitor, task.mode) for name, task in TASKS.items()}
    assert judged_by["classification"] == judged_by["labeling"] == ("val_accuracy", "max")
    assert judged_by["recognition"] == judged_by["transcription"] == ("val_error_rate", "min")
