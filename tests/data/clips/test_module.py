"""Data sets of clips: batches, augmentation by the batch's seed, preprocessing, wrong arguments."""

import torch

from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.module import WaveformData


def only(**settings):
    """An augmentation that does nothing but what it is told to."""
    return WaveformAugment(**{"shift_ms": 0, "speed": 0, "noise_prob": 0, "synthetic": 0, "gain_db": 0} | settings)


class Numbers(WaveformData):
    """Clips of noise, labeled by their number."""

    labels = ["low", "high"]

    def __init__(self, *, seconds=0.1, batch=37, augment=None, seed=0):
        super().__init__(seconds=seconds, batch=batch, augment=augment, seed=seed)

    def read(self, split):
        generator = torch.Generator().manual_seed(len(split))
        counts = {"train": 83, "validation": 41, "test": 43}
        inputs = torch.randint(-9000, 9000, (counts[split], self.samples), dtype=torch.int16, generator=generator)
        return TensorItems(inputs, torch.arange(counts[split]) % 2)


class Stage:
    training = True


def fitted(**arguments):
    data = Numbers(**arguments)
    data.setup("fit")
    data.trainer = Stage()
    return data


def test_training_batches_are_augmented_and_validation_batches_are_not():
    data = fitted()
    batch = next(iter(data.train_dataloader()))
    first, again = (data.on_after_batch_transfer(batch, 0)[0] for _ in range(2))
    assert torch.equal(first, again)  # the batch carries its own seed
    assert not (first == data.normalize(batch[0])).all(1).any()
    data.trainer.training = False
    for held in (batch, *data.val_dataloader(), *data.test_dataloader()):
        inputs, labels = data.on_after_batch_transfer(held, 0)
        assert inputs.tolist() == (held[0].numpy() / 2**15).tolist() and torch.equal(labels, held[1])


def test_the_augmentation_given_is_the_one_used_with_the_sets_rate_and_noise():
    data = fitted(augment=only(noise_prob=1, noise_snr_db=(0, 0)))
    assert WaveformAugment() == Numbers().augment
    data.noise = torch.zeros(1600, dtype=torch.int16)
    data.noise[800] = 9000
    inputs = data.train.inputs[:37]
    added = data.training_batch(inputs, data.train.labels[:37], 0)[0] - data.normalize(inputs)
    assert (added.abs() > 1e-3).sum(1).tolist() == [1] * 37 and (added[:, 800] > 1).all()
    data.augment = only(shift_ms=10)
    ones = torch.full((37, 1600), 9000, dtype=torch.int16)
    silent = (data.training_batch(ones, data.train.labels[:37], 0)[0] == 0).sum(1)
    assert 130 < silent.max() <= 160  # 10 ms at 16 kHz
