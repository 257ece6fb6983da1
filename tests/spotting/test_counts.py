"""What a detection is, and how misses and false alarms are counted."""

import math

import numpy
import pytest
import torch
from spotting_data import spotter, write, write_speech, write_words

from vitspeech.decoding.keywords import Detection, SpottingSettings
from vitspeech.inference.spotting import WordSpotter
from vitspeech.spotting.counts import Counts
from vitspeech.spotting.listening import Heard, judged, samples_again
from vitspeech.spotting.measure import Plan, measure
from vitspeech.spotting.streams import Recording, SaidWord, Stream

NOTHING = torch.zeros(0, dtype=torch.int16)


def detection(label, start_s, end_s=None, probability=0.9):
    end_s = start_s + 0.4 if end_s is None else end_s
    return Detection(label, start_s, end_s, probability, end_s + 0.5)


def keywords(*words, snr_db=math.inf, name="a"):
    said = tuple(SaidWord(label, speaker, "clip", start, start + 0.5) for label, speaker, start in words)
    recordings = (Recording(name, "anna", 0.0, 20.0, tuple(word.label for word in said)),)
    return Stream("keywords", name, snr_db, NOTHING, recordings, said)


def speech(*texts, name="b"):
    recordings = tuple(
        Recording(
            f"{name}{number}", name, 10.0 * number, 10.0 * number + 10, None if text is None else tuple(text.split())
        )
        for number, text in enumerate(texts)
    )
    return Stream("speech", name, None, NOTHING, recordings)


def counts(streams, detections, refractory_s=0.0):
    """The counts of streams with the detections of each."""
    heard = [Heard(stream, stream.recordings[-1].end_s, torch.zeros(0, 4), None) for stream in streams]
    candidates = [judged(found, number, streams[number]) for number, some in enumerate(detections) for found in some]
    return Counts(["go", "stop"], heard, candidates, refractory_s)


AT = {"go": 0.5, "stop": 0.5}


@pytest.mark.parametrize(
    ("found", "status", "word"),
    [
        (detection("go", 1.1), "match", 0),
        (detection("go", 0.3, 0.7), "extra", -1),  # ends more than 0.25 s before the word
        (detection("go", 0.3, 0.8), "match", 0),
        (detection("stop", 1.1), "extra", 0),
        (detection("go", 1.6), "match", 0),
        (detection("go", 1.8), "extra", -1),
        (detection("stop", 2.6), "match", 1),
    ],
)
def test_a_detection_matches_a_word_that_it_overlaps(found, status, word):
    judgement = judged(found, 0, keywords(("go", "anna", 1.0), ("stop", "anna", 2.5)))
    assert (judgement.status, judgement.word) == (status, word)


def test_a_detection_of_what_the_transcript_has_is_discounted():
    stream = speech("go home", "it is late", "late again")
    assert judged(detection("go", 4.0), 0, stream).status == "discounted"
    assert judged(detection("stop", 4.0), 0, stream).status == "alarm"
    assert judged(detection("go", 10.4), 0, stream).status == "discounted"  # the word may lie on the border
    assert judged(detection("go", 10.6), 0, stream).status == "alarm"
    assert judged(detection("go", 15.0), 0, speech(None, None)).status == "alarm"


def test_the_rate_of_all_words_is_the_sum_of_the_words_rates():
    found = [detection("go", 4.0), detection("go", 14.0), detection("stop", 5.0), detection("stop", 16.0)]
    counted = counts([speech("go home", "it is late")], [found])
    assert counted.hours.tolist() == [[10 / 3600, 20 / 3600]]
    rate = counted.alarm_interval(counted.at(AT), 0)
    assert rate["alarms"] == 3 and rate["per_hour"] == pytest.approx(3600 / 10 + 2 * 3600 / 20)
    assert rate["low"] < rate["per_hour"] < rate["high"]


def test_no_alarm_in_five_and_a_half_hours_bounds_the_rate_below_0_67():
    counted = counts([Stream("sounds", "c", None, NOTHING, (Recording("c", "c", 0.0, 5.5 * 3600, None),))], [[]])
    rate = counted.alarm_interval(counted.at(AT), 0)
    assert (rate["per_hour"], rate["low"]) == (0, 0) and rate["high"] == pytest.approx(0.67, abs=0.001)


def test_a_word_found_twice_counts_once_and_the_second_is_an_extra():
    stream = keywords(("go", "anna", 1.0), ("go", "ben", 4.0))
    found = [detection("go", 1.0, 1.2), detection("go", 1.3, 1.5), detection("stop", 4.1), detection("stop", 9.0)]
    counted = counts([stream, speech("so")], [found, []])
    point = counted.at(AT)
    assert counted.miss_rate(point, 0) == {"words": 2, "missed": 1, "rate": 0.5}
    assert counted.extras(point) == {"repeated": 1, "another_word": 1, "beside": 1}
    assert counted.delays(point) == [pytest.approx(1.2 + 0.5 - 1.5)]
    assert counted.miss_interval(point, 0) == pytest.approx((0.0945, 0.9055), abs=1e-4)  # Wilson 1927 with 1 of 2


