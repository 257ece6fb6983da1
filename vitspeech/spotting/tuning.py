"""Thresholds with the fewest misses at a wanted rate of false alarms.

The number of alarms above a threshold says little where there are few or none. Just above the highest alarm of
an hour, about one alarm is to be expected in the next hour, not none; with such a threshold for each of twelve words,
about twelve. So the rate of a word's alarms above a threshold is estimated by peaks over threshold with exponential
excesses (Pickands 1975, doi:10.1214/aos/1176343003): the logits of alarms above the k-th highest one are taken to be
exponential, with one scale for all words.

Shapes: W words of the model, S conditions with alarms, G steps of thresholds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from vitspeech.spotting.counts import Counts, OperatingPoint
from vitspeech.spotting.listening import MATCH

STEPS = numpy.round(numpy.arange(-4, 14.01, 0.1), 1)  # thresholds in logits: 0.018 to 0.9999992
TAIL = 20  # alarms k of a word that its rate is estimated from, or as many as there are
# Alarms at a probability of one half that a word without any is taken to have, times the number of words.
FEW = 0.5


@dataclass(frozen=True)
class Choice:
    """Thresholds that were chosen, and what they are estimated to do.

    Args:
        thresholds: The threshold of each word.
        expected: False alarms an hour in each condition, by the fitted tails.
        recall: Mean over words of the share that is found, all noise levels together.
        point: The detections counted at these thresholds.
    """

    thresholds: dict[str, float]
    expected: dict[str, float]
    recall: float
    point: OperatingPoint


def choose(counts: Counts, wanted: Mapping[str, float]) -> Choice:
    """The thresholds with the highest recall at which the expected rate of each condition is at most the wanted one.

    All thresholds start where the word is just found once, which has the fewest alarms. The threshold of the word that
    gains most recall for its alarms is lowered, again and again, as far as the rates allow.

    Args:
        counts: The counts, with `refractory_s` 0.
        wanted: False alarms an hour, for each condition that counts.

    Returns:
        The choice; if no thresholds reach the wanted rates, that with the lowest ones.
    """
    limits = numpy.array([wanted.get(name, math.inf) for name in counts.conditions])
    rates, recalls = alarm_rates(counts), word_recalls(counts)
    usage = (rates / limits[:, None, None]).max(0) if len(limits) else numpy.zeros_like(recalls)  # only for ranking
    words = numpy.arange(len(counts.words))
    place = numpy.array([highest_useful(recall) for recall in recalls])
    while True:
        best, best_gain = None, 0.0
        now = rates[:, words, place].sum(1)
        for word in words.tolist():
            lower = numpy.arange(place[word])
            gains = recalls[word, lower] - recalls[word, place[word]]
            total = now[:, None] - rates[:, word, place[word]][:, None] + rates[:, word, lower]
            fits = (total <= limits[:, None]).all(0) & (gains > 0)
            if fits.any():
                costs = usage[word, lower] - usage[word, place[word]]
                ratio = numpy.where(fits, gains / numpy.maximum(costs, 1e-12), -1.0)
                step = int(ratio.argmax())
                if ratio[step] > best_gain:
                    best, best_gain = (word, int(lower[step])), float(ratio[step])
        if best is None:
            break
        place[best[0]] = best[1]
    thresholds = {
        word: float(1 / (1 + math.exp(-STEPS[step]))) for word, step in zip(counts.words, place.tolist(), strict=True)
    }
    expected = rates[:, words, place].sum(1).tolist()
    return Choice(
        thresholds,
        dict(zip(counts.conditions, expected, strict=True)),
        float(recalls[words, place].mean()),
        counts.at(thresholds),
    )


def highest_useful(recall: numpy.ndarray) -> int:
    """The highest step at which a word is found at all; the highest of all for a word that never is: (G,) -> step."""
    found = numpy.flatnonzero(recall > 0)
    return int(found[-1]) if len(found) else len(recall) - 1


def word_recalls(counts: Counts) -> numpy.ndarray:
    """The share of each word that is found at each step, all noise levels together: (W, G)."""
    best: dict[tuple[int, int], tuple[int, float]] = {}
    for candidate, label, logit in zip(counts.candidates, counts.label.tolist(), counts.logit.tolist(), strict=True):
        if candidate.status == MATCH:
            key = (candidate.stream, candidate.word)
            best[key] = (label, max(logit, best.get(key, (0, -math.inf))[1]))
    said = counts.said.sum(0)
    recalls = numpy.zeros((len(counts.words), len(STEPS)))
    for label, logit in best.values():
        recalls[label] += logit >= STEPS
    return recalls / numpy.maximum(said, 1)[:, None]


def alarm_rates(counts: Counts) -> numpy.ndarray:
    """The expected false alarms an hour of each word at each step: (S, W, G).

    Alarms below the lowest step say nothing of the others, and are left out.
    """
    rates = numpy.zeros((len(counts.conditions), len(counts.words), len(STEPS)))
    is_counted = counts.logit >= STEPS[0]
    for condition in range(len(counts.conditions)):
        logits = [
            numpy.sort(counts.logit[is_counted & (counts.condition == condition) & (counts.label == word)])[::-1]
            for word in range(len(counts.words))
        ]
        scale = tail_scale(logits)
        for word, values in enumerate(logits):
            alarms = tail_rates(values, scale, FEW / len(logits))
            rates[condition, word] = alarms / max(counts.hours[condition, word], 1e-9)
    return rates


def tail_scale(logits: Sequence[numpy.ndarray]) -> float:
    """The mean excess of alarms over the k-th highest one, over all words; 1 if there are too few alarms.

    The logits of each word are sorted, the highest first. Of k alarms, k − 1 are excesses.
    """
    tails = [numpy.minimum(values[:TAIL], STEPS[-1]) for values in logits if len(values) > 1]
    count = sum(len(tail) - 1 for tail in tails)
    excess = sum(float((tail - tail[-1]).sum()) for tail in tails)
    return max(excess / count, 0.1) if count >= 5 and excess > 0 else 1.0


def tail_rates(values: numpy.ndarray, scale: float, few: float) -> numpy.ndarray:
    """The expected number of alarms at or above each step: counted below the tail, fitted or counted in it: (G,).

    Args:
        values: The logits of the alarms, the highest first.
        scale: From `tail_scale`.
        few: Number of alarms assumed for a word without any, at probabilities of one half and below.
    """
    if not len(values):
        return few * numpy.exp(-numpy.maximum(STEPS, 0) / scale)
    tail = min(TAIL, len(values))
    fitted = tail * numpy.exp(-(STEPS - values[tail - 1]) / scale)
    counted = (values[None] >= STEPS[:, None]).sum(1)
    return numpy.where(values[tail - 1] >= STEPS, counted, numpy.maximum(fitted, counted))
