"""The lowest threshold at a wanted rate of false alarms.

The number of alarms above a threshold says little where there are few or none, so the rate is estimated by peaks over
threshold with exponential excesses (Pickands 1975, doi:10.1214/aos/1176343003): the logits of alarms above the k-th
highest one are taken to be exponential. All words have one threshold: with one for each, chosen on the same hours,
`keywords-12` missed half as many words again at the same rate in other hours (docs/history/spotting.md).

The other settings of the decoder are searched over a small grid, one number after another, with the best threshold for
each. The result is written into the model's card.

Shapes: W words of the model, S conditions with alarms, G steps of thresholds.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy

from vitspeech.checkpoint.hub import on_hub
from vitspeech.checkpoint.model import CARD, Model, find_folder, read_mapping
from vitspeech.data.audio.continuous import list_speech, speech_split
from vitspeech.data.clips.folder import word_recordings
from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.errors import InputError, check_number, some_names
from vitspeech.files import check_target, write_text
from vitspeech.spotting.counts import Counts, OperatingPoint
from vitspeech.spotting.listening import MATCH, Listener
from vitspeech.spotting.measure import RATES, Measurement, Plan, bound, number, percent, rate_text, words_of_all_speech
from vitspeech.spotting.streams import NAMES, OTHERS, SOUNDS, SPEECH, speech_streams, word_streams

STEPS = numpy.round(numpy.arange(-4, 14.01, 0.1), 1)  # thresholds in logits: 0.018 to 0.9999992
HALF = int(numpy.flatnonzero(STEPS == 0)[0])  # the step of a probability of one half
TAIL = 20  # alarms k that the rate is estimated from, or as many as there are
FEW = 0.5  # alarms at a probability of one half that are assumed if there are none
GRID = {
    "token_probability": (0.3, 0.45, 0.6),
    "smoothing_s": (0.04, 0.12, 0.2),
    "shortest_s": (0.04, 0.1, 0.15, 0.2),
    "pause_s": (0.04, 0.08, 0.16),
}
LEAST_RATE = 1e-6  # false alarms per hour that may be wanted
REFRACTORY_S = 0.3  # at least, unless it costs a word: the ends of two words are rarely closer
RATE, LOOK_CLIPS, LOOK_HOURS = 0.5, 200, 1.1  # false alarms per hour, words and hours of speech after a training
LASTING = {  # the decoder after a training: a word is sure for 0.2 s, which few sounds are, and over after a pause
    "token_probability": 0.9,
    "smoothing_s": 0.04,
    "shortest_s": 0.2,
    "pause_s": 0.2,
    "refractory_s": 0.7,  # parts of a word are not reported one after another
}
# The decoder for words that were only synthesized: it is unsure of what people say.
UNSURE = {**LASTING, "token_probability": 0.3, "shortest_s": 0.12, "thresholds": 0.05}
TELLING, SURE = 20, 100  # words said, from which on those that are found tell good settings, and a higher threshold
# The step of the lowest threshold after a training, 0.1: below it, few hours say little (docs/history/spotting.md).
LOWEST = int(numpy.flatnonzero(STEPS == -2.2)[0])
LOWEST_UNSURE = int(numpy.flatnonzero(STEPS == -2.9)[0])  # 0.05


@dataclass(frozen=True)
class Choice:
    """Thresholds that were chosen, and what they are estimated to do.

    Args:
        thresholds: The threshold of each word.
        expected: False alarms per hour in each condition, by the fitted tails.
        recall: Mean over words of the share that is found, all noise levels together.
        point: The detections counted at these thresholds.
    """

    thresholds: dict[str, float]
    expected: dict[str, float]
    recall: float
    point: OperatingPoint


def choose(counts: Counts, wanted: Mapping[str, float]) -> Choice:
    """The threshold at which the expected rate of each condition is at most the wanted one, the same for all words.

    It is the lowest such threshold, `raised`. If none reaches the wanted rates (per hour, for each condition that
    counts), it is the highest one that finds a word.
    """
    limits = numpy.array([wanted.get(name, math.inf) for name in counts.conditions])
    rates, recalls = alarm_rates(counts), word_recalls(counts).mean(0)
    useful = numpy.flatnonzero(recalls > 0)
    fits = numpy.flatnonzero((rates <= limits[:, None]).all(0) & (recalls > 0))
    if len(fits):
        step = raised(counts, int(fits[0]), recalls)
    else:
        step = int(useful[-1]) if len(useful) else len(STEPS) - 1
    return at_step(counts, step, rates, recalls)


def raised(counts: Counts, step: int, recalls: numpy.ndarray) -> int:
    """The step, raised up to one half while no more words are missed; with few words, to `LOWEST` if that finds any."""
    if words_said(counts) < SURE:
        return max(step, LOWEST) if recalls[LOWEST] else step
    return max(step, min(HALF, int(numpy.flatnonzero(recalls == recalls[step])[-1])))


def words_said(counts: Counts) -> int:
    """The number of words that are said at one noise level."""
    return int(counts.said[:1].sum())


def at_step(counts: Counts, step: int, rates: numpy.ndarray, recalls: numpy.ndarray) -> Choice:
    """The choice of a step, given the rates of each condition (S, G) and the recalls (G,)."""
    thresholds = dict.fromkeys(counts.words, probability(STEPS[step]))
    expected = dict(zip(counts.conditions, rates[:, step].tolist(), strict=True))
    return Choice(thresholds, expected, float(recalls[step]), counts.at(thresholds))


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


def alarm_rates(counts: Counts, *, smooth: bool = False) -> numpy.ndarray:
    """The expected false alarms per hour in each condition at each step, see `tail_rates`: (S, G).

    Alarms below the lowest step say nothing of the others, and are left out.
    """
    rates = numpy.zeros((len(counts.conditions), len(STEPS)))
    lowest = counts.at(dict.fromkeys(counts.words, probability(STEPS[0])))
    for condition in range(len(counts.conditions)):
        alarms = numpy.sort(counts.logit[lowest.kept & (counts.condition == condition)])[::-1]
        rates[condition] = tail_rates(alarms, smooth) / max(counts.alarm_rate(lowest, condition)["hours"], 1e-9)
    return rates


def probability(logit: float) -> float:
    """The probability with this logit."""
    return float(1 / (1 + math.exp(-logit)))


def tail_rates(values: numpy.ndarray, smooth: bool = False) -> numpy.ndarray:
    """The expected number of alarms at or above each step: (G,).

    It is counted below the tail; in it, the higher one of fitted and counted, or if `smooth` the fitted one. `values`
    are the logits of alarms, the highest first. Of k alarms, k − 1 are excesses; a scale of 1 is assumed if there are
    too few.
    """
    if not len(values):
        return FEW * numpy.exp(-numpy.maximum(STEPS, 0))
    tail = numpy.minimum(values[:TAIL], STEPS[-1])
    scale = max((tail - tail[-1]).sum() / (len(tail) - 1), 0.1) if len(tail) > 5 else 1.0
    fitted = len(tail) * numpy.exp(-(STEPS - tail[-1]) / scale)
    counted = (values[None] >= STEPS[:, None]).sum(1)
    return numpy.where(tail[-1] >= STEPS, counted, fitted if smooth else numpy.maximum(fitted, counted))


@dataclass(frozen=True)
class Tuned:
    """Settings that were chosen with their thresholds, what these are estimated to do without a refractory period, and
    the counts with these settings, whose thresholds may be varied.
    """

    settings: SpottingSettings
    choice: Choice
    counts: Counts


def wanted_rates(plan: Plan, rate: float, others: float | None) -> dict[str, float]:
    """The wanted rate of each condition that counts: speech and sounds if there are any, other words if asked for."""
    for name, value in (("--alarms-per-hour", rate), ("--others", others)):
        if value is not None:
            check_number(name, value, LEAST_RATE)
    rates = {SPEECH: rate if plan.speech else None, SOUNDS: rate if plan.sounds else None, OTHERS: others}
    wanted = {name: value for name, value in rates.items() if value is not None}
    if not wanted:
        raise InputError("nothing to count false alarms in: give --speech, --sounds or --others RATE")
    return wanted


def tune(measurement: Measurement, wanted: Mapping[str, float]) -> Tuned:
    """Choose thresholds and settings with the highest recall at the wanted rates of false alarms.

    It is an `InputError` if no word is ever found, other words count and there are none, all speech has a word, or no
    thresholds reach the wanted rate; the message has the nearest one.
    """
    plan = measurement.plan
    if OTHERS in wanted and all(item.stream.condition != OTHERS for item in measurement.heard):
        raise InputError(f"{plan.keywords} has no other words in the split {plan.split} to count false alarms in")
    if SPEECH in wanted and (said := words_of_all_speech(measurement.listener.words, measurement.heard)):
        raise InputError(
            f"every recording of {plan.speech} that is heard has {', '.join(said)}: give speech without it, in which "
            "false alarms can be counted"
        )
    best = attempt(measurement, replace(measurement.listener.settings, refractory_s=0.0), wanted)
    for name, values in GRID.items() if words_said(best.counts) >= TELLING else ():
        for value in values:
            settings = replace(best.settings, **{name: value})
            if value != getattr(best.settings, name):
                other = attempt(measurement, settings, wanted)
                best = other if rank(other, wanted) > rank(best, wanted) else best
    if not best.choice.recall:
        raise InputError(f"the model finds none of the words in {plan.keywords}, whatever the thresholds")
    name = max(wanted, key=lambda name: best.choice.expected[name] / wanted[name], default=None)
    if name and (rate := best.choice.expected[name]) > wanted[name]:
        raise InputError(
            f"no thresholds reach {wanted[name]:g} false alarms per hour of {NAMES[name]}: the nearest rate is "
            f"{rate:.3g}, at which {100 * best.choice.recall:.1f} % of the words are found"
        )
    return with_refractory(best, max(measurement.listener.settings.refractory_s, REFRACTORY_S))


def attempt(measurement: Measurement, settings: SpottingSettings, wanted: Mapping[str, float]) -> Tuned:
    """The best thresholds with some settings."""
    counts = measurement.counts(settings)
    choice = choose(counts, wanted)
    return Tuned(replace(settings, thresholds=choice.thresholds), choice, counts)


def rank(tuned: Tuned, wanted: Mapping[str, float]) -> tuple[float, float]:
    """What settings are compared by: how far the rates are above the wanted ones, then the recall, in whole percent.

    Smaller differences are mostly noise.
    """
    excess = max((tuned.choice.expected[name] / rate for name, rate in wanted.items()), default=0.0)
    return -max(excess, 1.0), round(tuned.choice.recall, 2)


def with_refractory(tuned: Tuned, refractory_s: float) -> Tuned:
    """The same with a refractory period, if all words that were found still are."""
    counts = Counts(tuned.counts.words, tuned.counts.heard, tuned.counts.candidates, refractory_s)
    after = counts.at(tuned.choice.thresholds)
    if (after.found == tuned.choice.point.found).all():
        settings = replace(tuned.settings, refractory_s=refractory_s)
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
    header = ["wanted per hour", *(f"{NAMES[name]}: expected, counted" for name in wanted)]
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


def chosen(tuned: Tuned, record: Mapping[str, Any]) -> list[str]:
    """What was chosen, and how far the estimate can be trusted: lines of text."""
    settings = asdict(tuned.settings)
    thresholds = ", ".join(f"{word} {value:.4g}" for word, value in settings.pop("thresholds").items())
    others = ", ".join(f"{name} {value}" for name, value in settings.items())
    lines = [f"Thresholds: {thresholds}.", f"Settings: {others}."]
    found = tuned.choice.point.found.sum(0).tolist()
    if words := [word for word, count in zip(tuned.counts.words, found, strict=True) if not count]:
        lines.append(f"Never found at these thresholds: {', '.join(words)}.")
    for name, alarms in record["counted"].items():
        wanted, expected = record["wanted_alarms_per_hour"][name], record["expected_alarms_per_hour"][name]
        lines.append(
            f"{NAMES[name].capitalize()}: {wanted:g} per hour wanted, {number(expected)} expected; counted "
            f"{alarms['alarms']} in {alarms['hours']:.2f} h: {rate_text(alarms)}."
        )
        if wanted < (least := bound(alarms["hours"])):
            lines.append(
                f"So few hours can't show a rate of {wanted:g}: without any alarm they bound it below {number(least)}. "
                "The expected rate extrapolates from alarms of lower probability; measure it with more speech."
            )
    return lines


def check_card(model: str | Path) -> None:
    """Refuse a card that cannot be written later, before the work is done; see `check_target`."""
    if on_hub(model):
        raise InputError(f"{model}: the card of a model on the hub can't be written; copy its folder, or use --dry-run")
    check_target(find_folder(Path(model)) / CARD)


def save_settings(model: str | Path, settings: SpottingSettings, choice: dict[str, Any]) -> Path:
    """Write settings into the card of a model, and what is known about their choice; return the card's path."""
    card = find_folder(Path(model)) / CARD
    content = read_mapping(card, ()) | {"spotting": asdict(settings), "spotting_choice": choice}
    write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", card)
    return card


