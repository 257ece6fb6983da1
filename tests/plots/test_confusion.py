"""The figure of the confusion matrix."""

import pytest
import torch

from vitspeech.plots.confusion import draw_confusion_matrix


@pytest.mark.parametrize("classes", [3, 30])
def test_a_confusion_matrix_is_drawn_for_few_and_many_classes(classes, tmp_path):
    labels = [f"class {index}" for index in range(classes)]
    draw_confusion_matrix(torch.eye(classes, dtype=torch.long) * 7, labels, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 5000
