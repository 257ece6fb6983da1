"""Batches by duration: every utterance once, within the budget, with little padding, the same on any processes."""

import pytest
import torch

from vitspeech.data.utterances.recorded import DurationBatches
from vitspeech.errors import InputError

DURATIONS = 1 + 14 * torch.rand(700, generator=torch.Generator().manual_seed(1)) ** 0.5


def made(**options) -> DurationBatches:
    return DurationBatches(DURATIONS, options.pop("seconds", 120.0), **{"seed": 3} | options)


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_every_utterance_is_in_one_batch_of_an_epoch_within_the_budget(epoch):
    batches = made()
    batches.set_epoch(epoch)
    indices = [part for part, _ in batches]
    assert sorted(torch.cat(indices).tolist()) == list(range(700)) and len(indices) == len(batches)
    assert all(len(part) * DURATIONS[part].max() <= 120 for part in indices)
    assert len({seed for _, seed in batches}) == len(batches)


def test_epochs_differ_and_a_seed_repeats_them():
    def epoch(seed, number):
        batches = made(seed=seed)
        batches.set_epoch(number)
        return [(part.tolist(), batch_seed) for part, batch_seed in batches]

    assert epoch(3, 2) == epoch(3, 2) != epoch(3, 1) and epoch(3, 2) != epoch(4, 2)


def test_an_epoch_begins_within_it():
    whole, rest = made(accumulate=2), made(accumulate=2)
    whole.set_epoch(5)
    rest.begin_at(5, 13)
    assert [(i.tolist(), s) for i, s in rest] == [(i.tolist(), s) for i, s in whole][13:]


@pytest.mark.parametrize(("ranks", "accumulate"), [(1, 2), (2, 1), (3, 2), (4, 1)])
def test_a_step_has_the_same_utterances_whatever_divides_it(monkeypatch, ranks, accumulate):
    whole = [sorted(part.tolist()) for part, _ in made()]
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: ranks)
    divided = []
    for rank in range(ranks):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        divided.append([part for part, _ in made(accumulate=accumulate)])
    assert {len(batches) for batches in divided} == {len(whole) * accumulate}
    for step, utterances in enumerate(whole):
        parts = [part for batches in divided for part in batches[step * accumulate : (step + 1) * accumulate]]
        assert sorted(torch.cat(parts).tolist()) == utterances
        assert max(map(len, parts)) - min(map(len, parts)) <= 1 <= min(map(len, parts))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 14.0}, r"batch_s=14 does not hold the longest utterance, 15\.0 s, at all: take at least 15"),
        ({"seconds": 40.0, "ranks": 3}, r"15\.0 s, for each of 3 parts of an optimizer step: take at least 45"),
    ],
)
def test_a_budget_below_the_longest_utterance_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        made(**options)


@pytest.mark.parametrize(("duration_s", "ranks"), [(4.8, 1), (1.1, 3), (0.7, 7)])
def test_a_budget_of_just_the_longest_utterances_is_enough(duration_s, ranks):
    durations = torch.full((2 * ranks,), duration_s, dtype=torch.float64)
    budget = round(ranks * duration_s, 1)
    assert [len(step) for step in DurationBatches(durations, budget, ranks=ranks).steps(0)] == [ranks] * 2
