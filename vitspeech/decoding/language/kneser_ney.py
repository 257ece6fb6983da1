"""Estimation of n-gram language models by interpolated modified Kneser-Ney smoothing.

Chen and Goodman (1998), "An empirical study of smoothing techniques for language modeling", sec. 3.3 and eq. 24 to 26:

    p(w | h) = max(c(hw) - D(c(hw)), 0) / c(h·) + γ(h) p(w | h'),
    γ(h) = (D1 N1(h) + D2 N2(h) + D3+ N3+(h)) / c(h·),
    D1 = 1 - 2 Y t2 / t1, D2 = 2 - 3 Y t3 / t2, D3+ = 3 - 4 Y t4 / t3, Y = t1 / (t1 + 2 t2),

where ti is the number of n-grams of an order with the count i, and Ni(h) the number of those that begin with h. Counts
of n-grams below the highest order are the numbers of different tokens before them, except for those that begin with
<s>, which nothing precedes. The unigrams are interpolated with the uniform distribution. KenLM's `lmplz` does the same
(Heafield et al. 2013).

All counts of an order come from one sort, so that the time is that of `order` sorts of as many numbers as there are
tokens.

Shapes: S tokens of all utterances with <s> and </s>, N n-grams.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from vitspeech.decoding.language.ngrams import BEGIN, END, MOST_ORDER, NEVER, UNKNOWN, Kind, NgramModel
from vitspeech.errors import InputError, check_number

FALLBACK = (0.5, 1.0, 1.5)  # where counts of counts give no discounts; lmplz's default of --discount_fallback


def estimate(
    utterances: Sequence[Sequence[int]],
    vocabulary: Sequence[str],
    order: int,
    *,
    kind: Kind | None = None,
    has_unknown: bool = False,
) -> NgramModel:
    """Estimate a language model from utterances.

    Args:
        utterances: The tokens of each utterance, as indices of `vocabulary`.
        vocabulary: The tokens, without `<s>`, `</s>` and `<unk>`; those that do not occur have a probability, too.
        order: The length of the longest n-grams; shorter if all utterances are.
        kind: What the tokens are.
        has_unknown: Add `<unk>`, whose probability is that of a token that does not occur.

    Raises:
        InputError: If there is nothing to count, the order is not within 1 .. 20, or a token has a reserved name.
    """
    check_number("order", order, 1, MOST_ORDER)
    reserved = next((token for token in vocabulary if token in (BEGIN, END, UNKNOWN)), None)
    if reserved is not None:
        raise InputError(f"{reserved!r} of the vocabulary is a name that language models reserve")
    if not any(len(utterance) for utterance in utterances):
        raise InputError("there are no transcripts to estimate a language model from")
    names = [*vocabulary, BEGIN, END, *([UNKNOWN] if has_unknown else [])]
    begin, end = names.index(BEGIN), names.index(END)
    lengths = numpy.array([len(utterance) + 2 for utterance in utterances])
    stream = numpy.fromiter(
        (token for utterance in utterances for token in (begin, *utterance, end)), dtype=numpy.int64
    )
    left = numpy.repeat(lengths.cumsum(), lengths) - numpy.arange(len(stream))  # tokens until the utterance's end
    levels = count_ngrams(stream, left, len(names), order)
    return smoothed(levels, names, begin, kind)


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: their nodes in the trie are numbered from `first`, in the order of the arrays.

    Args:
        first: The first node.
        parents: The node of each without its last token.
        tokens: The last token of each.
        suffixes: The node of each without its first token.
        counts: How often each occurs.

    Shape:
        parents, tokens, suffixes, counts (N,)
    """

    first: int
    parents: numpy.ndarray
    tokens: numpy.ndarray
    suffixes: numpy.ndarray
    counts: numpy.ndarray


def count_ngrams(stream: numpy.ndarray, left: numpy.ndarray, size: int, order: int) -> list[Level]:
    """Count the n-grams of each order up to `order`, over a vocabulary of `size` tokens.

    `stream` (S,) are the tokens of all utterances, one after the other; `left` (S,) is how many tokens each utterance
    has from each place on.
    """
    zeros = numpy.zeros(size, dtype=numpy.int64)
    levels = [Level(1, zeros, numpy.arange(size), zeros, numpy.bincount(stream, minlength=size))]
    places, nodes = numpy.arange(len(stream)), stream + 1  # where an n-gram begins, and its node
    for length in range(2, order + 1):
        before, first = nodes, levels[-1].first + len(levels[-1].tokens)
        places = places[left[places] >= length]
        if not len(places):
            break
        keys = before[places] * size + stream[places + length - 1]
        unique, where, inverse, counts = numpy.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        parents, tokens = numpy.divmod(unique, size)
        levels.append(Level(first, parents, tokens, before[places[where] + 1], counts))
        nodes = numpy.zeros(len(stream), dtype=numpy.int64)
        nodes[places] = first + inverse
    return levels


def smoothed(levels: Sequence[Level], names: Sequence[str], begin: int, kind: Kind | None) -> NgramModel:
    """The model of some counts."""
    total = levels[-1].first + len(levels[-1].tokens)
    probabilities, backoffs = numpy.zeros(total), numpy.zeros(total)
    probabilities[0] = 1 / (len(names) - 1)  # <s> is never predicted
    begins = numpy.zeros(total, dtype=bool)  # whether an n-gram begins with <s>
    for place, level in enumerate(levels):
        nodes = slice(level.first, level.first + len(level.tokens))
        begins[nodes] = begins[level.parents] if place else level.tokens == begin
        counts = level.counts
        if place + 1 < len(levels):
            preceding = numpy.bincount(levels[place + 1].suffixes, minlength=total)[nodes]
            counts = numpy.where(begins[nodes], counts, preceding)
        if not place:
            counts = numpy.where(level.tokens == begin, 0, counts)
        steps = numpy.minimum(counts, 3)
        discounted = numpy.array([0, *discounts(counts)])[steps]
        sums = numpy.bincount(level.parents, counts, total)
        taken = numpy.bincount(level.parents, discounted, total)
        contexts = sums > 0
        share = numpy.divide(taken, sums, out=numpy.ones(total), where=contexts)
        probabilities[nodes] = (counts - discounted) / sums[level.parents]
        probabilities[nodes] += share[level.parents] * probabilities[level.suffixes]
        backoffs[contexts] = numpy.log(share[contexts])
    backoffs[0] = 0
    logs = numpy.log(probabilities[1:])
    logs[begin] = NEVER
    parents, tokens = (numpy.concatenate([getattr(level, name) for level in levels]) for name in ("parents", "tokens"))
    sizes = [len(level.tokens) for level in levels]
    return NgramModel(names, parents, tokens, logs, backoffs, sizes=sizes, kind=kind)


def discounts(counts: numpy.ndarray) -> tuple[float, float, float]:
    """D1, D2 and D3+ of an order; `FALLBACK` if too few n-grams are rare, as of the 28 unigrams of characters."""
    with_count = [int((counts == number).sum()) for number in range(1, 5)]
    if not all(with_count[:3]):
        return FALLBACK
    y = with_count[0] / (with_count[0] + 2 * with_count[1])
    found = tuple(j - (j + 1) * y * with_count[j] / with_count[j - 1] for j in (1, 2, 3))
    return found if all(0 < value <= j for j, value in enumerate(found, 1)) else FALLBACK
