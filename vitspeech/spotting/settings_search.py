"""The search for a decoder's settings: a small grid, one number after another, with the best thresholds for each."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vitspeech.decoding.spotting_settings import SpottingSettings
from vitspeech.errors import InputError
from vitspeech.spotting.composition import refuse_missing
from vitspeech.spotting.counts import Counts
from vitspeech.spotting.measure import Measurement, Plan, unsaid_words, words_of_all_speech
from vitspeech.spotting.sentences import NAMES, number, percent, rate_text
from vitspeech.spotting.streams import OTHERS, SOUNDS, SPEECH
from vitspeech.spotting.tuning import Choice, choose

GRID = {
    "token_probability": (0.3, 0.45, 0.6),
    "smoothing_s": (0.04, 0.12, 0.2),
    "shortest_s": (0.1, 0.15, 0.2),
    "pause_s": (0.08, 0.16),
}
REFRACTORY_S = 0.3  # is tried as well; the ends of two words are rarely closer
RATES = (0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)  # of the table of operating points


@dataclass(frozen=True)
class Tuned:
    """Settings that were chosen.

    Args:
        settings: The settings with their thresholds.
        choice: The thresholds, and what they are estimated to do without a refractory period.
        counts: The counts with these settings; the thresholds may be varied.
    """

    settings: SpottingSettings
    choice: Choice
    counts: Counts


def wanted_rates(plan: Plan, rate: float, others: float | None) -> dict[str, float]:
    """The wanted rate of each condition that counts: speech and sounds where there are any, other words if asked for.

    Raises:
        InputError: If a rate is not positive, or nothing is there to count alarms in.
    """
    for name, value in (("alarms-per-hour", rate), ("others", others)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"--{name} {value}: is not a positive number")
    rates = {SPEECH: rate if plan.speech else None, SOUNDS: rate if plan.sounds else None, OTHERS: others}
    wanted = {name: value for name, value in rates.items() if value is not None}
    if not wanted:
        raise InputError("nothing to count false alarms in: give --speech, --sounds or --others RATE")
    return wanted


def tune(measurement: Measurement, wanted: Mapping[str, float]) -> Tuned:
    """Choose thresholds and settings with the highest recall at a rate of false alarms.

    Args:
        measurement: What the model heard, of validation.
        wanted: False alarms an hour, for each condition that counts.

    Raises:
        InputError: If a word has no recordings, none is ever found, other words count and there are none, all
            speech has a word, or no thresholds reach the wanted rate; the message has the nearest one.
    """
    plan = measurement.plan
    refuse_missing(plan.keywords, plan.split, unsaid_words(measurement.listener.words, measurement.heard))
    if OTHERS in wanted and all(item.stream.condition != OTHERS for item in measurement.heard):
        raise InputError(f"{plan.keywords} has no other words in the split {plan.split} to count false alarms in")
    if SPEECH in wanted and (said := words_of_all_speech(measurement.listener.words, measurement.heard)):
        raise InputError(
            f"every recording of {plan.speech} that is heard has {', '.join(said)}: give speech without it, in which "
            "false alarms can be counted"
        )
    best = attempt(measurement, replace(measurement.listener.settings, refractory_s=0.0), wanted)
    for name, values in GRID.items():
        for value in values:
            settings = replace(best.settings, **{name: value})
            if value != getattr(best.settings, name):
                other = attempt(measurement, settings, wanted)
                best = other if rank(other, wanted) > rank(best, wanted) else best
    if not best.choice.recall:
        raise InputError(f"the model finds none of the words in {plan.keywords}, whatever the thresholds")
    excess = {name: rate for name, rate in best.choice.expected.items() if rate > wanted.get(name, float("inf"))}
    if excess:
        name, rate = max(excess.items(), key=lambda item: item[1] / wanted[item[0]])
        raise InputError(
            f"no thresholds reach {wanted[name]:g} false alarms an hour of {NAMES[name]}: the nearest rate is "
            f"{rate:.3g}, at which {100 * best.choice.recall:.1f} % of the words are found"
        )
    return with_refractory(measurement, best)


def attempt(measurement: Measurement, settings: SpottingSettings, wanted: Mapping[str, float]) -> Tuned:
    """The best thresholds with some settings."""
    counts = measurement.counts(settings)
    choice = choose(counts, wanted)
    return Tuned(replace(settings, thresholds=choice.thresholds), choice, counts)


def rank(tuned: Tuned, wanted: Mapping[str, float]) -> tuple[float, float]:
    """What settings are compared by: how far the rates are above the wanted ones, then the recall."""
    excess = max((tuned.choice.expected[name] / rate for name, rate in wanted.items()), default=0.0)
    return -max(excess, 1.0), tuned.choice.recall


def with_refractory(measurement: Measurement, tuned: Tuned) -> Tuned:
    """The same with a refractory period, if that takes alarms away and no word that was found."""
    counts = Counts(tuned.counts.words, tuned.counts.heard, tuned.counts.candidates, REFRACTORY_S)
    before, after = tuned.choice.point, counts.at(tuned.choice.thresholds)
    if after.alarms.sum() < before.alarms.sum() and (after.found == before.found).all():
        settings = replace(tuned.settings, refractory_s=REFRACTORY_S)
        return Tuned(settings, replace(tuned.choice, point=after), counts)
    return tuned


def operating_points(tuned: Tuned, wanted: Mapping[str, float]) -> Iterator[tuple[float, Choice, bool]]:
    """The best thresholds at several rates, all conditions scaled alike: (rate of the first, choice, is it reached).

    Of the rates that are not reached only the highest is there.
    """
    first, points = next(iter(wanted)), []
    counts = Counts(tuned.counts.words, tuned.counts.heard, tuned.counts.candidates, 0.0)
    for rate in sorted({*RATES, wanted[first]}):
        limits = {name: value * rate / wanted[first] for name, value in wanted.items()}
        choice = choose(counts, limits)
        is_reached = all(choice.expected[name] <= limit for name, limit in limits.items())
        choice = replace(choice, point=tuned.counts.at(choice.thresholds))
        points = [*(points if is_reached else []), (rate, choice, is_reached)]
    yield from points


def table(tuned: Tuned, wanted: Mapping[str, float]) -> list[str]:
    """The operating points as the lines of a table."""
    counts = tuned.counts
    header = ["wanted an hour", *(f"{NAMES[name]}: expected, counted" for name in wanted)]
    rows = [[*header, *(f"missed, {level}" for level in counts.levels)]]
    for rate, choice, is_reached in operating_points(tuned, wanted):
        cells = [f"{rate:g}" if is_reached else f"{rate:g} (not reached)"]
        for name in wanted:
            alarms = counts.alarm_interval(choice.point, counts.conditions.index(name))
            cells.append(f"{number(choice.expected[name])}, {rate_text(alarms)}")
        cells += [percent(counts.miss_rate(choice.point, level)) for level in range(len(counts.levels))]
        rows.append(cells)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def never_found(tuned: Tuned) -> list[str]:
    """The words that are not found once at their thresholds."""
    found = tuned.choice.point.found.sum(0)
    return [word for word, count in zip(tuned.counts.words, found.tolist(), strict=True) if not count]


def record(tuned: Tuned, measurement: Measurement, wanted: Mapping[str, float]) -> dict[str, Any]:
    """What the card says about the choice: what was wanted, expected and counted, and the curve around it."""
    counts, choice = tuned.counts, tuned.choice
    return {
        "wanted_alarms_per_hour": dict(wanted),
        "expected_alarms_per_hour": {name: choice.expected[name] for name in wanted},
        "counted": {name: counts.alarm_interval(choice.point, counts.conditions.index(name)) for name in wanted},
        "missed": missed(counts, choice),
        "split": measurement.plan.split,
        "seed": measurement.plan.seed,
        "curve": {
            f"{rate:g}": {"expected": point.expected, "missed": missed(counts, point)}
            for rate, point, is_reached in operating_points(tuned, wanted)
            if is_reached
        },
    }


def missed(counts: Counts, choice: Choice) -> dict[str, float | None]:
    """The share of words that thresholds miss, by noise level."""
    return {name: counts.miss_rate(choice.point, level)["rate"] for level, name in enumerate(counts.levels)}
