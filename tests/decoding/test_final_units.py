"""Units that are taken off a search: the same result as without, and memory that does not grow."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw

from vitspeech.decoding.ctc import GreedySearch, PrefixBeamSearch
from vitspeech.decoding.final_units import take_final
from vitspeech.decoding.paths import Prefix

SEARCHES = {"greedy": GreedySearch, "two": lambda: PrefixBeamSearch(2), "eight": lambda: PrefixBeamSearch(8)}


def rows(tokens, *, sharpness, classes=5, seed=0):
    """Log-probabilities of random tokens, of which many are blanks."""
    logits = sharpness * torch.randn(tokens, classes, generator=torch.Generator().manual_seed(seed))
    logits[:, -1] += sharpness / 2
    return logits.log_softmax(-1)


def as_units(nodes):
    return [(node.unit, (node.first, node.end)) for node in nodes]


def whole(search, log_probs):
    search.push(log_probs)
    best = search.best()
    return list(zip(best.units, best.spans, strict=True)), best.log_probability


@settings(deadline=None, max_examples=60)
@given(
    name=draw.sampled_from(list(SEARCHES)),
    tokens=draw.integers(1, 120),
    size=draw.integers(1, 30),
    sharpness=draw.floats(0.5, 6),
    seed=draw.integers(0, 99),
)
def test_units_taken_off_and_the_rest_are_those_of_the_whole(name, tokens, size, sharpness, seed):
    log_probs = rows(tokens, sharpness=sharpness, seed=seed)
    search, taken = SEARCHES[name](), []
    for part in log_probs.split(size):
        search.push(part)
        taken += as_units(take_final(search))
    best = search.best()
    found = [*taken, *zip(best.units, best.spans, strict=True)], best.log_probability
    assert found == whole(SEARCHES[name](), log_probs)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_keeps_few_units_and_finds_what_is_as_probable(name):
    search, taken, kept, log_probs = SEARCHES[name](), [], 0, rows(5_000, sharpness=4)
    for part in log_probs.split(50):
        search.push(part)
        taken += as_units(take_final(search, longest=100))
        kept = max(kept, len(search.best().units))
    assert len(taken) > 2000 and kept < 120
    if isinstance(search, PrefixBeamSearch):
        assert len(search.extensions) < 300 and depth(search.prefixes[0]) < 150
    best = search.best()
    expected, log_probability = whole(SEARCHES[name](), log_probs)
    if name == "greedy":
        assert [*taken, *zip(best.units, best.spans, strict=True)] == expected
    # Hypotheses that were dropped leave their places in the beam to others.
    assert best.log_probability >= log_probability - 1e-9 * abs(log_probability)


def test_hypotheses_of_equal_probability_stay_unless_they_are_dropped():
    tie, blank = [0.49, 0.02, 0.49], [0.01, 0.01, 0.98]
    log_probs = torch.tensor([tie, *[blank, [0.02, 0.96, 0.02]] * 50, blank]).log()
    search = PrefixBeamSearch(2)
    search.push(log_probs)
    assert take_final(search) == [] and len(search.best().units) >= 50
    count = len(search.best().units)
    assert len(take_final(search, longest=20)) == count - 1 and len(search.prefixes) == 1


def depth(prefix: Prefix) -> int:
    """The prefix and those before it."""
    count = 0
    while prefix is not None:
        prefix, count = prefix.parent, count + 1
    return count


@pytest.mark.parametrize("name", SEARCHES)
def test_a_long_history_is_taken_off_at_once(name):
    search = SEARCHES[name]()
    log_probs = torch.full((12_000, 3), 0.005)
    log_probs[torch.arange(12_000), torch.arange(12_000) % 3] = 0.99  # two units and a blank, in turns
    expected = whole(search, log_probs.log())
    taken = as_units(take_final(search, longest=10))
    best = search.best()
    assert ([*taken, *zip(best.units, best.spans, strict=True)], best.log_probability) == expected
    assert len(taken) > 7_900 and len(best.units) < 20


def test_a_unit_that_the_next_token_may_extend_is_not_final():
    search = GreedySearch()
    search.push(torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]]).log())
    assert [node.unit for node in take_final(search)] == [0] and search.best().units == (1,)
    assert take_final(search) == []
    search.push(torch.tensor([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]).log())
    assert as_units(take_final(search)) == [(1, (1, 3))] and search.best().units == ()


def test_units_before_the_point_where_hypotheses_differ_are_final():
    first, second, blank, tie = [0.96, 0.02, 0.02], [0.02, 0.96, 0.02], [0.02, 0.02, 0.96], [0.49, 0.02, 0.49]
    search = PrefixBeamSearch(2)
    search.push(torch.tensor([first, blank, second, blank, tie]).log())
    assert {found.units for found in search.hypotheses()} == {(0, 1), (0, 1, 0)}
    assert [node.unit for node in take_final(search)] == [0]
    assert {found.units for found in search.hypotheses()} == {(1,), (1, 0)}
