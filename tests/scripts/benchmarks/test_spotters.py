"""Spotters side by side: one rule for detections, and adapters that hear what the packages hear."""

import json
import math
from functools import partial
from importlib.util import find_spec

import numpy
import pytest
import spotting_data
import torch

from benchmarks import spotter_peers, spotters
from benchmarks.measure import NotRunError
from benchmarks.spotter_peers import RATE_HZ, Spotter
from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.errors import InputError
from vitspeech.inference.spotting import WordSpotter
from vitspeech.spotting.streams import KEYWORDS, SPEECH, Recording, SaidWord, Stream

STEP = RATE_HZ // 2


def fake(words, known=("go",), threshold=0.5):
    """A spotter whose probability is the loudest sample of a step, in hundredths."""
    thresholds = spotter_peers.some(dict.fromkeys(known, threshold), words)
    push = lambda samples: dict.fromkeys(thresholds, min(samples.max() / 100, 1.0))  # noqa: E731
    return Spotter(thresholds, STEP, lambda: None, push, dict.fromkeys(thresholds, 2_000_000), "nothing")


def stream(condition, seconds, percent, recordings, words=()):
    """A stream whose probabilities, in percent by the end of their step, the fake spotter reads from its samples."""
    samples = torch.zeros(round(seconds * RATE_HZ), dtype=torch.int16)
    for end_s, value in percent.items():
        samples[round(end_s * RATE_HZ) - 1] = value
    snr_db = math.inf if words else None
    return lambda rate_hz, notes: iter([Stream(condition, "one", snr_db, samples, recordings, words)])


def test_one_rule_makes_detections_of_probabilities():
    words = (SaidWord("go", "ann", "a.wav", 1.0, 1.5), SaidWord("go", "bob", "b.wav", 3.0, 3.4))
    said = stream(KEYWORDS, 5, {2.0: 90, 2.5: 95, 4.0: 30}, (Recording("k", "", 0.0, 5.0, ("go", "go")),), words)
    chapter = (Recording("s", "cy", 0.0, 360.0, ("no",)), Recording("t", "cy", 360.0, 400.0, ("go",)))
    speech = stream(SPEECH, 400, {10.0: 40, 60.0: 80, 60.5: 90, 380.0: 99}, chapter)
    (row,) = spotters.measured("fake", fake([]), [speech], {"go": [said]})
    assert row["alarms"]["speech"] | {"low": 0, "high": 0} == {
        "alarms": 1, "hours": pytest.approx(0.1), "per_hour": pytest.approx(10), "low": 0, "high": 0
    }  # fmt: skip
    assert row["misses"]["clean"]["rate"] == 0.5 and row["threshold"] == 0.5
    reached = row["reached"]["clean"]["misses_at_alarms_per_hour"]
    assert (reached["0.5"], reached["10"], reached["30"]) == (0.5, 0.5, 0.0)
    heard, candidates = spotters.listen(fake([]), [said], 0, "")
    assert [item.detection.decided_s for item in candidates] == [2.0, 2.5, 4.0] and heard[0].seconds == 5
    lower = spotters.measured("fake", fake([], threshold=0.2), [speech], {"go": [said]})[0]
    assert lower["delay_s"]["median"] == pytest.approx((0.5 + 0.6) / 2)  # 2.5 s is within the refractory time


def missing(words):
    import no_such_package  # noqa: F401


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(OSError, match="absent"):
        spotters.benchmark(spotters.Settings(tmp_path, models=[str(tmp_path / "absent")]), tmp_path / "report.json")


def test_all_spotters_hear_the_same_and_what_is_not_installed_is_named(tmp_path, monkeypatch):
    made = {"one": fake, "two": partial(fake, known=("go", "ok nabu")), "three": missing, "four": spotters.local_wake}
    monkeypatch.setattr(spotters, "makers", lambda settings: made | {"four": partial(made["four"], None)})
    speech, keywords = spotting_data.write_speech(tmp_path / "speech"), spotting_data.write_words(tmp_path / "words")
    settings = spotters.Settings(speech, keywords, split="all", clips=4, seconds=2.0, repeats=1)
    report = spotters.benchmark(settings, tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(json.dumps(report)) and report["complete"]
    assert [(row["spotter"], row["word"]) for row in report["rows"]] == [
        ("one", "go"),
        ("two", "go"),
        ("two", "ok nabu"),
    ]
    assert report["rows"][0]["alarms"] == report["rows"][1]["alarms"] and not report["rows"][2]["misses"]
    assert {"speech", "others"} == report["rows"][0]["alarms"].keys() and report["rows"][0]["megabytes"] == 2
    text = spotters.table(report)
    assert "not run: three: not installed (pip install -e '.[bench]')" in text
    assert "not run: four: has no recordings to compare with (--examples)" in text
    assert any(line.split()[:3] == ["one,", "go", "5"] for line in text.splitlines())
    monkeypatch.setattr(spotters, "makers", lambda settings: {"three": missing})
    with pytest.raises(InputError, match="no spotter can run: three: not installed"):
        spotters.benchmark(settings, tmp_path / "report.json")


@pytest.mark.skipif(torch.__version__ < (2, 11), reason="an export needs torch 2.11")
def test_ours_finds_what_the_decoder_finds_before_thresholds(monkeypatch):
    model = spotting_data.spotter()
    monkeypatch.setattr(spotter_peers, "load", lambda folder: model)
    sound = (32767 * numpy.concatenate([spotting_data.burst(seed, 1.0) for seed in range(6)])).astype(numpy.int16)
    decoder = WordSpotter(model, SpottingSettings(thresholds=0.0))
    expected = decoder.push(torch.from_numpy(numpy.pad(sound, (0, RATE_HZ))))
    spotter = spotter_peers.ours("folder", ["go", "stop"])
    found = [
        (word, probability, end_s)
        for end_s, probabilities in spotters.heard_steps(spotter, sound)
        for word, probability in probabilities.items()
    ]
    assert len(found) > 2 and [word for word, *_ in found] == [item.label for item in expected]
    assert numpy.allclose([item[1] for item in found], [item.probability for item in expected], atol=1e-3)
    late = [item[2] - told.decided_s for item, told in zip(found, expected, strict=True)]
    assert 0 <= min(late) <= max(late) <= 2 * spotter.step / RATE_HZ
    with pytest.raises(NotRunError, match="knows none of the words, but go, stop"):
        spotter_peers.ours("folder", ["no such word"])


@pytest.mark.parametrize("package", ["pyopen_wakeword", "pymicro_wakeword"])
def test_peers_give_probabilities(package):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    make = {"pyopen_wakeword": spotter_peers.open_wake_word, "pymicro_wakeword": spotter_peers.micro_wake_word}[package]
    spotter = make(["alexa", "no such word"])
    sound = numpy.random.default_rng(0).normal(0, 1000, RATE_HZ).astype(numpy.int16)
    passes = [[p["alexa"] for _, p in spotters.heard_steps(spotter, sound)] for _ in range(2)]
    assert passes[0] == passes[1] and 0 <= min(passes[0]) <= max(passes[0]) < 0.5
    assert spotter.thresholds.keys() == {"alexa"} and spotter.sizes["alexa"] > 50_000
