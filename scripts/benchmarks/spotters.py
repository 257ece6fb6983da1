"""Spotters of this package beside released ones of others, on the same recordings (docs/spotting.md).

Every spotter takes sound in steps and gives the probability of its words after each. One rule makes detections of them:
the probability reaches the threshold, at least `REFRACTORY_S` after the detection before. Each word is counted alone.

Shapes: N samples.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy
import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks import measure
from benchmarks.spotter_peers import RATE_HZ, Spotter, local_wake, micro_wake_word, open_wake_word, ours
from vitspeech.data.audio.reading import Notes
from vitspeech.data.clips.folder import word_recordings
from vitspeech.decoding.keywords import Detection
from vitspeech.errors import InputError
from vitspeech.files import write_json
from vitspeech.spotting.counts import Counts, logit
from vitspeech.spotting.listening import DIGITS, Candidate, Heard, judged
from vitspeech.spotting.measure import SHIFTS, curve, delay, number, numbers, percent, rate_text, reached
from vitspeech.spotting.streams import NAMES, SPEECH, MakeStreams, sound_streams, speech_streams, word_streams

REFRACTORY_S = 1.0
SPAN_S = 1.0  # a detection is taken to be on a word of the last second
RATES = ("0.5", "1", "3", "10")  # false alarms per hour of continuous speech, at which misses are given
Make = Callable[[Sequence[str]], Spotter]  # a spotter of some words; without words, of all that it knows


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        speech: Folder of continuous speech.
        keywords: Folder of one folder per word, with at least one of the spotters' words; `None`: no misses.
        sounds: Folder of sounds without speech.
        models: Released models, or finished runs, of this package.
        examples: Folder of one folder per word: the recordings that local-wake compares with.
        words: The words to measure; none is all that the spotters know.
        split: `train`, `validation`, `test` or `all`, of words and speech.
        hours: Hours of speech; `None` is all.
        clips: Maximum number of clips of each word, and of other words; `None` is all.
        seconds: Length of the speech on which time is measured.
        repeats: Passes over it after a warm-up.
    """

    speech: Path
    keywords: Path | None = None
    sounds: Path | None = None
    models: Sequence[str] = ()
    examples: Path | None = None
    words: Sequence[str] = ()
    split: str = "test"
    hours: float | None = None
    clips: int | None = None
    seconds: float = 20.0
    repeats: int = 7


def benchmark(settings: Settings, path: Path) -> dict[str, Any]:
    """Measure every spotter on one thread. The report is written to `path` after each."""
    plan = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}
    report = {"benchmark": "spotters", "settings": plan, **measure.origin("cpu"), "rows": [], "complete": False}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        spotters, report["not_run"] = made(makers(settings), settings.words)
        words = sorted({word for spotter in spotters.values() for word in spotter.thresholds})
        speech = speech_streams(settings.speech, settings.split, settings.hours, 0)
        sounds = sound_streams(settings.sounds) if settings.sounds else []
        keywords, others = word_makers(settings, words)
        singles = {name: makers(settings)[name](list(spotter.thresholds)[:1]) for name, spotter in spotters.items()}
        times = cost(settings, singles, next(speech[0](RATE_HZ, Notes())).samples)
        for name, spotter in spotters.items():
            rows = measured(name, spotter, [*speech, *others, *sounds], keywords)
            report["rows"] += [row | {"ms_per_second": times[name], "runtime": spotter.runtime} for row in rows]
            write_json(report, path)
    finally:
        torch.set_num_threads(threads)
    report["complete"] = True
    write_json(report, path)
    return report


def makers(settings: Settings) -> dict[str, Make]:
    """What makes each spotter, by name."""
    models = {f"ours: {Path(folder).name}": partial(ours, folder) for folder in settings.models}
    peers = {"openWakeWord": open_wake_word, "microWakeWord": micro_wake_word}
    return models | peers | {"local-wake": partial(local_wake, settings.examples)}


def made(makers: Mapping[str, Make], words: Sequence[str]) -> tuple[dict[str, Spotter], dict[str, str]]:
    """The spotters, and why others can't run, by name."""
    spotters, not_run = {}, {}
    for name, make in makers.items():
        try:
            spotters[name] = make(words)
        except ModuleNotFoundError:
            not_run[name] = measure.reason(measure.not_installed())
        except measure.NotRunError as error:
            not_run[name] = measure.reason(error)
    if not spotters:
        raise InputError("no spotter can run: " + "; ".join(f"{name}: {why}" for name, why in not_run.items()))
    return spotters, not_run


def word_makers(settings: Settings, words: Sequence[str]) -> tuple[dict[str, list[MakeStreams]], list[MakeStreams]]:
    """The streams of each word that was recorded, and those of other words, which all spotters hear."""
    if settings.keywords is None:
        return {}, []
    options = (settings.split, settings.clips, 0)
    others = word_streams(settings.keywords, words, *options)[1]
    splits = word_recordings(settings.keywords, words)
    said = {item.label for name, items in splits.items() if settings.split in (name, "all") for item in items}
    streams = partial(word_streams, settings.keywords, with_others=False)
    return {word: streams([word], *options)[0] for word in words if word in said}, others


