#!/usr/bin/env python3
"""A keyword spotter with a second model's opinion of each candidate, beside the spotter alone.

python docs/results/second_opinion.py MODEL SECOND --keywords FOLDER --speech FOLDER [--sounds FOLDER] [--split test]

MODEL finds candidates. The opinion of SECOND, which has the same words, is the word's highest probability in a clip
that ends between 0.1 s before and 0.6 s after the end of the candidate. Its log-odds, times a weight, are added to
those of the candidate. A candidate in a recording that is too short for such a clip keeps its probability.
Prints, for each weight and limit of false alarms per hour of speech, the point of the curve with the fewest misses.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy
import torch
from torch import Tensor

import vitspeech
from vitspeech.decoding.keywords import KeywordDecoder
from vitspeech.spotting.counts import Counts, OperatingPoint, logit
from vitspeech.spotting.listening import Candidate
from vitspeech.spotting.measure import Measurement, Plan, curve, measure, percent
from vitspeech.spotting.streams import SPEECH
from vitspeech.spotting.tune import probability

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)
LIMITS = (1, 3, 10)  # false alarms per hour of speech
LEAST = 1e-9  # of a probability
BEFORE_S, AFTER_S = 0.1, 0.6  # of the candidate's end, within which a clip of the second model ends


def opinion(candidate: Candidate, logits: Tensor, decoder: KeywordDecoder) -> float:
    """The log-odds of a candidate's word in the best clip near its end, or else 0: logits of the stream (T, C)."""
    logits, word = logits.double().cpu(), decoder.labels.index(candidate.detection.label)
    clip = min(decoder.clip, len(logits))
    ends_s = decoder.first_s + decoder.hop_s * numpy.arange(1, len(logits) + 1)
    distances_s = ends_s - candidate.detection.end_s
    near = numpy.flatnonzero((distances_s >= -BEFORE_S) & (distances_s <= AFTER_S)).tolist()
    clips = [logits[end + 1 - clip : end + 1].mean(0) for end in near if end + 1 >= clip > 0]
    return max((log_odds(float(one.softmax(0)[word])) for one in clips), default=0.0)


def log_odds(probability: float) -> float:
    """The log-odds of a probability, finite."""
    return float(logit(numpy.clip(probability, LEAST, 1 - LEAST)))


def with_opinions(candidates: list[Candidate], opinions: list[float], weight: float) -> Iterator[Candidate]:
    """The candidates, with probabilities from both models."""
    for one, second in zip(candidates, opinions, strict=True):
        total = log_odds(one.detection.probability) + weight * second
        yield replace(one, detection=replace(one.detection, probability=probability(total)))


def points(first: Measurement, second: Measurement) -> Iterator[tuple[float, int, Counts, OperatingPoint]]:
    """For each weight and limit, the point of the curve with the fewest misses without noise."""
    listener = first.listener
    settings, decoder = listener.settings, second.listener.spotter.decoder
    candidates = listener.candidates(first.heard, settings)
    opinions = [opinion(one, second.heard[one.stream].logits, decoder) for one in candidates]
    for weight in WEIGHTS:
        judged = list(with_opinions(candidates, opinions, weight))
        counts = Counts(listener.words, first.heard, judged, settings.refractory_s)
        speech = counts.conditions.index(SPEECH)
        everywhere = curve(counts, dict.fromkeys(listener.words, 0.5))
        for limit in LIMITS:
            allowed = [point for point in everywhere if counts.alarm_rate(point, speech)["per_hour"] <= limit]
            if allowed:
                yield weight, limit, counts, min(allowed, key=lambda point: counts.miss_rate(point, 0)["rate"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--keywords", type=Path, required=True)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--sounds", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--clips", type=int, help="keywords, and other words (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    plan = Plan(options.keywords, options.speech, options.sounds, options.split, clips=options.clips)
    first, second = (measure(vitspeech.load(path), plan) for path in (options.model, options.second))
    for weight, limit, counts, point in points(first, second):
        missed = ", ".join(f"{name} {percent(counts.miss_rate(point, n))}" for n, name in enumerate(counts.levels))
        rates = [counts.alarm_rate(point, n)["per_hour"] for n in range(len(counts.conditions))]
        alarms = ", ".join(f"{name} {rate:.1f}" for name, rate in zip(counts.conditions, rates, strict=True))
        print(f"weight {weight:g}, at most {limit} per hour of speech: missed {missed}; alarms per hour: {alarms}")


if __name__ == "__main__":
    main()
