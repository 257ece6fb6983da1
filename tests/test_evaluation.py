"""Accuracy, its interval, and the confusion matrix."""

import pytest
import torch

import vitspeech
from vitspeech.data import Shapes
from vitspeech.evaluation import accuracy, confusion_matrix, wilson_interval


def test_rows_are_true_labels_and_the_diagonal_is_right(finished_run):
    model, data = vitspeech.load(finished_run), Shapes(250)
    counts = confusion_matrix(model.network, data, progress=False)
    test = data.read("test")
    given = model.network(data.normalised(test.inputs)).argmax(1)
    assert torch.equal(counts.sum(1), torch.bincount(test.labels, minlength=10))
    assert torch.equal(counts.sum(0), torch.bincount(given, minlength=10))
    assert accuracy(counts) == (given == test.labels).double().mean().item()


def test_the_interval_is_wilsons():
    # Worked by hand for 10 of 20: centre 0.5, half-width 1.96 √(0.25/20 + 3.8415/1600) / (1 + 3.8415/20).
    assert wilson_interval(0.5, 20) == pytest.approx((0.29930, 0.70070), abs=1e-4)
    low, high = wilson_interval(1.0, 10)
    assert high == pytest.approx(1) and low == pytest.approx(0.7225, abs=1e-4)
