"""Batches: every item once per epoch, the same for the same seed and epoch, divided among processes."""

import pytest
import torch

from vitspeech.data.batches import Batches, Items


def test_an_epoch_shows_every_image_at_most_once_and_only_whole_batches():
    batches = [indices for indices, _ in Batches(103, 10, seed=3, shuffle=True)]
    assert [len(indices) for indices in batches] == [10] * 10 == [10] * len(Batches(103, 10, shuffle=True))
    assert len(torch.cat(batches).unique()) == 100


def test_evaluation_shows_every_image_once_in_order():
    batches = [indices for indices, _ in Batches(103, 10, shuffle=False)]
    assert torch.cat(batches).tolist() == list(range(103))
    assert len(batches) == len(Batches(103, 10, shuffle=False)) == 11


def batches_of(seed: int, epoch: int) -> list:
    batches = Batches(60, 7, seed=seed, shuffle=True)
    batches.set_epoch(epoch)
    return [(indices.tolist(), batch_seed) for indices, batch_seed in batches]


def test_order_and_seeds_depend_only_on_seed_and_epoch():
    assert batches_of(1, 5) == batches_of(1, 5)
    assert batches_of(1, 5) != batches_of(1, 6) and batches_of(1, 5) != batches_of(2, 5)


def test_every_batch_has_a_different_seed():
    seeds = [seed for run in (1, 2) for epoch in range(20) for _, seed in batches_of(run, epoch)]
    assert len(set(seeds)) == len(seeds)


def test_processes_share_an_epoch_without_overlap(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    parts, seeds = [], []
    for rank in range(3):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        for indices, seed in Batches(100, 11, seed=2, shuffle=True):
            parts.append(indices)
            seeds.append(seed)
    assert len(parts) == 9 and len(torch.cat(parts).unique()) == 99
    assert len(set(seeds)) == 9


def test_a_batch_larger_than_the_training_set_is_refused():
    with pytest.raises(ValueError, match="batch=11 is more than the 10 training items"):
        Batches(10, 11, shuffle=True)


@pytest.mark.parametrize(("labels", "speakers"), [(9, None), (10, ["a"])])
def test_items_of_unequal_numbers_are_refused(labels, speakers):
    with pytest.raises(ValueError, match=f"10 inputs, {labels} labels"):
        Items(torch.zeros(10, 3), torch.zeros(labels, dtype=torch.int64), speakers)
