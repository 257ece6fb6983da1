"""Accuracy, its interval, and the confusion matrix."""

import pytest
import torch

import vitspeech
from vitspeech.data import Shapes
from vitspeech.evaluation.classification import accuracy, confusion_matrix, describe, metrics, wilson_interval


def test_rows_are_true_labels_and_the_diagonal_is_right(finished_run):
    model, data = vitspeech.load(finished_run), Shapes(250)
    counts = confusion_matrix(model.network, data, progress=False)
    test = data.read("test")
    given = model.network(data.normalize(test.inputs)).argmax(1)
    assert torch.equal(counts.sum(1), torch.bincount(test.labels, minlength=10))
    assert torch.equal(counts.sum(0), torch.bincount(given, minlength=10))
    assert accuracy(counts) == (given == test.labels).double().mean().item()


def test_the_interval_is_wilsons():
    # Worked by hand for 10 of 20: center 0.5, half-width 1.96 √(0.25/20 + 3.8415/1600) / (1 + 3.8415/20).
    assert wilson_interval(0.5, 20) == pytest.approx((0.29930, 0.70070), abs=1e-4)
    low, high = wilson_interval(1.0, 10)
    assert high == pytest.approx(1) and low == pytest.approx(0.7225, abs=1e-4)


class Clips:
    """The attributes of a data module that `metrics` reads."""

    items, labels, words = "clips", ["go", "stop", "unknown", "silence"], ["go", "stop"]


COUNTS = torch.tensor([[8, 1, 1, 0], [0, 5, 4, 1], [3, 2, 0, 0], [0, 0, 0, 5]])


def test_word_accuracy_counts_only_words():
    found = metrics(COUNTS, Clips)
    assert found["test_accuracy"] == 18 / 30 and found["clips"] == 30
    assert found["word_accuracy"] == 13 / 20 and found["word_clips"] == 20
    assert found["word_interval_95"] == [round(side, 4) for side in wilson_interval(13 / 20, 20)]


def test_a_set_whose_labels_are_all_words_has_one_accuracy():
    found = metrics(COUNTS, Shapes(50))
    assert found.keys() == {"test_accuracy", "interval_95", "images"}


def test_the_text_has_each_accuracy_with_interval_and_number():
    text = describe(metrics(COUNTS, Clips))
    assert text.startswith("test_accuracy 0.6000 (0.4232 to 0.7541, 30 clips); word_accuracy 0.6500 (")
    assert text.endswith(", 20 clips)")