@pytest.mark.parametrize("speakers", [4, 5])
def test_fewer_than_five_speakers_are_no_bootstrap(speakers):
    """Each says the word twice and one of them is missed once: all resamples have 0 to 50 % of the words."""
    said = [("go", str(number), 4.0 * number + start) for number in range(speakers) for start in (1.0, 3.0)]
    counted = counts([keywords(*said), speech("so")], [[detection("go", start) for _, _, start in said[1:]], []])
    low, high = counted.miss_interval(counted.at(AT), 0)
    assert (low > 0) == (speakers < 5) and high == pytest.approx(0.6042 if speakers < 5 else 0.3, abs=1e-4)


@pytest.mark.parametrize("are_found", [True, False])
def test_two_speakers_cannot_show_that_no_word_is_missed_or_that_all_are(are_found):
    stream = keywords(("go", "anna", 1.0), ("go", "ben", 4.0))
    found = [detection("go", 1.0), detection("go", 4.0)] if are_found else []
    counted = counts([stream, speech("so")], [found, []])
    low, high = counted.miss_interval(counted.at(AT), 0)
    # Wilson 1927 with 0 of 2: z² / (n + z²)
    assert (low, high) == pytest.approx((0, 0.6576) if are_found else (0.3424, 1), abs=1e-4)
    assert 0 <= low < high <= 1


def test_words_inside_sentences_are_counted_by_the_transcripts():
    found = [
        detection("go", 1.0),
        detection("go", 3.0),
        detection("go", 5.0),  # the transcript has the word twice, so one of the three is none of them
        detection("go", 10.2),  # belongs to the utterance before, which has all its words already
        detection("stop", 31.0),
        detection("stop", 35.0, probability=0.4),
        detection("stop", 12.0),  # an alarm
    ]
    counted = counts([speech("go home go", "it is late", None, "the one-stop shop", "stop it")], [found])
    said, reported, discounted = counted.in_speech(counted.at(AT))
    assert said.tolist() == [2, 2] and reported.tolist() == [2, 1] and discounted.tolist() == [4, 1]


def test_a_detection_beside_the_sentence_with_the_word_counts_for_it():
    counted = counts([speech("it is late", "go home")], [[detection("go", 9.4)]])
    assert [values.tolist() for values in counted.in_speech(counted.at(AT))] == [[1, 0], [1, 0], [1, 0]]


def test_thresholds_are_those_of_each_word():
    found = [detection("go", 1.0, probability=0.6), detection("stop", 3.0, probability=0.6)]
    counted = counts([speech("so")], [found])
    assert counted.at({"go": 0.6, "stop": 0.61}).alarms.tolist() == [[1, 0]]
    assert counted.at({"go": 0.0, "stop": 1.0}).alarms.tolist() == [[1, 0]]


@pytest.fixture(scope="module")
def measurement(tmp_path_factory):
    root = tmp_path_factory.mktemp("heard")
    return measure(spotter(), Plan(write_words(root / "words"), write_speech(root / "speech"), split="all", clips=12))


def test_odd_recordings_are_named_in_one_warning(tmp_path):
    for name in ("bell.wav", "door.wav"):
        write(tmp_path / name, numpy.zeros(16_000))
    with pytest.warns(UserWarning) as warned:
        measure(spotter(), Plan(sounds=tmp_path))
    (text,) = (str(item.message) for item in warned if "silent" in str(item.message))
    assert text.startswith("2 recordings are silent") and "bell.wav" in text and "door.wav" in text


@pytest.mark.parametrize("refractory_s", [0.0, 0.7])
def test_what_is_counted_is_what_a_spotter_with_these_thresholds_detects(measurement, refractory_s):
    settings = SpottingSettings({"go": 0.9, "stop": 0.7}, refractory_s=refractory_s)
    counted = measurement.counts(settings)
    point = counted.at(settings.thresholds)
    live = WordSpotter(spotter(), settings)
    rows = []
    for number, item in enumerate(counted.heard):
        samples = samples_again(item, 16_000)
        rows += [(number, found.label, round(found.end_s, 6)) for found in live.words(samples.split(50_001))]
    kept = [item for item, is_kept in zip(counted.candidates, point.kept, strict=True) if is_kept]
    assert [(item.stream, item.detection.label, round(item.detection.end_s, 6)) for item in kept] == rows
    assert 10 < len(rows) < len(counted.candidates)


def test_candidates_are_the_same_for_all_thresholds(measurement):
    one, other = (measurement.counts(SpottingSettings(threshold)) for threshold in (0.2, 0.99))
    assert one.candidates == other.candidates and numpy.array_equal(one.hours, other.hours)
