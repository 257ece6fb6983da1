"""The base class of data sets: augmentation in training only, by the seed of each batch."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils.data import TensorDataset

from vitspeech.data import TensorItems, UtteranceData, WaveformData
from vitspeech.data.images.shapes import Shapes
from vitspeech.errors import InputError


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (lambda augment: Shapes(100, augment=augment), "Augment"),
        (lambda augment: WaveformData(seconds=1, augment=augment), "WaveformAugment"),
        (lambda augment: UtteranceData(augment=augment), "SequenceAugment"),
    ],
)
def test_an_augmentation_of_another_class_is_refused_in_one_line(made, kind):
    with pytest.raises(
        ValueError, match=f"augment is a dict, not a vitspeech.data.{kind}; annotate .*`augment: {kind} "
    ):
        made({"flip": True})


class Broken(Shapes):
    """The shapes, but one split is what a mistake makes of it."""

    def __init__(self, split, change):
        super().__init__(100, batch=50)
        self.split, self.change = split, change

    def read(self, split):
        items = super().read(split)
        return self.change(items) if split == self.split else items


MISTAKES = {
    "nothing": (lambda items: None, "returns no items; it must return a data set"),
    "an empty set": (lambda items: TensorItems(items.inputs[:0], items.labels[:0]), "returns no items"),
    "single items": (lambda items: TensorDataset(items.inputs, items.labels), "TensorDataset.* vitspeech.TensorItems"),
    "too many classes": (lambda items: TensorItems(items.inputs, items.labels + 7), "not indices .* within 0 .. 9"),
    "labels that are floats": (lambda items: TensorItems(items.inputs, items.labels.float()), "are not indices"),
    "one-hot labels": (lambda items: TensorItems(items.inputs, torch.eye(12)[items.labels].long()), "are not indices"),
}


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize(("change", "message"), MISTAKES.values(), ids=MISTAKES)
def test_every_split_is_checked_before_training(change, message, split):
    with pytest.raises(InputError, match=rf"Broken\.read\('{split}'\):? ?.*{message}"):
        Broken(split, change).setup("fit")


ZERO_WIDTH = "\N{ZERO WIDTH SPACE}"


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (["Cat", "cat", "dog"], "'Cat' and 'cat'"),
        (["lamp", f"lamp{ZERO_WIDTH}", "LAMP"], r"'lamp' and 'lamp\\u200b' and 'LAMP'"),
        (["größe", "gro\u0308ße", "GRÖSSE"], "'größe' and"),
        (["a ", "a"], "'a ' and 'a'"),
        (["A", "a", " ", ZERO_WIDTH], r": '\\u200b';"),
        (["A", "a"], None),
        (["▁He", "▁he", "r"], None),
    ],
)
def test_labels_that_look_alike_are_named(labels, named):
    data = Shapes(50)
    data.labels = [*labels, *map(str, range(10))]
    with pytest.warns(UserWarning, match=named) if named else nullcontext():
        data.setup("fit")
