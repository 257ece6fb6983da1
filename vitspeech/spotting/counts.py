"""Counts behind a curve: misses and false alarms of every word at every threshold, from one pass of candidates.

Shapes: K candidates, W words of the model, S conditions with alarms, L noise levels.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
import torch

from vitspeech.data.audio.continuous import occurrences
from vitspeech.metrics.intervals import bootstrap_ratio_interval, poisson_interval, wilson_interval
from vitspeech.spotting.listening import ALARM, DISCOUNTED, EXTRA, MATCH, Candidate, Heard, neighbors, noise_name
from vitspeech.spotting.streams import KEYWORDS, OTHERS, SOUNDS, SPEECH

ALARMING = (SPEECH, OTHERS, SOUNDS)  # the conditions in which every detection that is not discounted is a false alarm
RESAMPLES = 2000
FEWEST_SPEAKERS = 5  # of a bootstrap: resamples of fewer differ too little


@dataclass(frozen=True)
class OperatingPoint:
    """What a spotter does with one set of thresholds.

    Args:
        thresholds: The lowest probability of a detection, for each word.
        alarms: False alarms (S, W).
        found: Words that were detected (L, W).
        kept: Which candidates are detections (K,).
    """

    thresholds: dict[str, float]
    alarms: numpy.ndarray
    found: numpy.ndarray
    kept: numpy.ndarray


class Counts:
    """Counts detections of streams.

    The candidates are in the order of the streams; the ends of two detections are at least `refractory_s` apart.

    Attributes:
        conditions: Those with alarms that occur, S.
        levels: The noise levels of the keywords, L.
        hours: Hours in which an alarm of each word can occur (S, W): recordings whose transcript has the word are out.
        said: How often each word is said at each level (L, W).
    """

    def __init__(
        self, words: Sequence[str], heard: Sequence[Heard], candidates: Sequence[Candidate], refractory_s: float
    ) -> None:
        self.words, self.heard, self.candidates = list(words), list(heard), list(candidates)
        self.refractory_s = refractory_s
        occurring = {item.stream.condition for item in heard}
        self.conditions = [name for name in ALARMING if name in occurring]
        self.levels = list(
            dict.fromkeys(noise_name(item.stream.snr_db) for item in heard if item.stream.condition == KEYWORDS)
        )
        self.hours = numpy.zeros((len(self.conditions), len(words)))
        self.said = numpy.zeros((len(self.levels), len(words)), int)
        for item in heard:
            if item.stream.condition == KEYWORDS:
                level = self.levels.index(noise_name(item.stream.snr_db))
                for word in item.stream.words:
                    self.said[level, self.words.index(word.label)] += 1
            else:
                self.hours[self.conditions.index(item.stream.condition)] += self.free_hours(item)
        self.label = numpy.array([self.words.index(item.detection.label) for item in candidates], int)
        self.logit = logit(numpy.array([item.detection.probability for item in candidates], float))
        place = [heard[item.stream].stream for item in candidates]
        self.condition = numpy.array(
            [
                self.conditions.index(stream.condition) if item.status == ALARM else -1
                for item, stream in zip(candidates, place, strict=True)
            ],
            int,
        )
        self.level = numpy.array(
            [
                self.levels.index(noise_name(stream.snr_db)) if item.status == MATCH else -1
                for item, stream in zip(candidates, place, strict=True)
            ],
            int,
        )
        # One number for each word that is said in any stream, so that a word found twice counts once.
        self.said_word = numpy.array([item.stream * 10_000 + item.word for item in candidates], int)

    def free_hours(self, item: Heard) -> numpy.ndarray:
        """The hours of a stream in which each word is not said, by the transcripts (W,)."""
        if item.stream.condition != SPEECH:
            return numpy.full(len(self.words), item.seconds / 3600)
        return numpy.array(
            [
                sum(part.end_s - part.start_s for part in item.stream.recordings if not occurrences(part.words, word))
                / 3600
                for word in self.words
            ]
        )

    def at(self, thresholds: Mapping[str, float]) -> OperatingPoint:
        """Count the detections at a threshold for each word."""
        limits = logit(numpy.array([thresholds[word] for word in self.words], float))
        kept = self.logit >= limits[self.label] if len(self.label) else numpy.zeros(0, bool)
        if self.refractory_s:
            kept = self.after_refractory(kept)
        alarms = count_pairs(self.condition[kept], self.label[kept], self.hours.shape)
        _, first = numpy.unique(numpy.where(self.level >= 0, self.said_word, -1)[kept], return_index=True)
        matched = numpy.flatnonzero(kept)[first]
        found = count_pairs(self.level[matched], self.label[matched], self.said.shape)
        return OperatingPoint(dict(thresholds), alarms, found, kept)

    def after_refractory(self, kept: numpy.ndarray) -> numpy.ndarray:
        """Drop detections that end within the refractory period after the one before, as `select` does."""
        result, last_stream, last_end_s = kept.copy(), -1, -math.inf
        for place in numpy.flatnonzero(kept).tolist():
            item = self.candidates[place]
            if item.stream != last_stream:
                last_stream, last_end_s = item.stream, -math.inf
            if max(item.detection.end_s - last_end_s, 0) < self.refractory_s:
                result[place] = False
            else:
                last_end_s = item.detection.end_s
        return result

    def alarm_rate(self, point: OperatingPoint, condition: int, word: int | None = None) -> dict[str, float]:
        """False alarms per hour in a condition, of one word or of all: `alarms`, `hours`, `per_hour`.

        The rate of all words is the sum of the words' rates, each over its own hours. The hours of all words are those
        that give this rate; without an alarm the fewest hours of a word.
        """
        hours, alarms = self.hours[condition], point.alarms[condition]
        if word is not None:
            hours, alarms = hours[[word]], alarms[[word]]
        if not hours.min() > 0:
            return {"alarms": int(alarms.sum()), "hours": 0.0, "per_hour": None}
        rate, count = float((alarms / hours).sum()), int(alarms.sum())
        effective = count / rate if count else float(hours.min())
        return {"alarms": count, "hours": effective, "per_hour": rate}

    def alarm_interval(self, point: OperatingPoint, condition: int, word: int | None = None) -> dict[str, float]:
        """`alarm_rate` with the 95 % interval of a Poisson rate, `low` and `high`.

        It is exact for one word and approximate for all, whose hours differ, and takes alarms to be independent.
        """
        rate = self.alarm_rate(point, condition, word)
        low, high = poisson_interval(rate["alarms"]) if rate["hours"] else (None, None)
        return rate | {"low": low and low / rate["hours"], "high": high and high / rate["hours"]}

    def miss_rate(self, point: OperatingPoint, level: int, word: int | None = None) -> dict[str, float]:
        """The share of words that are not detected at a noise level, of one word or of all."""
        words = slice(None) if word is None else [word]
        said, found = int(self.said[level][words].sum()), int(point.found[level][words].sum())
        return {"words": said, "missed": said - found, "rate": (said - found) / said if said else None}

    def miss_interval(self, point: OperatingPoint, level: int, word: int | None = None) -> tuple[float, float] | None:
        """The 95 % interval of `miss_rate`: bootstrap over speakers; `None` with fewer than two speakers.

        If no word is missed, or all are, the bootstrap has no width, and of fewer than `FEWEST_SPEAKERS` it is too
        narrow. The interval is then Wilson's, of as many trials as speakers, since the words of one speaker are not
        independent.
        """
        found = {
            (item.stream, item.word)
            for item, is_kept in zip(self.candidates, point.kept, strict=True)
            if is_kept and item.status == MATCH
        }
        missed, speakers = [], []
        for number, item in enumerate(self.heard):
            if item.stream.condition == KEYWORDS and noise_name(item.stream.snr_db) == self.levels[level]:
                for place, said in enumerate(item.stream.words):
                    if word is None or said.label == self.words[word]:
                        missed.append(float((number, place) not in found))
                        speakers.append(said.speaker)
        count = len(set(speakers))
        if count < 2:
            return None
        if count < FEWEST_SPEAKERS or len(set(missed)) == 1:
            return wilson_interval(sum(missed) / len(missed), count)
        values = torch.tensor(missed)
        return bootstrap_ratio_interval(values, torch.ones_like(values), resamples=RESAMPLES, groups=speakers)

    def in_speech(self, point: OperatingPoint) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
        """Words inside sentences of continuous speech, by the transcripts, which have no times.

        Returns:
            How often each word is said (W,); how often it is reported, at most (W,): the discounted detections, but of
            one recording no more than its transcript has; and all discounted detections (W,).
        """
        said, reported, discounted = (numpy.zeros(len(self.words), int) for _ in range(3))
        times: Counter[tuple[int, int, int]] = Counter()
        for number, item in enumerate(self.heard):
            for place, part in enumerate(item.stream.recordings if item.stream.condition == SPEECH else ()):
                for word, label in enumerate(self.words):
                    times[number, place, word] = len(occurrences(part.words, label))
                    said[word] += times[number, place, word]
        for item, word, is_kept in zip(self.candidates, self.label.tolist(), point.kept, strict=True):
            if is_kept and item.status == DISCOUNTED:
                discounted[word] += 1
                recordings = self.heard[item.stream].stream.recordings
                near = [item.recording, *neighbors(item.detection, recordings)]
                place = next((place for place in near if times[item.stream, place, word]), None)
                if place is not None:
                    times[item.stream, place, word] -= 1
                    reported[word] += 1
        return said, reported, discounted

    def delays(self, point: OperatingPoint) -> list[float]:
        """Seconds from the end of each word that was found to the last audio that its first detection depends on."""
        first: dict[tuple[int, int], float] = {}
        for item, is_kept in zip(self.candidates, point.kept, strict=True):
            if is_kept and item.status == MATCH:
                delay = item.detection.decided_s - self.heard[item.stream].stream.words[item.word].end_s
                key = (item.stream, item.word)
                first[key] = min(delay, first.get(key, math.inf))
        return sorted(first.values())

    def extras(self, point: OperatingPoint) -> dict[str, int]:
        """Detections among the keywords beyond the first of each word: repeated, another word, or beside all words."""
        kept = [item for item, is_kept in zip(self.candidates, point.kept, strict=True) if is_kept]
        matches = [(item.stream, item.word) for item in kept if item.status == MATCH]
        extra = [item for item in kept if item.status == EXTRA]
        on_word = sum(item.word >= 0 for item in extra)
        return {"repeated": len(matches) - len(set(matches)), "another_word": on_word, "beside": len(extra) - on_word}


def logit(probability: numpy.ndarray) -> numpy.ndarray:
    """The logit of probabilities; ±inf at 0 and 1."""
    with numpy.errstate(divide="ignore"):
        return numpy.log(probability) - numpy.log1p(-probability)


def count_pairs(rows: numpy.ndarray, columns: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    """How often each pair of indices occurs; pairs with a row of -1 are left out."""
    counts = numpy.zeros(shape, int)
    numpy.add.at(counts, (rows[rows >= 0], columns[rows >= 0]), 1)
    return counts
