"""CTC's searches against every path written out, and against torch's own loss."""

import math
from itertools import groupby, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw
from torch.nn import functional as F

from vitspeech.decoding.ctc import GreedySearch, Hypothesis, PrefixBeamSearch, align, tokens_needed

EVERY_PREFIX = 10_000


def log_probabilities(tokens, classes, seed, impossible=0.0, scale=2):
    """Rows at random, of which some classes but never all are impossible."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(tokens, classes, generator=generator, dtype=torch.float64)
    gone = torch.rand(tokens, classes, generator=generator) < impossible
    gone[:, 0] &= ~gone.all(-1)
    return logits.masked_fill(gone, -math.inf).log_softmax(-1)


few = {
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
    """Of every possible labeling: the log-probability of all its paths, and of its best path."""
    found = {}
    for _, units, score in every_path(log_probs):
        if score > -math.inf:
            found.setdefault(units, []).append(score)
    return {units: (torch.tensor(s, dtype=torch.float64).logsumexp(0).item(), max(s)) for units, s in found.items()}


def score_of_spans(log_probs, hypothesis):
    """The log-probability of the path that says the units in their spans, and blanks elsewhere."""
    path = [log_probs.shape[1] - 1] * len(log_probs)
    for unit, (first, end) in zip(hypothesis.units, hypothesis.spans, strict=True):
        assert first < end
        path[first:end] = [unit] * (end - first)
    merged = tuple(unit for unit, _ in groupby(path) if unit != log_probs.shape[1] - 1)
    assert merged == hypothesis.units
    return math.fsum(log_probs[token, unit].item() for token, unit in enumerate(path))


def searched(search, log_probs, cuts=()):
    for part in log_probs.tensor_split(sorted(cuts)):
        search.push(part)
    return search


@settings(deadline=None, max_examples=120)
@given(**few)
def test_a_beam_for_every_prefix_finds_every_labeling_with_its_exact_probability(tokens, classes, seed, impossible):
    log_probs = log_probabilities(tokens, classes, seed, impossible)
    expected = labelings(log_probs)
    found = searched(PrefixBeamSearch(EVERY_PREFIX), log_probs).hypotheses()
    assert {hypothesis.units for hypothesis in found} == set(expected)
    for hypothesis in found:
        total, highest = expected[hypothesis.units]
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-9)
        assert score_of_spans(log_probs, hypothesis) == pytest.approx(highest, abs=1e-9)
    scores = [hypothesis.log_probability for hypothesis in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0].log_probability == pytest.approx(max(total for total, _ in expected.values()), abs=1e-9)
    assert sum(map(math.exp, scores)) == pytest.approx(1)


@settings(deadline=None, max_examples=80)
@given(**few, beam=draw.integers(1, 5))
def test_a_narrow_beam_claims_no_more_than_the_exact_probability(tokens, classes, seed, impossible, beam):
    log_probs = log_probabilities(tokens, classes, seed, impossible)
    expected = labelings(log_probs)
    found = searched(PrefixBeamSearch(beam), log_probs).hypotheses()
    assert 1 <= len(found) <= beam
    assert len({hypothesis.units for hypothesis in found}) == len(found)
    for hypothesis in found:
        total, highest = expected.get(hypothesis.units, (-math.inf, -math.inf))
        assert hypothesis.log_probability <= total + 1e-9
        if hypothesis.log_probability > -math.inf:
            assert score_of_spans(log_probs, hypothesis) <= highest + 1e-9


@pytest.mark.parametrize("beam", [1, 8, 1000])
def test_torch_s_loss_gives_the_same_probability(beam):
    log_probs = log_probabilities(29, 5, seed=3, scale=6)
    found = searched(PrefixBeamSearch(beam), log_probs).hypotheses()
    assert len(found) == beam
    for hypothesis in found[:3]:
        lengths = torch.tensor([29]), torch.tensor([len(hypothesis.units)])
        targets = torch.tensor([hypothesis.units])
        exact = -F.ctc_loss(log_probs[:, None], targets, *lengths, blank=4, reduction="none").item()
        assert hypothesis.log_probability <= exact + 1e-9
        assert align(log_probs, hypothesis.units).log_probability <= exact
        if beam == 1000:  # of 10 ** 12 labelings: what the pruned ones would have brought is little
            assert hypothesis.log_probability == pytest.approx(exact, abs=1e-3)


def test_the_most_probable_labeling_is_not_that_of_the_best_path():
    # P(blank) 0.6, 0.55 and P(unit 0) 0.4, 0.45. The best path is two blanks: 0.33. Unit 0 has the paths
    # (0, blank) 0.22, (blank, 0) 0.27 and (0, 0) 0.18: 0.67 together.
    log_probs = torch.tensor([[0.4, 0.6], [0.45, 0.55]], dtype=torch.float64).log()
    assert searched(GreedySearch(), log_probs).best() == Hypothesis((), pytest.approx(math.log(0.33)), ())
    best, other = searched(PrefixBeamSearch(2), log_probs).hypotheses()
    assert best == Hypothesis((0,), pytest.approx(math.log(0.67)), ((1, 2),))
    assert other == Hypothesis((), pytest.approx(math.log(0.33)), ())
    assert align(log_probs, [0]) == Hypothesis((0,), pytest.approx(math.log(0.27)), ((1, 2),))


def said(path, classes=3, share=0.9):
    """Log-probabilities of a clear voice: each token's class has that share."""
    rest = (1 - share) / (classes - 1)
    return torch.tensor([[share if unit == said else rest for unit in range(classes)] for said in path]).log()


