"""Batches: every item once per epoch, the same for the same seed and epoch, divided among processes."""

import pytest
import torch

from vitspeech.data.batches import Batches, collate


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


def parts(monkeypatch, ranks: int, count: int, batch: int, **options) -> list[list]:
    """The batches of each of several processes."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: ranks)
    parts = []
    for rank in range(ranks):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        parts.append(list(Batches(count, batch, **options)))
    return parts


@pytest.mark.parametrize(("ranks", "accumulate"), [(1, 1), (1, 3), (2, 1), (3, 1), (2, 3), (6, 2)])
def test_an_optimizer_step_has_the_same_items_whatever_divides_it(monkeypatch, ranks, accumulate):
    whole = [sorted(indices.tolist()) for indices, _ in Batches(100, 12, seed=2, shuffle=True)]
    divided = parts(monkeypatch, ranks, 100, 12, seed=2, shuffle=True, accumulate=accumulate)
    assert {len(batches) for batches in divided} == {8 * accumulate}
    for step, items in enumerate(whole):
        micro_batches = [
            indices for batches in divided for indices, _ in batches[step * accumulate : (step + 1) * accumulate]
        ]
        assert {len(indices) for indices in micro_batches} == {12 // (ranks * accumulate)}
        assert sorted(torch.cat(micro_batches).tolist()) == items
    seeds = [seed for batches in divided for _, seed in batches]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(("count", "batch", "ranks"), [(10, 4, 3), (7, 3, 2), (9, 1, 4), (4, 500, 4), (1001, 500, 2)])
def test_processes_divide_an_evaluation_into_the_same_number_of_batches(monkeypatch, count, batch, ranks):
    divided = parts(monkeypatch, ranks, count, batch, shuffle=False)
    assert len({len(batches) for batches in divided}) == 1
    assert all(len(indices) for batches in divided for indices, _ in batches)
    items = [[index for indices, _ in batches for index in indices.tolist()] for batches in divided]
    assert items == [list(range(count))[rank::ranks] for rank in range(ranks)]


def test_fewer_items_than_processes_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="2 items cannot be divided among 3 processes"):
        parts(monkeypatch, 3, 2, 500, shuffle=False)


@pytest.mark.parametrize("begin", [0, 1, 5, 8])
def test_an_epoch_that_begins_within_it_goes_on_as_the_whole_one(begin):
    whole, rest = (Batches(60, 14, seed=4, shuffle=True, accumulate=2) for _ in range(2))
    whole.set_epoch(3)
    rest.begin_at(3, begin)
    assert len(rest) == len(whole) == 8
    assert [(i.tolist(), seed) for i, seed in rest] == [(i.tolist(), seed) for i, seed in whole][begin:]
    for batches in (whole, rest):
        batches.set_epoch(4)
    assert [(i.tolist(), seed) for i, seed in rest] == [(i.tolist(), seed) for i, seed in whole]


@pytest.mark.parametrize(
    ("batch", "ranks", "accumulate", "message"),
    [
        (11, 1, 1, "batch=11 is more than the 10 training items"),
        (9, 2, 1, "batch=9, .* among 2 processes with 1 .*: take a multiple of 2"),
        (9, 1, 4, "batch=9, .* among 1 processes with 4 accumulated batches: take a multiple of 4"),
        (10, 2, 4, "batch=10, .* among 2 processes with 4 accumulated batches: take a multiple of 8"),
    ],
)
def test_a_step_that_cannot_be_divided_is_refused(batch, ranks, accumulate, message):
    with pytest.raises(ValueError, match=message):
        Batches(10, batch, shuffle=True, ranks=ranks, accumulate=accumulate)


def test_utterances_of_a_batch_are_padded_at_the_ends():
    sounds = [torch.arange(1, length + 1, dtype=torch.int16) for length in (7, 9)]
    speech = collate(sounds, [[5, 0, 7, 7, 2], [3]], [[(1, 4)], [(0, 2), (3, 5), (5, 9)]])
    assert speech.waveforms.dtype == torch.int16
    assert speech.waveforms.tolist() == [[*range(1, 8), 0, 0], [*range(1, 10)]] and speech.lengths.tolist() == [7, 9]
    assert speech.units.tolist() == [[5, 0, 7, 7, 2], [3, -1, -1, -1, -1]]
    assert speech.spans.tolist() == [[[1, 4], [0, 0], [0, 0]], [[0, 2], [3, 5], [5, 9]]]
    assert {part.dtype for part in speech[1:]} == {torch.int64}
