"""The figure of the confusion matrix: its texts, and whether they can be read."""

from itertools import pairwise

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from vitspeech.evaluation.confusion import LARGEST_MATRIX, MOST_NAMED, draw_confusion_matrix


@pytest.fixture
def drawn(figures, tmp_path):
    """Draws, and gives the figure that was saved."""

    def draw(counts, labels):
        draw_confusion_matrix(counts, labels, tmp_path / "out.png", items="clips")
        assert (tmp_path / "out.png").stat().st_size > 5000
        return figures[-1]

    return draw


def counts_of(classes):
    """Class 0 is taken 5 times for class 1, class 1 twice for the last one; all else is right."""
    counts = torch.eye(classes, dtype=torch.long) * 20
    counts[0, 1], counts[1, -1] = 5, 2
    return counts


@pytest.mark.parametrize("classes", [3, 40, 100])
def test_labels_do_not_overlap(classes, drawn):
    labels = [f"class number {index}" for index in range(classes)]
    figure = drawn(counts_of(classes), labels)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [label.get_window_extent(renderer) for label in figure.axes[0].get_yticklabels()]
    assert len(boxes) == classes
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))
    numbers = figure.axes[0].texts
    assert bool(numbers) == (classes <= 40)
    cell = figure.axes[0].get_window_extent(renderer).width / classes
    assert all(text.get_window_extent(renderer).width < cell for text in numbers)


def test_each_class_has_its_accuracy_and_the_most_confused_pairs_come_first(drawn):
    classes = 12
    figure = drawn(counts_of(classes), [f"c{index}" for index in range(classes)])
    accuracies = [text.get_text() for text in figure.axes[1].texts]
    assert accuracies == ["80.0", "90.9", *["100.0"] * (classes - 2)]
    pairs = [text.get_text() for text in figure.axes[2].texts]
    assert pairs == ["5 (20.0 %)", "c0 → c1", "2 (9.1 %)", f"c1 → c{classes - 1}"]


def test_a_class_without_items_has_no_accuracy_and_no_confusion_is_said(drawn):
    figure = drawn(torch.diag(torch.tensor([3, 0])), ["yes", "no"])
    assert [text.get_text() for text in figure.axes[1].texts] == ["100.0", "no items"]
    assert [text.get_text() for text in figure.axes[2].texts] == ["none"]


def test_dollar_signs_are_no_mathematics_and_long_names_are_shortened(drawn):
    figure = drawn(counts_of(3), ["a$_{$", "$x$", "x" * 80])
    shown = [label.get_text().replace(r"\$", "$") for label in figure.axes[0].get_yticklabels()]
    assert shown == ["a$_{$", "$x$", "x" * 23 + "…"]


def test_the_figure_of_many_classes_does_not_grow(drawn):
    classes = MOST_NAMED + 1
    figure = drawn(counts_of(classes), [f"c{number}" for number in range(classes)])
    assert figure.get_figheight() == pytest.approx(LARGEST_MATRIX) and len(figure.axes) == 2
    assert not figure.axes[0].get_xticklabels() and figure.axes[1].texts


def test_one_class_is_drawn(drawn):
    figure = drawn(torch.tensor([[4]]), ["yes"])
    assert [text.get_text() for text in figure.axes[1].texts] == ["100.0"]