def test_a_unit_said_twice_needs_a_blank_between():
    for search in (GreedySearch(), PrefixBeamSearch()):
        once = searched(search, said([2, 0, 0, 0, 2])).best()
        assert (once.units, once.spans) == ((0,), ((1, 4),))
        search.restart()
        twice = searched(search, said([2, 0, 0, 2, 0, 1, 1])).best()
        assert (twice.units, twice.spans) == ((0, 0, 1), ((1, 3), (4, 5), (5, 7)))
    assert align(said([2, 0, 0, 2, 0, 1, 1]), [0, 0, 1]).spans == ((1, 3), (4, 5), (5, 7))


@settings(deadline=None, max_examples=80)
@given(**(few | {"tokens": draw.integers(0, 23)}))
def test_greedy_search_follows_the_best_path(tokens, classes, seed, impossible):
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
    assert searched(GreedySearch(), log_probs).best() == expected


@settings(deadline=None, max_examples=80)
@given(
    seed=draw.integers(0, 10**6),
    cuts=draw.lists(draw.integers(0, 31), max_size=7),
    beam=draw.integers(1, 11),
    impossible=draw.sampled_from([0.0, 0.3]),
)
def test_a_stream_is_decoded_as_the_whole(seed, cuts, beam, impossible):
    log_probs = log_probabilities(31, 7, seed, impossible)
    for kind in (GreedySearch, lambda: PrefixBeamSearch(beam)):
        whole, parts = searched(kind(), log_probs), searched(kind(), log_probs, cuts)
        assert whole.best() == parts.best()
    assert whole.hypotheses() == parts.hypotheses()


def test_a_search_in_the_middle_says_what_there_is_so_far():
    for search in (GreedySearch(), PrefixBeamSearch()):
        assert search.best() == Hypothesis((), 0.0, ())
        search.push(torch.zeros(0, 3))
        assert search.best() == Hypothesis((), 0.0, ())
        search.push(said([0, 0]))
        assert search.best().spans == ((0, 2),)
        search.push(said([0, 1]))
        assert (search.best().units, search.best().spans) == ((0, 1), ((0, 3), (3, 4)))
        search.restart()
        assert search.best() == Hypothesis((), 0.0, ())
        search.push(said([0, 4], classes=5))  # another model's classes
        assert search.best().units == (0,)


