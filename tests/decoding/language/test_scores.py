"""Prefix beam search with a language model compared with the scores of all labelings."""

import copy
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw
from torch.nn import functional as F

from vitspeech.decoding.ctc import PrefixBeamSearch
from vitspeech.decoding.final_units import take_final
from vitspeech.decoding.language.kneser_ney import estimate
from vitspeech.decoding.language.ngrams import UNKNOWN
from vitspeech.decoding.language.scores import UnitScores

LABELS = ["a", "b", "c"]
MODEL = estimate([[0, 1, 2, 0], [1, 1], [2, 0, 1, 0, 0], [0]], LABELS, 3)
ALL_PREFIXES = 10_000
SETTINGS = {
    "tokens": draw.integers(1, 5),
    "seed": draw.integers(0, 10**6),
    "weight": draw.sampled_from([0.0, 0.3, 1.0, 4.0]),
    "bonus": draw.sampled_from([-1.0, 0.0, 0.7]),
}


def log_probabilities(tokens, seed, classes=4):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(tokens, classes, generator=generator, dtype=torch.float64)).log_softmax(-1)


def ctc_score(log_probs, units):
    """The log-probability of a labeling, by torch's CTC loss."""
    lengths, blank = (torch.tensor([len(log_probs)]), torch.tensor([len(units)])), log_probs.shape[1] - 1
    return -F.ctc_loss(log_probs[:, None], torch.tensor([units]), *lengths, blank=blank, reduction="none").item()


def language_score(units, model=MODEL):
    """log p(units), without the end, from single probabilities."""
    state, total = model.start, 0.0
    for unit in units:
        total += model.log_probability(state, unit)
        state = model.advance(state, unit)
    return total


def run(search, log_probs, cuts=()):
    for part in log_probs.tensor_split(sorted(cuts)):
        search.push(part)
    return search


@settings(deadline=None, max_examples=40)
@given(**SETTINGS)
def test_a_beam_of_all_prefixes_finds_the_labelings_of_the_highest_scores(tokens, seed, weight, bonus):
    log_probs, scores = log_probabilities(tokens, seed), {}
    for length in range(tokens + 1):
        for units in itertools.product(range(3), repeat=length):
            score = ctc_score(log_probs, units)
            if score > -math.inf:
                scores[units] = score, score + weight * language_score(units) + bonus * length
    found = run(PrefixBeamSearch(ALL_PREFIXES, UnitScores(MODEL, LABELS, weight, bonus)), log_probs).hypotheses()
    assert len(found) == len(scores)
    assert [hypothesis.log_probability for hypothesis in found] == pytest.approx(
        [scores[hypothesis.units][0] for hypothesis in found], abs=1e-9
    )
    ranks = [scores[hypothesis.units][1] for hypothesis in found]
    assert all(rank >= other - 1e-9 for rank, other in itertools.pairwise(ranks))
    assert ranks[0] == pytest.approx(max(rank for _, rank in scores.values()), abs=1e-9)


def test_a_copy_shares_the_language_model():
    search = PrefixBeamSearch(5, UnitScores(MODEL, LABELS, 0.7))
    assert copy.deepcopy(search).language is search.language
    assert copy.deepcopy(MODEL) is MODEL


@settings(deadline=None, max_examples=40)
@given(seed=draw.integers(0, 10**6), beam=draw.integers(1, 9))
def test_without_weights_the_search_is_that_without_a_language_model(seed, beam):
    log_probs = log_probabilities(31, seed)
    assert run(PrefixBeamSearch(beam, UnitScores(MODEL, LABELS, 0.0)), log_probs).hypotheses() == (
        run(PrefixBeamSearch(beam), log_probs).hypotheses()
    )


@settings(deadline=None, max_examples=40)
@given(seed=draw.integers(0, 10**6), beam=draw.integers(1, 6))
def test_units_that_are_taken_off_are_those_of_the_whole_search(seed, beam):
    log_probs, taken = log_probabilities(40, seed), []
    scores = UnitScores(MODEL, LABELS, 0.7, 0.4)
    whole, search = run(PrefixBeamSearch(beam, scores), log_probs), PrefixBeamSearch(beam, scores)
    for row in log_probs.split(1):
        search.push(row)
        taken += [node.unit for node in take_final(search)]
    assert (*taken, *search.best().units) == whole.best().units


def test_units_in_another_order_have_the_same_scores():
    mixed = estimate([[1, 2, 0, 1], [2, 2], [0, 1, 2, 1, 1], [1]], ["c", "a", "b"], 3)  # the same utterances
    one, other = UnitScores(MODEL, LABELS, 1.0), UnitScores(mixed, LABELS, 1.0)
    assert one.row(one.start).tolist() == pytest.approx(other.row(other.start).tolist())


def test_units_that_are_missing_have_the_probability_of_the_unknown():
    model = estimate([[0, 1, 0]], ["a", "b"], 2, has_unknown=True)
    scores = UnitScores(model, LABELS, 1.0)
    assert scores.row(scores.start)[2] == model.row(model.start)[model.index[UNKNOWN]]


@pytest.mark.parametrize(
    "labels, kind, message",
    [
        (["a", "b"], None, "the language model lacks 'c' of the recognizer's words; it needs all of them"),
        (["a", "b", "c", "d"], None, "the language model has the unit 'd'; it is not among the recognizer's words"),
        (["▁a", "c"], "pieces", "the language model has the unit '▁a', which are pieces; it is not among"),
    ],
)
def test_a_language_model_of_other_units_is_refused(labels, kind, message):
    with pytest.raises(ValueError, match=message):
        UnitScores(estimate([[0, 1]], labels, 2, kind=kind), LABELS, 1.0)
