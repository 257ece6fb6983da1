"""CTC searches compared with enumeration of all paths, and with the CTC loss of torch."""

import copy
import gc
import math
import pickle
import time
import weakref
from itertools import groupby, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw
from torch.nn import functional as F

from vitspeech.decoding.alignment import NoPathError, align, tokens_needed
from vitspeech.decoding.ctc import GreedySearch, PrefixBeamSearch
from vitspeech.decoding.paths import Hypothesis, Prefix, append, nodes_after

ALL_PREFIXES = 10_000


def log_probabilities(tokens, classes, seed, impossible=0.0, scale=2):
    """Random rows, in which some but never all classes are impossible."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(tokens, classes, generator=generator, dtype=torch.float64)
    is_impossible = torch.rand(tokens, classes, generator=generator) < impossible
    is_impossible[:, 0] &= ~is_impossible.all(-1)
    return logits.masked_fill(is_impossible, -math.inf).log_softmax(-1)


SMALL = {
    "tokens": draw.integers(0, 5),
    "classes": draw.integers(1, 4),
    "seed": draw.integers(0, 10**6),
    "impossible": draw.sampled_from([0.0, 0.3, 0.6]),
}


def every_path(log_probs):
    """Each path with its labeling and its log-probability."""
    tokens, classes = log_probs.shape
    rows = log_probs.tolist()
    for path in product(range(classes), repeat=tokens):
        units = tuple(unit for unit, _ in groupby(path) if unit != classes - 1)
        yield path, units, math.fsum(row[unit] for row, unit in zip(rows, path, strict=True))


def labelings(log_probs):
    """The log-probability of each possible labeling (sum over its paths), and that of its best path."""
    scores = {}
    for _, units, score in every_path(log_probs):
        if score > -math.inf:
            scores.setdefault(units, []).append(score)
    return {units: (torch.tensor(s, dtype=torch.float64).logsumexp(0).item(), max(s)) for units, s in scores.items()}


def score_of_spans(log_probs, hypothesis):
    """The log-probability of the path with the units in their spans, and blanks elsewhere."""
    path = [log_probs.shape[1] - 1] * len(log_probs)
    for unit, (first, end) in zip(hypothesis.units, hypothesis.spans, strict=True):
        assert first < end
        path[first:end] = [unit] * (end - first)
    merged = tuple(unit for unit, _ in groupby(path) if unit != log_probs.shape[1] - 1)
    assert merged == hypothesis.units
    return math.fsum(log_probs[token, unit].item() for token, unit in enumerate(path))


def run(search, log_probs, cuts=()):
    for part in log_probs.tensor_split(sorted(cuts)):
        search.push(part)
    return search


@settings(deadline=None, max_examples=120)
@given(**SMALL)
def test_a_beam_of_all_prefixes_finds_all_labelings_with_their_exact_probabilities(tokens, classes, seed, impossible):
    log_probs = log_probabilities(tokens, classes, seed, impossible)
    expected = labelings(log_probs)
    hypotheses = run(PrefixBeamSearch(ALL_PREFIXES), log_probs).hypotheses()
    assert {hypothesis.units for hypothesis in hypotheses} == set(expected)
    for hypothesis in hypotheses:
        total, highest = expected[hypothesis.units]
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-9)
        assert score_of_spans(log_probs, hypothesis) == pytest.approx(highest, abs=1e-9)
    scores = [hypothesis.log_probability for hypothesis in hypotheses]
    assert scores == sorted(scores, reverse=True)
    assert hypotheses[0].log_probability == pytest.approx(max(total for total, _ in expected.values()), abs=1e-9)
    assert sum(map(math.exp, scores)) == pytest.approx(1)


@settings(deadline=None, max_examples=80)
@given(**SMALL, beam=draw.integers(1, 5))
def test_a_narrow_beam_returns_lower_bounds_of_the_exact_probabilities(tokens, classes, seed, impossible, beam):
    log_probs = log_probabilities(tokens, classes, seed, impossible)
    expected = labelings(log_probs)
    hypotheses = run(PrefixBeamSearch(beam), log_probs).hypotheses()
    assert 1 <= len(hypotheses) <= beam
    assert len({hypothesis.units for hypothesis in hypotheses}) == len(hypotheses)
    for hypothesis in hypotheses:
        total, highest = expected.get(hypothesis.units, (-math.inf, -math.inf))
        assert hypothesis.log_probability <= total + 1e-9
        if hypothesis.log_probability > -math.inf:
            assert score_of_spans(log_probs, hypothesis) <= highest + 1e-9


@pytest.mark.parametrize("beam", [1, 8, 1000])
def test_probabilities_agree_with_the_ctc_loss_of_torch(beam):
    log_probs = log_probabilities(29, 5, seed=3, scale=6)
    hypotheses = run(PrefixBeamSearch(beam), log_probs).hypotheses()
    assert len(hypotheses) == beam
    for hypothesis in hypotheses[:3]:
        lengths = torch.tensor([29]), torch.tensor([len(hypothesis.units)])
        targets = torch.tensor([hypothesis.units])
        exact = -F.ctc_loss(log_probs[:, None], targets, *lengths, blank=4, reduction="none").item()
        assert hypothesis.log_probability <= exact + 1e-9
        assert align(log_probs, hypothesis.units).log_probability <= exact
        if beam == 1000:  # the pruned ones of 10 ** 12 labelings contribute little
            assert hypothesis.log_probability == pytest.approx(exact, abs=1e-3)


def test_the_most_probable_labeling_is_not_that_of_the_best_path():
    # P(blank) 0.6, 0.55 and P(unit 0) 0.4, 0.45. The best path is two blanks: 0.33. Unit 0 has the paths
    # (0, blank) 0.22, (blank, 0) 0.27 and (0, 0) 0.18: 0.67 together.
    log_probs = torch.tensor([[0.4, 0.6], [0.45, 0.55]], dtype=torch.float64).log()
    assert run(GreedySearch(), log_probs).best() == Hypothesis((), pytest.approx(math.log(0.33)), ())
    best, other = run(PrefixBeamSearch(2), log_probs).hypotheses()
    assert best == Hypothesis((0,), pytest.approx(math.log(0.67)), ((1, 2),))
    assert other == Hypothesis((), pytest.approx(math.log(0.33)), ())
    assert align(log_probs, [0]) == Hypothesis((0,), pytest.approx(math.log(0.27)), ((1, 2),))


def clear(path, classes=3, probability=0.9):
    """Log-probabilities in which the class of each token in the path has that probability."""
    rest = (1 - probability) / (classes - 1)
    return torch.tensor([[probability if unit == true else rest for unit in range(classes)] for true in path]).log()


@settings(deadline=None, max_examples=80)
@given(**(SMALL | {"tokens": draw.integers(0, 23)}))
def test_greedy_search_returns_the_best_path(tokens, classes, seed, impossible):
    log_probs = log_probabilities(tokens, classes, seed, impossible)
    units, spans, score, before = [], [], 0.0, classes - 1
    for token, row in enumerate(log_probs.tolist()):
        unit = row.index(max(row))
        score += row[unit]
        if unit != classes - 1:
            if unit == before:
                spans[-1][1] += 1
            else:
                units.append(unit)
                spans.append([token, token + 1])
        before = unit
    expected = Hypothesis(tuple(units), score, tuple(map(tuple, spans)))
    assert run(GreedySearch(), log_probs).best() == expected


@settings(deadline=None, max_examples=80)
@given(
    seed=draw.integers(0, 10**6),
    cuts=draw.lists(draw.integers(0, 31), max_size=7),
    beam=draw.integers(1, 11),
    impossible=draw.sampled_from([0.0, 0.3]),
)
def test_decoding_does_not_depend_on_the_pushes(seed, cuts, beam, impossible):
    log_probs = log_probabilities(31, 7, seed, impossible)
    for kind in (GreedySearch, lambda: PrefixBeamSearch(beam)):
        whole, parts = run(kind(), log_probs), run(kind(), log_probs, cuts)
        assert whole.best() == parts.best()
    assert whole.hypotheses() == parts.hypotheses()


def test_a_search_returns_the_best_labeling_so_far():
    for search in (GreedySearch(), PrefixBeamSearch()):
        assert search.best() == Hypothesis((), 0.0, ())
        search.push(torch.zeros(0, 3))
        assert search.best() == Hypothesis((), 0.0, ())
        search.push(clear([0, 0]))
        assert search.best().spans == ((0, 2),)
        search.push(clear([0, 1]))
        assert (search.best().units, search.best().spans) == ((0, 1), ((0, 3), (3, 4)))
        search.restart()
        assert search.best() == Hypothesis((), 0.0, ())
        search.push(clear([0, 4], classes=5))  # another model's classes
        assert search.best().units == (0,)


def test_tokens_without_possible_classes_have_probability_zero():
    log_probs = torch.cat((clear([0, 1]), torch.full((2, 3), -math.inf), clear([0])))
    for search in (GreedySearch(), PrefixBeamSearch()):
        best = run(search, log_probs).best()
        assert best.log_probability == -math.inf
        assert len(best.spans) == len(best.units)
    with pytest.raises(ValueError, match="the 2 units have probability 0 in the T=5 tokens"):
        align(log_probs, [0, 1])


@settings(deadline=None, max_examples=120)
@given(**(SMALL | {"classes": draw.integers(2, 4)}), data=draw.data())
def test_an_alignment_is_the_best_of_all_paths_of_its_labeling(tokens, classes, seed, impossible, data):
    log_probs = log_probabilities(tokens, classes, seed, impossible)
    units = data.draw(draw.lists(draw.integers(0, classes - 2), min_size=1, max_size=4))
    scores = [score for _, labeling, score in every_path(log_probs) if labeling == tuple(units)]
    assert bool(scores) == (tokens >= tokens_needed(units))
    if not scores:
        with pytest.raises(ValueError, match=f"units need {tokens_needed(units)} tokens with CTC, got T={tokens}"):
            align(log_probs, units)
    elif max(scores) == -math.inf:
        with pytest.raises(ValueError, match="have probability 0"):
            align(log_probs, units)
    else:
        alignment = align(log_probs, units)
        assert alignment.units == tuple(units)
        assert alignment.log_probability == pytest.approx(max(scores), abs=1e-9)
        assert score_of_spans(log_probs, alignment) == pytest.approx(max(scores), abs=1e-9)


def states(path, blank):
    """The state of each token in the lattice of 2U + 1 states: unit i is 2i + 1, blanks are even."""
    found, before = [0], blank
    for unit in path:
        repeats_or_stays = unit == before
        found.append(found[-1] if repeats_or_stays else found[-1] + (1 if blank in (unit, before) else 2))
        before = unit
    return found[1:]


@settings(deadline=None, max_examples=200)
@given(
    tokens=draw.integers(1, 5),
    classes=draw.integers(2, 4),
    seed=draw.integers(0, 10**6),
    impossible=draw.sampled_from([0.0, 0.3]),
    data=draw.data(),
)
def test_of_equally_probable_paths_the_one_whose_states_begin_earliest_is_taken(
    tokens, classes, seed, impossible, data
):
    generator = torch.Generator().manual_seed(seed)
    # Few small integers: sums are exact, and many paths have the same one.
    log_probs = -torch.randint(0, 3, (tokens, classes), generator=generator).double()
    log_probs[torch.rand(tokens, classes, generator=generator) < impossible] = -math.inf
    units = data.draw(draw.lists(draw.integers(0, classes - 2), min_size=1, max_size=3))
    scores = {path: score for path, labeling, score in every_path(log_probs) if labeling == tuple(units)}
    highest = max(scores.values(), default=-math.inf)
    if highest == -math.inf:
        with pytest.raises(NoPathError, match=r"need \d+ tokens|have probability 0"):
            align(log_probs, units)
        return
    best = max((states(path, classes - 1)[::-1] for path, score in scores.items() if score == highest))[::-1]
    spans = [(best.index(2 * i + 1), tokens - best[::-1].index(2 * i + 1)) for i in range(len(units))]
    assert align(log_probs, units) == Hypothesis(tuple(units), highest, tuple(spans))


def test_a_long_alignment_finds_a_planted_path():
    units = torch.randint(0, 29, (300,), generator=torch.Generator().manual_seed(0)).tolist()
    path = [token for unit in units for token in (29, unit, unit, 29)]
    alignment = align(clear(path, 30), units)
    assert alignment.spans == tuple((4 * i + 1, 4 * i + 3) for i in range(300))
    assert alignment.log_probability == pytest.approx(1200 * math.log(0.9))


def test_outputs_of_a_network_are_accepted_in_any_precision():
    logits = torch.randn(11, 3, requires_grad=True)
    log_probs = logits.log_softmax(-1)
    for kind in (torch.float32, torch.bfloat16):
        assert run(PrefixBeamSearch(), log_probs.to(kind)).best().units is not None
        assert run(GreedySearch(), log_probs.to(kind)).best().units is not None
        assert align(log_probs.to(kind), torch.tensor([1, 0, 0])).units == (1, 0, 0)


@pytest.mark.parametrize(
    "log_probs, message",
    [
        (torch.tensor([[-1.0, -1.0], [-1.0, math.nan]]), "reach nan"),
        (torch.tensor([[-1.0, 2.5]]), "reach 2.5, above 0: pass the log_softmax"),
    ],
)
def test_values_that_are_not_log_probabilities_are_refused(log_probs, message):
    for take in (GreedySearch().push, PrefixBeamSearch().push, lambda x: align(x, [0])):
        with pytest.raises(ValueError, match=message):
            take(log_probs)


def test_no_units_cannot_be_aligned():
    with pytest.raises(ValueError, match="no units"):
        align(clear([0, 1, 2]), [])


def long_labeling(tokens, seed=0):
    """Rows that are sure of a new unit at every second token, and unsure of every tenth."""
    path = [3 if token % 2 else token // 2 % 3 for token in range(tokens)]
    log_probs = clear(path, 4, 0.97)
    log_probs[::20] = torch.tensor([0.3, 0.3, 0.3, 0.1]).log()
    return log_probs.double()


def test_the_cost_of_a_token_does_not_depend_on_the_number_of_tokens():
    rows, seconds = long_labeling(16_000), {1_000: [], 16_000: []}
    searches = {tokens: run(PrefixBeamSearch(2), rows[:tokens]) for tokens in seconds}
    assert len(searches[16_000].best().units) > 7_000
    gc.disable()
    try:
        for _ in range(20):  # in turns, so that both meet the same load
            for tokens, search in searches.items():
                start = time.process_time()
                search.push(rows[:40])
                seconds[tokens].append(time.process_time() - start)
    finally:
        gc.enable()
    assert min(seconds[16_000]) < 1.5 * min(seconds[1_000])


def test_prefixes_that_left_the_beam_are_forgotten():
    search = run(PrefixBeamSearch(4), long_labeling(1_000))
    alive = {id(prefix) for prefix in search.prefixes}
    for prefix in search.prefixes:
        while (prefix := prefix.parent) is not None:
            alive.add(id(prefix))
    assert len(search.extensions) == len(alive) - 1  # the empty prefix extends none
    search.restart()
    assert not search.extensions


def test_paths_of_a_million_units_can_be_freed():
    node, prefix = None, Prefix()
    first = weakref.ref(prefix)
    gc.disable()  # for speed
    try:
        for token in range(1_000_000):
            node, prefix = append(node, 0, token), Prefix(prefix, 0)
        del node, prefix  # an overflow of the C stack would end the process
        assert first() is None
    finally:
        gc.enable()


def pickled(search):
    return pickle.loads(pickle.dumps(search))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("new", [GreedySearch, lambda: PrefixBeamSearch(4)], ids=["greedy", "beam"])
def test_a_copy_continues_like_the_original(new, copied):
    rows = long_labeling(4_000)
    assert run(copied(new()), rows[:20]).best() == run(new(), rows[:20]).best()
    search = run(new(), rows[:2_000])
    other = copied(search)
    before, before_other = search.last, other.last
    assert before is not before_other and before.count > 900
    for part in rows[2_000:].split(250):
        search.push(part)
        other.push(part)
        assert other.best() == search.best()
        if isinstance(search, PrefixBeamSearch):
            assert other.hypotheses() == search.hypotheses() and len(other.extensions) == len(search.extensions)
        nodes, nodes_other = nodes_after(before, search.last), nodes_after(before_other, other.last)
        assert [node.first for node in nodes_other] == [node.first for node in nodes] and len(nodes) < 1_100
