"""The base class of data sets: augmentation in training only, by the seed of each batch."""

import pytest
import torch
from torch.utils.data import TensorDataset

from vitspeech.data import Items, UtteranceData, WaveformData
from vitspeech.data.images.shapes import Shapes


def test_training_batches_are_augmented_and_validation_batches_are_not():
    class Training:
        training = True

    data = Shapes(100, batch=50)
    data.setup("fit")
    data.trainer = Training()
    batch = next(iter(data.train_dataloader()))
    first, again = (data.on_after_batch_transfer(batch, 0)[0] for _ in range(2))
    assert torch.equal(first, again)  # the batch carries its own seed
    assert not torch.equal(first, data.normalize(batch[0]))
    data.trainer.training = False
    assert torch.equal(data.on_after_batch_transfer(batch, 0)[0], data.normalize(batch[0]))


def test_a_batch_below_one_is_refused():
    with pytest.raises(ValueError, match="batch=0 is below 1"):
        Shapes(100, batch=0)


class OwnImages(Shapes):
    """The shapes as a data set of a user's own reads them, who knows torch's `TensorDataset`."""

    def read(self, split):
        items = super().read(split)
        return TensorDataset(items.inputs, items.labels)


@pytest.mark.parametrize(
    ("use", "split"), [(lambda data: data.setup("fit"), "test"), (lambda data: data.test_dataloader(), "test")]
)
def test_a_data_set_that_gives_no_batches_is_refused_in_one_line(use, split):
    with pytest.raises(ValueError, match=rf"OwnImages.read\('{split}'\) returns .*TensorDataset.* vitspeech.Items"):
        use(OwnImages(100, batch=50))


class NoImages(Shapes):
    def read(self, split):
        return Items(torch.zeros(0, 3, 32, 32, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64))


def test_an_empty_split_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"NoImages.read\('train'\) returns no items"):
        NoImages(100, batch=50).setup("fit")


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
