"""The table of the classes beside the confusion matrix."""

import csv

import torch

from vitspeech.evaluation.classification import write_confusion


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
