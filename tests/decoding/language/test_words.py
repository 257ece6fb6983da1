"""A language model of words in a search over characters or pieces, compared with the scores of all labelings."""

import itertools
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw
from torch.nn import functional as F

from vitspeech.decoding.ctc import PrefixBeamSearch
from vitspeech.decoding.language.kneser_ney import estimate
from vitspeech.decoding.language.ngrams import UNKNOWN
from vitspeech.decoding.language.scores import UNKNOWN_COST, UnitScores, WordScores, new_scores
from vitspeech.decoding.vocabulary import to_text

WORDS = ("a", "ab", "ba", "never")
MODEL = estimate([[0, 1, 0], [2, 1, 0], [1], [2]], WORDS, 3, kind="words", has_unknown=True)
CHARACTERS, PIECES = (" ", "a", "b"), ("▁", "▁a", "b", "a")


def word_score(units, labels, weight, bonus):
    """The score of a labeling from its text alone."""
    state, total = MODEL.start, 0.0
    for word in to_text([labels[unit] for unit in units], labels).split():
        token = MODEL.index.get(word, MODEL.index[UNKNOWN])
        total += weight * (MODEL.log_probability(state, token) - UNKNOWN_COST * (word not in WORDS)) + bonus
        state = MODEL.advance(state, token)
    return total


def log_probabilities(tokens, seed, classes):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(tokens, classes, generator=generator, dtype=torch.float64)).log_softmax(-1)


@settings(deadline=None, max_examples=40)
@given(
    tokens=draw.integers(1, 5),
    seed=draw.integers(0, 10**6),
    weight=draw.sampled_from([0.3, 1.0]),
    bonus=draw.sampled_from([-1.0, 0.0, 0.7]),
    labels=draw.sampled_from([CHARACTERS, PIECES]),
)
def test_a_beam_of_all_prefixes_finds_the_texts_of_the_highest_scores(tokens, seed, weight, bonus, labels):
    log_probs, scores, blank = log_probabilities(tokens, seed, len(labels) + 1), {}, len(labels)
    for length in range(tokens + 1):
        for units in itertools.product(range(blank), repeat=length):
            lengths = torch.tensor([tokens]), torch.tensor([length])
            options = {"blank": blank, "reduction": "none"}
            score = -F.ctc_loss(log_probs[:, None], torch.tensor([units]), *lengths, **options).item()
            if score > -math.inf:
                scores[units] = score + word_score(units, labels, weight, bonus)
    search = PrefixBeamSearch(10_000, WordScores(MODEL, labels, weight, bonus))
    search.push(log_probs)
    ranks = [scores[hypothesis.units] for hypothesis in search.hypotheses()]
    assert len(ranks) == len(scores)
    assert all(rank >= other - 1e-9 for rank, other in itertools.pairwise(ranks))
    assert ranks[0] == pytest.approx(max(scores.values()), abs=1e-9)
    assert search.best() == search.hypotheses()[0]
    assert search.log_probability == search.best().log_probability


@settings(deadline=None, max_examples=30)
@given(seed=draw.integers(0, 10**6), cuts=draw.lists(draw.integers(0, 31), max_size=7), beam=draw.integers(1, 9))
def test_decoding_does_not_depend_on_the_pushes_and_copies(seed, cuts, beam):
    log_probs, scores = log_probabilities(31, seed, 4), WordScores(MODEL, CHARACTERS, 0.7, 0.4)
    whole, parts = PrefixBeamSearch(beam, scores), PrefixBeamSearch(beam, scores)
    whole.push(log_probs)
    for part in log_probs.tensor_split(sorted(cuts)):
        parts.push(part)
        parts = pickle.loads(pickle.dumps(parts))
    assert whole.hypotheses() == parts.hypotheses()


def test_an_unknown_word_costs_from_the_first_letter_with_which_no_word_begins():
    scores = WordScores(MODEL, CHARACTERS, 1.0)
    a, b = 1, 2
    state = scores.advance(scores.advance(scores.start, a), b)
    assert scores.row(scores.start).tolist() == [0, 0, 0]
    assert scores.row(state).tolist()[1:] == [-UNKNOWN_COST, -UNKNOWN_COST]  # aba, abb
    state = scores.advance(state, a)
    unknown = MODEL.log_probability(MODEL.start, MODEL.index[UNKNOWN])
    assert scores.row(state).tolist() == pytest.approx([unknown, 0, 0])


def test_a_model_of_words_is_fused_by_words_only_where_units_are_not():
    assert isinstance(new_scores(MODEL, CHARACTERS, 1.0, 0.0), WordScores)
    assert isinstance(new_scores(MODEL, PIECES, 1.0, 0.0), WordScores)
    assert isinstance(new_scores(MODEL, WORDS, 1.0, 0.0), UnitScores)


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="has no <unk>; one of words needs it"):
        new_scores(estimate([[0]], WORDS, 2, kind="words"), CHARACTERS, 1.0, 0.0)
    with pytest.raises(ValueError, match="can spell no word of the language model; the first is 'A'"):
        new_scores(estimate([[0]], ["A", "B"], 2, kind="words", has_unknown=True), CHARACTERS, 1.0, 0.0)