def cost(settings: Settings, spotters: Mapping[str, Spotter], samples: Tensor) -> dict[str, float]:
    """Milliseconds of the processor for a second of speech: of each spotter, the median of passes in turn."""
    sound = samples[: round(settings.seconds * RATE_HZ)].numpy()
    passes: dict[str, list[float]] = {name: [] for name in spotters}
    for _ in range(settings.repeats + 1):
        for name, spotter in spotters.items():
            steps = heard_steps(spotter, sound)
            next(steps)  # with it openWakeWord hears eight seconds of silence
            start = time.process_time()
            seconds = sum(1 for _ in steps) * spotter.step / RATE_HZ
            passes[name].append(1000 * (time.process_time() - start) / seconds)
    return {name: median(some[1:]) for name, some in passes.items()}  # the first pass is the warm-up


def heard_steps(spotter: Spotter, samples: numpy.ndarray) -> Iterator[tuple[float, Mapping[str, float]]]:
    """The seconds heard and the probabilities after each step of int16 samples (N,), then a second of silence."""
    samples = numpy.pad(samples, (0, RATE_HZ))
    spotter.restart()
    for end in range(spotter.step, len(samples) + 1, spotter.step):
        yield end / RATE_HZ, spotter.push(samples[end - spotter.step : end])


def listen(
    spotter: Spotter, makers: Sequence[MakeStreams], first: int, text: str
) -> tuple[list[Heard], list[Candidate]]:
    """Run a spotter over streams, which are numbered from `first`: every step that may be a detection."""
    least = {word: float(logit(numpy.float64(own))) + SHIFTS[0] for word, own in spotter.thresholds.items()}
    heard, candidates, notes = [], [], Notes()
    for make in tqdm(makers, text, disable=None, leave=False):
        for stream in make(RATE_HZ, notes):
            for end_s, probabilities in heard_steps(spotter, stream.samples.numpy()):
                for word, probability in probabilities.items():
                    if logit(numpy.float64(probability)) >= least[word]:
                        start_s = max(end_s - SPAN_S, 0.0)
                        found = Detection(word, start_s, end_s, round(float(probability), DIGITS), end_s)
                        candidates.append(judged(found, first + len(heard), stream))
            empty = replace(stream, samples=stream.samples[:0].clone())
            heard.append(Heard(empty, len(stream.samples) / RATE_HZ, torch.zeros(0), make))
    notes.warn()
    return heard, candidates


def measured(
    name: str, spotter: Spotter, alarming: Sequence[MakeStreams], keywords: Mapping[str, Sequence[MakeStreams]]
) -> list[dict[str, Any]]:
    """A row of the report for each word of a spotter."""
    heard, found = listen(spotter, alarming, 0, name)
    rows = []
    for word, own in spotter.thresholds.items():
        of_word, matches = listen(spotter, keywords.get(word, ()), len(heard), f"{name}, {word}")
        candidates = [item for item in [*found, *matches] if item.detection.label == word]
        counts = Counts([word], [*heard, *of_word], candidates, REFRACTORY_S)
        points = curve(counts, {word: own})
        point = points[SHIFTS.index(0.0)]
        row = {"spotter": name, "word": word, "threshold": own, "megabytes": spotter.sizes[word] / 1e6}
        row |= {"delay_s": delay(counts.delays(point))} | numbers(counts, point, None, with_intervals=True)
        rows.append(row | {"reached": reached(counts, points, counts.conditions.index(SPEECH))})
    return rows


def table(report: dict[str, Any]) -> str:
    """The report as text: cost and own threshold, then misses at rates of false alarms."""
    conditions = list(report["rows"][0]["alarms"])
    columns = [f"alarms/h: {NAMES[name]}" for name in conditions]
    own = [["spotter, word", "MB", "ms/s", *columns, "misses, clean", "delay, s"]]
    at_rates = [["misses at alarms/h", "noise", *RATES]]
    for row in report["rows"]:
        name, misses = f"{row['spotter']}, {row['word']}", row["misses"].get("clean")
        alarms = [rate_text(row["alarms"][condition]) for condition in conditions]
        late = number(row["delay_s"] and row["delay_s"]["median"])
        costs = [f"{row['megabytes']:.2f}", f"{row['ms_per_second']:.1f}"]
        own.append([name, *costs, *alarms, percent(misses) if misses else "–", late])
        for level, values in row["reached"].items():
            shares = [values["misses_at_alarms_per_hour"][rate] for rate in RATES]
            at_rates.append([name, level, *("–" if share is None else f"{100 * share:.1f} %" for share in shares)])
    notes = [f"not run: {name}: {why}" for name, why in report["not_run"].items()]
    tables = [measure.aligned(rows) for rows in (own, at_rates) if len(rows) > 1]
    return "\n\n".join([*tables, *(["\n".join(notes)] if notes else [])])
