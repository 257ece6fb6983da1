"""One entry for each item of a test set: in the order of the items, whatever processes divide it."""

import pytest
import torch

from vitspeech.data.batches import Batches
from vitspeech.evaluation.report import per_item


def tens(batch):
    return [10 * index for index in batch[0].tolist()]


@pytest.mark.parametrize(("count", "batch", "ranks"), [(10, 4, 3), (7, 3, 2), (9, 1, 4), (4, 500, 4), (1001, 500, 2)])
def test_entries_have_the_order_of_the_items_in_every_process(monkeypatch, count, batch, ranks):
    def become(rank):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)

    def gather(parts, own):
        parts[:] = [[entry for batch in loader for entry in tens(batch)] for loader in loaders]
        assert own in parts

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: ranks)
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    loaders = []
    for rank in range(ranks):
        become(rank)
        loaders.append(list(Batches(count, batch, shuffle=False)))
    for rank, loader in enumerate(loaders):
        become(rank)
        assert per_item(loader, tens, progress=False) == [10 * index for index in range(count)]


def test_one_process_has_its_entries_as_they_are():
    assert per_item(Batches(5, 2, shuffle=False), tens, progress=False) == [0, 10, 20, 30, 40]
