"""The base class of data sets: augmentation in training only, by the seed of each batch."""

import pytest
import torch

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
