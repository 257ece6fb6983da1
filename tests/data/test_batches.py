"""Batches: every image once an epoch, the same again for the same seed and epoch, shared out among processes."""

import numpy
import pytest
import torch

from vitspeech.data.batches import Batches, held_out
from vitspeech.data.images.module import normalized
from vitspeech.data.images.shapes import Shapes


def test_an_epoch_shows_every_image_at_most_once_and_only_whole_batches():
    batches = [indices for indices, _ in Batches(103, 10, seed=3, shuffle=True)]
    assert [len(indices) for indices in batches] == [10] * 10 == [10] * len(Batches(103, 10, shuffle=True))
    assert len(torch.cat(batches).unique()) == 100


def test_evaluation_shows_every_image_once_in_order():
    batches = [indices for indices, _ in Batches(103, 10, shuffle=False)]
    assert torch.cat(batches).tolist() == list(range(103))
    assert len(batches) == len(Batches(103, 10, shuffle=False)) == 11


def drawn(seed: int, epoch: int) -> list:
    batches = Batches(60, 7, seed=seed, shuffle=True)
    batches.set_epoch(epoch)
    return [(indices.tolist(), batch_seed) for indices, batch_seed in batches]


def test_order_and_seeds_follow_from_seed_and_epoch_alone():
    assert drawn(1, 5) == drawn(1, 5)
    assert drawn(1, 5) != drawn(1, 6) and drawn(1, 5) != drawn(2, 5)


def test_every_batch_has_a_seed_of_its_own():
    seeds = [seed for run in (1, 2) for epoch in range(20) for _, seed in drawn(run, epoch)]
    assert len(set(seeds)) == len(seeds)


def test_processes_share_an_epoch_without_overlap(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    shares, seeds = [], []
    for rank in range(3):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        for indices, seed in Batches(100, 11, seed=2, shuffle=True):
            shares.append(indices)
            seeds.append(seed)
    assert len(shares) == 9 and len(torch.cat(shares).unique()) == 99
    assert len(set(seeds)) == 9


def test_a_batch_larger_than_the_training_set_is_refused():
    with pytest.raises(ValueError, match="batch=11 is more than the 10 training items"):
        Batches(10, 11, shuffle=True)


def test_held_out_images_are_the_same_every_time_and_disjoint():
    train, validation = held_out(101, 17)
    assert len(validation) == 17
    assert sorted(train.tolist() + validation.tolist()) == list(range(101))
    assert torch.equal(validation, held_out(101, 17)[1])


def test_held_out_leaves_something_to_train_on():
    with pytest.raises(ValueError, match=r"validation=10 is not within 1\.\.9"):
        held_out(10, 10)


def test_normalized_is_the_textbook_formula():
    images = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8)
    mean, std = (0.1, 0.5, 0.7), (0.2, 0.3, 0.4)
    expected = (images.numpy() / 255 - numpy.reshape(mean, (3, 1, 1))) / numpy.reshape(std, (3, 1, 1))
    assert torch.allclose(normalized(images, mean, std).double(), torch.from_numpy(expected), atol=1e-5)


def test_training_batches_are_augmented_and_validation_batches_are_not():
    class Training:
        training = True

    data = Shapes(100, batch=50)
    data.setup("fit")
    data.trainer = Training()
    batch = next(iter(data.train_dataloader()))
    first, again = (data.on_after_batch_transfer(batch, 0)[0] for _ in range(2))
    assert torch.equal(first, again)  # the batch carries its own seed
    assert not torch.equal(first, data.normalized(batch[0]))
    data.trainer.training = False
    assert torch.equal(data.on_after_batch_transfer(batch, 0)[0], data.normalized(batch[0]))


def test_a_batch_below_one_is_refused():
    with pytest.raises(ValueError, match="batch=0 is below 1"):
        Shapes(100, batch=0)