def test_where_no_class_is_possible_nothing_is_found_and_nothing_breaks():
    log_probs = torch.cat((said([0, 1]), torch.full((2, 3), -math.inf), said([0])))
    for search in (GreedySearch(), PrefixBeamSearch()):
        found = searched(search, log_probs).best()
        assert found.log_probability == -math.inf
        assert len(found.spans) == len(found.units)
    with pytest.raises(ValueError, match="no path of the T=5 tokens says the 2 units"):
        align(log_probs, [0, 1])


@settings(deadline=None, max_examples=120)
@given(**(few | {"classes": draw.integers(2, 4)}), data=draw.data())
def test_an_alignment_is_the_best_of_all_paths_that_say_the_units(tokens, classes, seed, impossible, data):
    log_probs = log_probabilities(tokens, classes, seed, impossible)
    units = data.draw(draw.lists(draw.integers(0, classes - 2), min_size=1, max_size=4))
    scores = [score for _, labeling, score in every_path(log_probs) if labeling == tuple(units)]
    assert bool(scores) == (tokens >= tokens_needed(units))
    if not scores:
        with pytest.raises(ValueError, match=f"units need {tokens_needed(units)} tokens with CTC, got T={tokens}"):
            align(log_probs, units)
    elif max(scores) == -math.inf:
        with pytest.raises(ValueError, match="no path"):
            align(log_probs, units)
    else:
        found = align(log_probs, units)
        assert found.units == tuple(units)
        assert found.log_probability == pytest.approx(max(scores), abs=1e-9)
        assert score_of_spans(log_probs, found) == pytest.approx(max(scores), abs=1e-9)


@pytest.mark.parametrize("units, tokens", [([], 0), ([5], 1), ([1, 2, 1], 3), ([1, 1], 3), ([2, 2, 2, 1, 1], 8)])
def test_tokens_that_units_need(units, tokens):
    assert tokens_needed(units) == tokens
    assert tokens_needed(torch.tensor(units, dtype=torch.long)) == tokens


def test_what_a_network_gives_is_taken_as_it_is():
    logits = torch.randn(11, 3, requires_grad=True)
    log_probs = logits.log_softmax(-1)
    for kind in (torch.float32, torch.bfloat16):
        assert searched(PrefixBeamSearch(), log_probs.to(kind)).best().units is not None
        assert searched(GreedySearch(), log_probs.to(kind)).best().units is not None
        assert align(log_probs.to(kind), torch.tensor([1, 0, 0])).units == (1, 0, 0)


@pytest.mark.parametrize(
    "log_probs, message",
    [
        (torch.zeros(2, 3, 5), r"shape \(2, 3, 5\) are not \(T tokens, C classes\)"),
        (torch.zeros(3), r"shape \(3,\)"),
        (torch.zeros(3, 0), r"shape \(3, 0\)"),
        (torch.tensor([[-1.0, -1.0], [-1.0, math.nan]]), "token 1 of T=2 hold NaN"),
        (torch.tensor([[-1.0, 2.5]]), "go up to 2.5, above 0: give the log_softmax"),
    ],
)
def test_what_is_no_log_probability_is_refused(log_probs, message):
    for take in (GreedySearch().push, PrefixBeamSearch().push, lambda x: align(x, [0])):
        with pytest.raises(ValueError, match=message):
            take(log_probs)


def test_classes_do_not_change_in_a_stream():
    for search in (GreedySearch(), PrefixBeamSearch()):
        search.push(said([0]))
        with pytest.raises(ValueError, match="C=5 classes, those before had C=3"):
            search.push(said([0], classes=5))


def test_a_beam_of_none_is_refused():
    with pytest.raises(ValueError, match="beam=0 keeps no prefix"):
        PrefixBeamSearch(0)


@pytest.mark.parametrize("units, message", [([], "no units"), ([2], "unit 2 is not among the 2"), ([-1], "unit -1")])
def test_units_that_can_not_be_aligned_are_refused(units, message):
    with pytest.raises(ValueError, match=message):
        align(said([0, 1, 2]), units)
