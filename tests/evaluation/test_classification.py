"""Accuracy, its interval, and the confusion matrix with the table of its classes."""

import csv
from types import SimpleNamespace

import pytest
import torch

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.data import Shapes
from vitspeech.evaluation import classification
from vitspeech.evaluation.classification import describe, evaluate, item_names, metrics
from vitspeech.evaluation.confusion import write_confusion
from vitspeech.evaluation.report import accuracy_interval
from vitspeech.metrics.intervals import wilson_interval


def test_rows_are_true_labels_and_the_diagonal_is_right(finished_run, tmp_path, monkeypatch):
    model, data, drawn = vitspeech.load(finished_run), Shapes(250), []
    monkeypatch.setattr(classification, "write_confusion", lambda counts, *_, **__: drawn.append(counts))
    report = evaluate(model.network, data, progress=False)
    report.write(tmp_path)
    (counts,) = drawn
    test = data.read("test")
    given = model.network(data.normalize(test.inputs)).argmax(1)
    assert torch.equal(counts.sum(1), torch.bincount(test.labels, minlength=10))
    assert torch.equal(counts.sum(0), torch.bincount(given, minlength=10))
    assert report.headline == ("test_accuracy", (given == test.labels).double().mean().item())
    assert counts.trace() == (given == test.labels).sum()


class Clips:
    """The attributes of a data module that `metrics` reads."""

    items, labels, words = "clips", ["go", "stop", "unknown", "silence"], ["go", "stop"]


COUNTS = torch.tensor([[8, 1, 1, 0], [0, 5, 4, 1], [3, 2, 0, 0], [0, 0, 0, 5]])
PAIRS = [tensor.repeat_interleave(COUNTS.flatten()) for tensor in (torch.arange(16) // 4, torch.arange(16) % 4)]


def test_word_accuracy_counts_only_words():
    found = metrics(*PAIRS, Clips)
    assert found["test_accuracy"] == 18 / 30 and found["clips"] == 30
    assert found["word_accuracy"] == 13 / 20 and found["word_clips"] == 20
    assert found["word_interval_95"] == [round(side, 4) for side in wilson_interval(13 / 20, 20)]


def test_parts_of_a_set_have_an_accuracy_of_their_own():
    # Two clips of `unknown` that are taken for words, and one of `silence`.
    found = metrics(*PAIRS, Clips, parts={"unheard": [20, 21, 25]})
    assert (found["unheard_accuracy"], found["unheard_clips"]) == (1 / 3, 3)
    assert found["unheard_interval_95"] == [round(side, 4) for side in wilson_interval(1 / 3, 3)]
    assert "unheard_accuracy 0.3333" in describe(found) and ", 3 clips)" in describe(found)


def test_intervals_resample_speakers_where_they_are_known():
    # Of six speakers each is right in all clips or in none: six trials, however many clips each speaks.
    labels, speakers = torch.arange(240) % 2, [f"speaker {number // 40}" for number in range(240)]
    predictions = torch.where(torch.arange(240) < 120, labels, 3)
    found = metrics(labels, predictions, Clips, speakers)
    assert (found["interval_over"], found["speakers"]) == ("speakers", 6)
    assert found["test_accuracy"] == 0.5 and found["interval_95"] == [0.1667, 0.8333]
    assert found["word_interval_95"] == found["interval_95"]
    assert describe(found).endswith("; interval over 6 speakers")
    apart = metrics(labels, predictions, Clips)
    assert apart["interval_95"] == [round(side, 4) for side in wilson_interval(0.5, 240)]
    assert apart["interval_over"] == "clips" and describe(apart).endswith("; interval over clips (speakers unknown)")


def test_without_an_error_the_interval_is_wilsons_over_speakers():
    labels, speakers = torch.zeros(100, dtype=torch.long), [str(number % 8) for number in range(100)]
    found = metrics(labels, labels, Clips, speakers)
    assert found["interval_95"] == [round(side, 4) for side in wilson_interval(1.0, 8)]


def test_one_speaker_alone_gives_an_interval_over_clips():
    found = metrics(*PAIRS, Clips, ["eve"] * 30)
    assert found["interval_95"] == metrics(*PAIRS, Clips)["interval_95"]
    assert describe(found).endswith("; interval over clips (one speaker)")


def test_speakers_are_those_of_the_test_set(finished_speech_run):
    model = vitspeech.load(finished_speech_run)
    data = card_dataset(model, None)
    items = data.read("test")
    assert len(items) == 24 and items.speakers[-2:] == ["hiss"] * 2 and items.speakers[0].startswith("en")
    found = evaluate(model.network, data, progress=False).metrics
    assert (found["interval_over"], found["speakers"]) == ("speakers", len(set(items.speakers)))
    items.speakers = items.speakers[1:]
    data.read = lambda split: items
    with pytest.raises(ValueError, match="the test set has 23 speakers for 24 items"):
        evaluate(model.network, data, progress=False)


def test_groups_without_trials_are_left_out():
    interval = accuracy_interval(torch.tensor([1, 3]), torch.tensor([2, 4]), ["a", "c"])
    assert interval == (0.5, 0.75)  # a resample of only one group occurs in one of four
    assert accuracy_interval(torch.tensor([1, 0, 3]), torch.tensor([2, 0, 4]), ["a", "b", "c"]) == interval
    right, groups = torch.tensor([2, 0, 4]), ["a", "b", "c"]
    assert accuracy_interval(right, right, groups) == wilson_interval(1.0, 2)
    assert accuracy_interval(torch.tensor([1, 0]), torch.tensor([2, 0]), ["a", "b"]) == wilson_interval(0.5, 2)
    assert accuracy_interval(torch.tensor([0.0]), torch.tensor([0.5]), None) == wilson_interval(0.0, 1)


@pytest.mark.parametrize(
    ("names", "count", "broken", "expected"),
    [
        (["a", "b"], 2, 0.0, ["a", "b"]),
        (["a", "b"], 3, 0.0, ["a", "b", None]),  # clips of silence come last and have no names
        (["a", "b"], 2, 0.5, ["a", "b"]),
        (["a", "b"], 3, 0.5, [None] * 3),  # a broken file may have been left out
        (["a", "b"], 1, 0.0, [None]),
        ([], 2, 0.0, [None, None]),
    ],
)
def test_items_have_their_names_where_it_is_certain_whose_they_are(names, count, broken, expected):
    data = SimpleNamespace(item_names=lambda: {"test": names}, broken=broken)
    assert item_names(data, count) == expected


def test_the_table_has_each_class_with_its_accuracy_and_what_it_is_confused_with(tmp_path):
    counts = torch.tensor([[7, 1, 2], [0, 5, 0], [0, 0, 0]])
    figure = write_confusion(counts, ["yes, or so", "a$_{$", "no"], tmp_path, "clips")
    assert figure == tmp_path / "confusion_matrix.png" and figure.exists()
    with (tmp_path / "classes.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == ["yes, or so", "a$_{$", "no"]
    assert [row["items"] for row in rows] == ["10", "5", "0"] and [row["correct"] for row in rows] == ["7", "5", "0"]
    assert [row["accuracy"] for row in rows] == ["0.7000", "1.0000", ""]
    assert [row["predicted"] for row in rows] == ["7", "6", "2"]
    assert [row["most_confused_with"] for row in rows] == ["no", "", ""]
    assert [row["confused"] for row in rows] == ["2", "0", "0"]