def choose_after_training(counts: Counts, rate: float, lowest: int = LOWEST) -> Choice:
    """The lowest threshold at which this rate of false alarms is expected in speech, from the step `lowest` on.

    An hour has few alarms, so the fitted tail alone counts: a single alarm far above the others does not decide. A
    threshold above one half needs at least two alarms that probable; otherwise it is one half. If enough words are said
    to tell, a threshold below one half is raised, up to one half, as long as no more of them are missed.
    """
    rates, recalls = alarm_rates(counts, smooth=True), word_recalls(counts).mean(0)
    fits = numpy.flatnonzero(rates[0] <= rate)
    step = raised(counts, max(int(fits[0]), lowest), recalls) if len(fits) else len(STEPS) - 1
    half = at_step(counts, HALF, rates, recalls)
    return half if step > HALF and half.point.alarms[0].sum() <= 1 else at_step(counts, step, rates, recalls)


def settle(folder: Path, model: Model, keywords: Path | None, speech: Sequence[Path]) -> list[str]:
    """Choose the threshold of a model that was just trained for `RATE` false alarms per hour, on validation recordings.

    It takes a minute: few words, at most 1.1 hours of speech of each folder, and the settings `LASTING` of the decoder;
    `UNSURE` if no split of `keywords` has a recording of a word. The card gets the settings.

    Returns:
        One or two lines: the threshold, what it misses and takes for a word, and the words without recordings.
    """
    listener, lines = Listener(model), []
    words, splits = listener.words, {} if keywords is None else word_recordings(keywords, listener.words)
    said = {split: {item.label for item in items}.intersection(words) for split, items in splits.items()}
    recorded, is_said = said.get("validation", set()), any(said.values())
    decoder, lowest = (LASTING, LOWEST) if is_said else (UNSURE, LOWEST_UNSURE)
    settings = replace(listener.settings, **decoder)
    heard_speech = [root for root in speech if speech_split(list_speech(root), "validation")]
    if recorded or heard_speech:
        makers = word_streams(keywords, words, "validation", LOOK_CLIPS, 0, with_others=False)[0] if recorded else []
        makers += [make for root in heard_speech for make in speech_streams(root, "validation", LOOK_HOURS, 0)]
        heard = listener.hear(makers, "choosing the threshold")
        counts = Counts(words, heard, listener.candidates(heard, settings), settings.refractory_s)
        if counts.conditions:
            choice = choose_after_training(counts, RATE, lowest)
            settings = replace(settings, thresholds=choice.thresholds)
            alarms = counts.alarm_interval(choice.point, 0)
            known = {"wanted_alarms_per_hour": {SPEECH: RATE}, "expected_alarms_per_hour": choice.expected}
            known |= {"counted": {SPEECH: alarms}, "missed": missed(counts, choice), "split": "validation"}
            save_settings(folder, settings, known)
        line = f"as a spotter, on validation: at the threshold {settings.threshold(words[0]):.2g}"
        if recorded:
            miss = counts.miss_rate(counts.at({word: settings.threshold(word) for word in words}), 0)
            line += f" it misses {percent(miss)} of {miss['words']} words"
        if counts.conditions:
            alarm = "1 false alarm" if alarms["alarms"] == 1 else f"{alarms['alarms']} false alarms"
            line += f", with {alarm} in {alarms['hours']:.2f} h of speech; expect about "
            line += f"{number(choice.expected[SPEECH])} per hour (vitspeech tune sets another rate)"
        lines.append(line)
    elif not is_said:
        save_settings(folder, settings, {"split": "synthesized"})
    if missing := [word for word in words if word not in recorded]:
        lines.append(
            f"no recordings of {some_names(missing)} in validation: how often people are missed is not known, and from "
            "synthesized voices alone it is often; record each word ten times (vitspeech record)"
        )
    return lines
