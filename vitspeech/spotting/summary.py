"""The numbers of a measurement: the operating point of a model, and the curve through it."""

import math
from collections.abc import Mapping
from statistics import median, quantiles
from typing import Any

import numpy

from vitspeech.spotting.counts import Counts, OperatingPoint, logit
from vitspeech.spotting.streams import KEYWORDS, OTHERS, SPEECH

SHIFTS = tuple(round(-6 + 0.1 * step, 1) for step in range(221))  # of all thresholds, in logits
RATES = (0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)  # false alarms an hour at which the recall is given
MISS_RATES = (0.05, 0.1, 0.2)  # at which false alarms are given


def shifted(thresholds: Mapping[str, float], shift: float) -> dict[str, float]:
    """Thresholds whose logits are `shift` higher."""
    return {
        word: float(1 / (1 + numpy.exp(-(logit(numpy.float64(value)) + shift)))) for word, value in thresholds.items()
    }


def curve(counts: Counts, thresholds: Mapping[str, float]) -> list[OperatingPoint]:
    """The operating points at all `SHIFTS` of the thresholds; at a shift of 0 they are the model's own."""
    return [counts.at(shifted(thresholds, shift) if shift else dict(thresholds)) for shift in SHIFTS]


def summary(counts: Counts, thresholds: Mapping[str, float]) -> dict[str, Any]:
    """The operating point and the curve, as JSON."""
    points = curve(counts, thresholds)
    own = points[SHIFTS.index(0.0)]
    return {
        "conditions": conditions(counts),
        "operating_point": {
            "thresholds": own.thresholds,
            "all": numbers(counts, own, None, with_intervals=True),
            "words": {
                word: numbers(counts, own, index, with_intervals=True) for index, word in enumerate(counts.words)
            },
            "delay_s": delay(counts.delays(own)),
            "extra_detections": counts.extras(own),
            "inside_sentences": inside_sentences(counts, own),
        },
        "reached": {condition: reached(counts, points, index) for index, condition in enumerate(counts.conditions)},
        "curve": [
            {"shift": shift, "all": numbers(counts, point, None)}
            | {"words": {word: numbers(counts, point, index) for index, word in enumerate(counts.words)}}
            for shift, point in zip(SHIFTS, points, strict=True)
        ],
    }


def numbers(counts: Counts, point: OperatingPoint, word: int | None, *, with_intervals: bool = False) -> dict[str, Any]:
    """Alarms by condition and misses by noise level, of one word or of all."""
    rate = counts.alarm_interval if with_intervals else counts.alarm_rate
    alarms = {name: rate(point, index, word) for index, name in enumerate(counts.conditions)}
    misses = {name: counts.miss_rate(point, index, word) for index, name in enumerate(counts.levels)}
    if with_intervals:
        for index, values in enumerate(misses.values()):
            values["interval_95"] = counts.miss_interval(point, index, word)
    return {"alarms": alarms, "misses": misses}


def inside_sentences(counts: Counts, point: OperatingPoint) -> dict[str, Any] | None:
    """How often each word is said in continuous speech, and reported; `None` if no transcript has a word."""
    values = counts.in_speech(point)
    if not values[0].any():
        return None
    rows = [
        dict(zip(("said", "reported", "discounted"), map(int, row), strict=True)) for row in zip(*values, strict=True)
    ]
    total = {name: sum(row[name] for row in rows) for name in rows[0]}
    return {"all": total, "words": dict(zip(counts.words, rows, strict=True))}


def conditions(counts: Counts) -> dict[str, Any]:
    """What was heard in each condition."""
    result: dict[str, Any] = {}
    for condition in (*counts.conditions, KEYWORDS):
        streams = [item.stream for item in counts.heard if item.stream.condition == condition]
        parts = [part for stream in streams for part in stream.recordings]
        seconds = sum(item.seconds for item in counts.heard if item.stream.condition == condition)
        said = [word for stream in streams for word in stream.words]
        speakers = {word.speaker for word in said} or {part.speaker for part in parts}
        result[condition] = {"hours": seconds / 3600, "streams": len(streams), "speakers": len(speakers)}
        if condition in counts.conditions:
            hours = counts.hours[counts.conditions.index(condition)]
            result[condition]["no_alarm_bounds_rate_below"] = bound(float(hours.min()))
        if condition == SPEECH:
            result[condition] |= {
                "recordings": len(parts),
                "transcribed": sum(part.words is not None for part in parts),
                "hours_by_word": dict(zip(counts.words, hours.tolist(), strict=True)),
            }
        if condition in (OTHERS, KEYWORDS):
            result[condition]["words"] = len(said)
        if condition == KEYWORDS:
            result[condition]["by_level"] = {
                level: dict(zip(counts.words, row.tolist(), strict=True))
                for level, row in zip(counts.levels, counts.said, strict=True)
            }
    return result


def bound(hours: float) -> float | None:
    """The upper end of the 95 % interval of the rate if there is no alarm in so many hours."""
    return -math.log(0.025) / hours if hours else None


def delay(delays: list[float]) -> dict[str, float] | None:
    """Median and 90th percentile of delays in seconds; `None` with fewer than two words."""
    if len(delays) < 2:
        return None
    return {"median": median(delays), "90_percent_below": quantiles(delays, n=10, method="inclusive")[-1]}


def reached(counts: Counts, points: list[OperatingPoint], condition: int) -> dict[str, Any]:
    """The fewest misses at some rates of alarms, and the lowest rates at some shares of misses, over the curve."""
    rates = [counts.alarm_rate(point, condition)["per_hour"] for point in points]
    result: dict[str, Any] = {}
    for level, name in enumerate(counts.levels):
        misses = [counts.miss_rate(point, level)["rate"] for point in points]
        pairs = [
            (rate, miss) for rate, miss in zip(rates, misses, strict=True) if rate is not None and miss is not None
        ]
        result[name] = {
            "misses_at_alarms_per_hour": {
                f"{limit:g}": min((miss for rate, miss in pairs if rate <= limit), default=None) for limit in RATES
            },
            "alarms_per_hour_at_misses": {
                f"{limit:g}": min((rate for rate, miss in pairs if miss <= limit), default=None) for limit in MISS_RATES
            },
        }
    return result
