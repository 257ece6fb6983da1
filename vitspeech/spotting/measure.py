"""A keyword spotter measured by the protocol of docs/spotting.md: its operating point, and the curve through it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.continuous import occurrences
from vitspeech.data.clips.speech_commands import UNKNOWN
from vitspeech.decoding.keywords import NO_WORDS, SpottingSettings
from vitspeech.errors import MOST_SEED, InputError, check_number
from vitspeech.provenance import provenance
from vitspeech.spotting.counts import Counts, OperatingPoint, logit
from vitspeech.spotting.listening import ALARM, Heard, Listener
from vitspeech.spotting.streams import KEYWORDS, OTHERS, SPEECH, sound_streams, speech_streams, word_streams

SHIFTS = tuple(round(-6 + 0.1 * step, 1) for step in range(221))  # of all thresholds, in logits
RATES = (0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)  # false alarms per hour of the tables
MISS_RATES = (0.05, 0.1, 0.2)  # at which false alarms are given
SHORTEST_H = 0.001  # of speech


@dataclass(frozen=True)
class Plan:
    """What is heard.

    Args:
        keywords: Folder of one folder per word: the model's words and, for the test of other words, others. `None`:
            false alarms alone are counted.
        speech: Folder of continuous speech.
        sounds: Folder of sounds without speech; it is heard whole.
        split: `train`, `validation`, `test` or `all`, of words and speech.
        hours: Hours of speech, up to the end of the recording that reaches them; `None` is all.
        clips: Maximum number of clips of the model's words, and of other words; `None` is all.
        seed: Of everything that is drawn at random.
    """

    keywords: Path | None = None
    speech: Path | None = None
    sounds: Path | None = None
    split: str = "test"
    hours: float | None = None
    clips: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("hours", SHORTEST_H), ("clips", 1)):
            if (value := getattr(self, name)) is not None:
                check_number(name, value, low)
        check_number("seed", self.seed, 0, MOST_SEED)
        if self.hours is not None and self.speech is None:
            raise InputError(f"hours={self.hours} limits the speech; give --speech, or leave out --hours")
        if self.clips is not None and self.keywords is None:
            raise InputError(f"clips={self.clips} limits the words; give --keywords, or leave out --clips")
        if {self.keywords, self.speech, self.sounds} == {None}:
            raise InputError("nothing to hear: give --keywords, --speech or --sounds")


@dataclass(frozen=True)
class Measurement:
    """What a model heard by a plan: the streams with its logits, and notes on what was left out, and why."""

    plan: Plan
    listener: Listener
    heard: list[Heard]
    notes: list[str]

    def counts(self, settings: SpottingSettings) -> Counts:
        """The counts with settings of the decoder."""
        candidates = self.listener.candidates(self.heard, settings)
        return Counts(self.listener.words, self.heard, candidates, settings.refractory_s)

    def summary(self, counts: Counts, settings: SpottingSettings, name: str) -> dict[str, Any]:
        """All numbers of the `counts` with these settings, as JSON; `name` is the model's."""
        listener = self.listener
        thresholds = {word: float(settings.threshold(word)) for word in listener.words}
        points = curve(counts, thresholds)
        own = points[SHIFTS.index(0.0)]
        plan = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self.plan).items()}
        return {
            "model": name,
            "plan": plan,
            "settings": {key: value for key, value in asdict(settings).items() if key != "thresholds"},
            "notes": self.notes,
            "provenance": provenance(),
            "real_time_factor": listener.computing_s / listener.seconds,
            "other_words": other_words(counts, own.kept, listener.model.card),
            "conditions": conditions(counts),
            "operating_point": {
                "thresholds": thresholds,
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


def measure(model: Model, plan: Plan, *, with_others: bool = True, every_word: bool = False) -> Measurement:
    """Run a model over all streams of a plan. Progress is shown.

    Args:
        model: The model.
        plan: What is heard.
        with_others: Whether other words are heard.
        every_word: Whether every word of the model must have recordings.
    """
    listener = Listener(model)
    words, split = listener.words, plan.split
    notes = []
    if missing := [label for label in NO_WORDS if label not in model.labels]:
        notes.append(f"The model has no label {' and '.join(missing)}: it takes every sound for a word.")
    keywords, others = [], []
    if plan.keywords is not None:
        options = {"with_others": with_others, "every_word": every_word}
        keywords, others = word_streams(plan.keywords, words, split, plan.clips, plan.seed, **options)
    elif every_word:
        raise InputError("no recordings of the words, which thresholds must find; give --keywords")
    else:
        notes.append("Without --keywords, misses are not measured.")
    speech = speech_streams(plan.speech, split, plan.hours, plan.seed) if plan.speech else []
    sounds = sound_streams(plan.sounds) if plan.sounds else []
    if not (speech or sounds or others):
        notes.append("Without --speech, --sounds and other words, false alarms are not counted.")
    elif with_others and keywords and not others:
        notes.append(f"{plan.keywords} has no other words in the split {split}: alarms in other words not measured.")
    named = {"keywords": keywords, "other words": others, "speech": speech, "sounds": sounds}
    heard = [item for name, makers in named.items() if makers for item in listener.hear(makers, name)]
    spoken = {word for item in heard if item.stream.condition == KEYWORDS for word in item.stream.words}
    said = {word.label for word in spoken}
    if unknown := {word.clip for word in spoken if word.speaker == word.clip}:
        text = "recordings of the words state no speaker and count as one each: intervals of misses may be too narrow"
        notes.append(f"{len(unknown):,} {text}.")
    if keywords and (missing := [word for word in words if word not in said]):
        limit = f" among {plan.clips} clips" if plan.clips else ""
        notes.append(f"No recordings of {', '.join(missing)} in the split {split}{limit}: misses not measured.")
    if never_free := words_of_all_speech(words, heard):
        notes.append(f"Every recording of the speech has {', '.join(never_free)}: false alarms can't be counted in it.")
    return Measurement(plan, listener, heard, notes)


def words_of_all_speech(words: Iterable[str], heard: Iterable[Heard]) -> list[str]:
    """The words that every recording of continuous speech has, so that false alarms of them cannot be counted in it."""
    parts = [part for item in heard if item.stream.condition == SPEECH for part in item.stream.recordings]
    return [word for word in words if parts and all(occurrences(part.words, word) for part in parts)]


def curve(counts: Counts, thresholds: Mapping[str, float]) -> list[OperatingPoint]:
    """The operating points at all `SHIFTS` of the thresholds' logits; at a shift of 0 they are the model's own."""
    return [
        counts.at(
            {word: float(1 / (1 + numpy.exp(-(logit(numpy.float64(p)) + shift)))) for word, p in thresholds.items()}
            if shift
            else thresholds
        )
        for shift in SHIFTS
    ]


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
    for condition in (*counts.conditions, *[KEYWORDS] * bool(counts.levels)):
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
        pairs = [pair for pair in zip(rates, misses, strict=True) if None not in pair]
        result[name] = {
            "misses_at_alarms_per_hour": {
                f"{limit:g}": min((miss for rate, miss in pairs if rate <= limit), default=None) for limit in RATES
            },
            "alarms_per_hour_at_misses": {
                f"{limit:g}": min((rate for rate, miss in pairs if miss <= limit), default=None) for limit in MISS_RATES
            },
        }
    return result


def other_words(counts: Counts, kept: numpy.ndarray, card: Mapping[str, Any]) -> dict[str, Any] | None:
    """Alarms in other words whose recordings training heard as `unknown`, and in the rest, by the model's card.

    Returns:
        `None` if there are no other words; `by_card` is `None` if the card does not say it.
    """
    said = Counter(word.label for item in counts.heard if item.stream.condition == OTHERS for word in item.stream.words)
    heard = heard_words(card, said)
    if not said or heard is None:
        return {"words": dict(said), "by_card": None} if said else None
    alarms: Counter[str] = Counter()
    for item, is_kept in zip(counts.candidates, kept, strict=True):
        stream = counts.heard[item.stream].stream
        if is_kept and item.status == ALARM and stream.condition == OTHERS and item.word >= 0:
            alarms[stream.words[item.word].label] += 1
    parts = {"heard": [word for word in said if word in heard], "unheard": [word for word in said if word not in heard]}
    by_card = {
        name: {"labels": sorted(some), "words": sum(map(said.get, some)), "alarms": sum(alarms[word] for word in some)}
        for name, some in parts.items()
    }
    return {"words": dict(said), "by_card": by_card}


def heard_words(card: Mapping[str, Any], words: Iterable[str]) -> set[str] | None:
    """Those of some other words whose recordings training heard as `unknown`; `None` if the card does not say it."""
    heard = card.get("heard_words")
    return None if heard is None or UNKNOWN in heard else set(words) & set(heard)


def number(value: float | None) -> str:
    """A rate with two digits, more if it is large."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def rate_text(alarms: Mapping[str, Any]) -> str:
    """A rate of alarms with its interval, or the bound if there was none."""
    if alarms["per_hour"] is None:
        return "not measured"
    if not alarms["alarms"]:
        return f"none; below {number(alarms['high'])}"
    return f"{number(alarms['per_hour'])} ({number(alarms['low'])}–{number(alarms['high'])})"


def percent(miss: Mapping[str, Any]) -> str:
    """A share of misses with its interval."""
    if miss["rate"] is None:
        return "–"
    interval = miss.get("interval_95")
    return f"{100 * miss['rate']:.1f} %" + (f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval else "")
