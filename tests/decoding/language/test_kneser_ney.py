"""Estimation of language models compared with the formulas, and with the estimates of NLTK."""

import math
import time
from collections import Counter

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw
from nltk.lm import KneserNeyInterpolated
from nltk.lm.preprocessing import padded_everygram_pipeline

from vitspeech.decoding.language.kneser_ney import FALLBACK, discounts, estimate
from vitspeech.decoding.language.ngrams import BEGIN, END, UNKNOWN

TEXT = "the cat sat on the mat and the dog sat on the log but a cat is not a dog and a mat is not a log".split()
LETTERS = sorted(set("".join(TEXT)))
SPELLED = [[LETTERS.index(letter) for letter in word] for word in TEXT]


def by_hand(utterances, vocabulary, order):
    """p(w | h) of modified Kneser-Ney as a function of (w, h), from dictionaries, by the formulas alone."""
    padded = [[BEGIN, *utterance, END] for utterance in utterances]
    raw = {
        length: Counter(tuple(row[place : place + length]) for row in padded for place in range(len(row) - length + 1))
        for length in range(1, order + 1)
    }
    order = max(length for length in raw if raw[length])
    counts = {order: raw[order]}
    for length in range(1, order):
        preceded = Counter(ngram[1:] for ngram in raw[length + 1])
        found = {ngram: count if ngram[0] == BEGIN else preceded[ngram] for ngram, count in raw[length].items()}
        counts[length] = Counter(found)
    counts[1].pop((BEGIN,), None)
    reductions = {length: (0, *discounts(numpy.array(list(counts[length].values())))) for length in counts}

    def probability(token, context):
        if not context:
            below = 1 / (len(vocabulary) + 1)
        else:
            below = probability(token, context[1:])
        length = len(context) + 1
        with_context = [count for ngram, count in counts[length].items() if ngram[:-1] == context]
        if not with_context:
            return below
        reduction, count = reductions[length], counts[length][(*context, token)]
        share = sum(reduction[min(c, 3)] for c in with_context) / sum(with_context)
        return (count - reduction[min(count, 3)]) / sum(with_context) + share * below

    return lambda token, context: probability(token, context[-(order - 1) :] if order > 1 else ())


@settings(deadline=None, max_examples=25)
@given(
    utterances=draw.lists(draw.lists(draw.integers(0, 2), max_size=9), min_size=1, max_size=9).filter(any),
    order=draw.integers(1, 4),
)
def test_probabilities_are_those_of_the_formulas(utterances, order):
    model = estimate(utterances, ["a", "b", "c"], order)
    expected = by_hand([["abc"[token] for token in row] for row in utterances], "abc", order)
    for utterance in [*utterances, [2, 1, 0, 0, 2]]:
        state, context = model.start, (BEGIN,)
        for token in (*utterance, model.index[END]):
            for candidate in ("a", "b", "c", END):
                found = math.exp(model.row(state)[model.index[candidate]])
                assert found == pytest.approx(expected(candidate, context), rel=1e-9)
                assert math.exp(model.log_probability(state, model.index[candidate])) == pytest.approx(found)
            state, context = model.advance(state, token), (*context, model.vocabulary[token])


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@pytest.mark.parametrize("has_unknown", [False, True])
def test_probabilities_after_every_context_sum_to_one(order, has_unknown):
    model = estimate(SPELLED, [*LETTERS, "never"], order, has_unknown=has_unknown)
    assert model.order == min(order, 5)  # the longest word has three letters, with <s> and </s>
    for state in {int(state) for state in model.reduced}:
        assert numpy.exp(model.row(state)).sum() == pytest.approx(1, abs=1e-12)


def test_a_token_that_never_occurred_is_possible_and_as_probable_as_the_unknown():
    model = estimate(SPELLED, [*LETTERS, "never"], 3, has_unknown=True)
    row = model.row(model.start)
    assert -20 < row[model.index["never"]] == row[model.index[UNKNOWN]] < row[: len(LETTERS)].min()
    assert row[model.index[BEGIN]] < -200


def test_perplexity_is_near_that_of_another_library():
    generator = torch.Generator().manual_seed(0)
    words = [TEXT[place] for place in torch.randint(len(TEXT), (300,), generator=generator).tolist()]
    held_out = [TEXT[place] for place in torch.randint(len(TEXT), (60,), generator=generator).tolist()]
    other = KneserNeyInterpolated(3)
    other.fit(*padded_everygram_pipeline(3, words))
    logs = [
        other.logscore(token, ([BEGIN, BEGIN, *word])[place : place + 2]) * math.log(2)
        for word in held_out
        for place, token in enumerate([*word, END])
    ]
    model = estimate([[LETTERS.index(letter) for letter in word] for word in words], LETTERS, 3)
    found = model.perplexity([[LETTERS.index(letter) for letter in word] for word in held_out])
    assert found == pytest.approx(math.exp(-sum(logs) / len(logs)), rel=0.05)


def test_a_hundred_thousand_characters_take_seconds():
    generator = torch.Generator().manual_seed(0)
    text = torch.multinomial(torch.rand(28, generator=generator), 100_000, True, generator=generator)
    start = time.process_time()
    model = estimate(text.view(-1, 100).tolist(), list(map(str, range(28))), 8)
    assert time.process_time() - start < 10 and model.order == 8 and len(model.parents) > 300_000


def test_discounts_are_those_of_the_formula_or_the_fallback():
    counts = numpy.array([1] * 40 + [2] * 20 + [3] * 10 + [4] * 6)
    assert discounts(counts) == pytest.approx((0.5, 2 - 3 * 0.5 / 2, 3 - 4 * 0.5 * 0.6))
    assert discounts(numpy.array([5, 6, 7])) == FALLBACK
    assert discounts(numpy.array([1] * 90 + [2] * 2 + [3] * 900)) == FALLBACK  # D2 would be negative


@pytest.mark.parametrize(
    "utterances, vocabulary, order, message",
    [
        ([], ["a"], 2, "there are no transcripts"),
        ([[], []], ["a"], 2, "there are no transcripts"),
        ([[0]], ["a"], 0, "order=0"),
        ([[0]], ["a"], 21, "order=21"),
        ([[0]], ["<s>"], 2, "'<s>' of the vocabulary is a name that language models reserve"),
    ],
)
def test_what_cannot_be_estimated_is_refused(utterances, vocabulary, order, message):
    with pytest.raises(ValueError, match=message):
        estimate(utterances, vocabulary, order)
