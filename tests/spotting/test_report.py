"""The report: the curve from its tables by code that shares nothing with the package, the page and its sounds."""

import csv
import json
import math
import re

import pytest
import soundfile
from spotting_data import burst, spotter, write, write_speech, write_words

from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.errors import InputError
from vitspeech.spotting.measure import Plan, delay, heard_words, measure
from vitspeech.spotting.report import check_report_folder, main_lines, write_report

SETTINGS = SpottingSettings({"go": 0.9, "stop": 0.7}, refractory_s=0.6)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder of a report on speech, other words and sounds."""
    root = tmp_path_factory.mktemp("report")
    write(root / "sounds/hum.wav", burst(1, 3.0))
    plan = Plan(write_words(root / "words"), write_speech(root / "speech"), root / "sounds", split="all", clips=12)
    measurement = measure(spotter(), plan)
    counts = measurement.counts(SETTINGS)
    write_report(measurement, counts, measurement.summary(counts, SETTINGS, "tiny"), root / "out", worst=2)
    return root / "out"


def rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def detected(candidates, thresholds, refractory_s):
    """The rows that are detections: at or above the threshold, and not within the refractory period of the last one."""
    last, kept = {}, []
    for row in candidates:
        key, end = (row["condition"], row["noise"], row["stream"]), float(row["end_s"])
        if float(row["probability"]) >= thresholds[row["label"]] and end - last.get(key, -math.inf) >= refractory_s:
            last[key] = end
            kept.append(row)
    return kept


def test_the_curve_can_be_computed_again_from_the_raw_detections(report):
    summary = json.loads((report / "summary.json").read_text())
    candidates, words = rows(report / "detections.csv"), rows(report / "words.csv")
    recordings = rows(report / "recordings.csv")
    own = summary["operating_point"]["thresholds"]
    curves = set()
    for point in summary["curve"]:
        thresholds = {word: 1 / (1 + math.exp(-(math.log(p / (1 - p)) + point["shift"]))) for word, p in own.items()}
        if point["shift"] == 0:
            thresholds = own
        kept = detected(candidates, thresholds, SETTINGS.refractory_s)
        for condition in ("speech", "others", "sounds"):
            total = 0
            for word in own:
                hours = (
                    sum(
                        float(row["end_s"]) - float(row["start_s"])
                        for row in recordings
                        if row["condition"] == condition and word not in row["contains"].split("|")
                    )
                    / 3600
                )
                alarms = sum(
                    row["condition"] == condition and row["label"] == word and row["status"] == "alarm" for row in kept
                )
                stated = point["words"][word]["alarms"][condition]
                assert stated["alarms"] == alarms and stated["per_hour"] == pytest.approx(alarms / hours)
                total += alarms / hours
            assert point["all"]["alarms"][condition]["per_hour"] == pytest.approx(total)
        for level in ("clean", "20 dB", "10 dB", "5 dB"):
            said = {
                (row["stream"], row["word"])
                for row in words
                if row["noise"] == level and row["condition"] == "keywords"
            }
            found = {(row["stream"], row["word"]) for row in kept if row["noise"] == level and row["status"] == "match"}
            assert found <= said
            assert point["all"]["misses"][level]["missed"] == len(said) - len(found)
        curves.add((round(total, 3), len(found)))
    assert len(curves) > 5  # the curve moves


def test_the_page_needs_no_network_and_has_the_sounds_of_the_worst_alarms(report):
    page = (report / "report.html").read_text()
    assert not re.search(r"(src|href)=.?https?:", page)
    pictures = re.findall(r"<img[^>]{0,90}", page)
    assert all(re.search(r'alt="(Curves of|Spectrogram of) ', picture) for picture in pictures)
    sounds = sorted((report / "alarms").glob("*.wav"))
    assert page.count("<audio") == len(sounds) == 6
    assert all(0.3 < soundfile.info(sound).duration < 4 for sound in sounds)
    assert "“it is late”" in page or "“go home now”" in page or "“the one-stop shop”" in page


def test_words_inside_sentences_are_reported(report):
    """Each of three speakers says "go" once and "stop" once, in utterances of their own."""
    point = json.loads((report / "summary.json").read_text())["operating_point"]
    inside = point["inside_sentences"]
    kept = detected(rows(report / "detections.csv"), point["thresholds"], SETTINGS.refractory_s)
    for word in ("go", "stop"):
        where = [row["recording"] for row in kept if row["status"] == "discounted" and row["label"] == word]
        assert inside["words"][word]["said"] == 3 and inside["words"][word]["discounted"] == len(where)
        assert inside["words"][word]["reported"] == len(set(where))
    total = inside["all"]["reported"]
    assert total and f"<td>{total} of 6</td>" in (report / "report.html").read_text()


def test_the_main_numbers_are_in_the_summary(report):
    summary = json.loads((report / "summary.json").read_text())
    speech, others = (summary["conditions"][name] for name in ("speech", "others"))
    assert speech["hours"] == pytest.approx(54 / 3600) and speech["transcribed"] == 9
    assert speech["hours_by_word"]["go"] == pytest.approx(36 / 3600)
    assert speech["no_alarm_bounds_rate_below"] == pytest.approx(3.689 * 3600 / 36, rel=1e-3)
    assert others["words"] == 12 and summary["other_words"]["by_card"]["heard"]["labels"] == ["cat"]
    point = summary["operating_point"]
    assert point["thresholds"] == {"go": 0.9, "stop": 0.7}
    unshifted = next(row["all"] for row in summary["curve"] if row["shift"] == 0)
    assert unshifted["misses"]["clean"]["missed"] == point["all"]["misses"]["clean"]["missed"]
    low, high = point["all"]["misses"]["clean"]["interval_95"]
    assert low <= point["all"]["misses"]["clean"]["rate"] <= high


def test_a_word_that_every_sentence_has_is_named(tmp_path):
    speech = write_speech(tmp_path / "speech", seconds=1)
    for file in speech.rglob("*.trans.txt"):
        file.write_text(file.read_text().replace("IT IS LATE", "GO LATE").replace("STOP", "GO"))
    measurement = measure(spotter(), Plan(write_words(tmp_path / "words", count=2), speech, split="all", clips=4))
    lines = main_lines(measurement.summary(measurement.counts(SETTINGS), SETTINGS, "tiny"))
    assert lines[0] == "false alarms per hour, continuous speech: not measured"
    assert lines[-1] == "Every recording of the speech has go: false alarms can't be counted in it."


def test_without_keywords_false_alarms_alone_are_measured(report, tmp_path):
    write_report_of(
        Plan(write_words(tmp_path / "words"), write_speech(tmp_path / "speech"), split="all", clips=2), tmp_path
    )
    assert (tmp_path / "out/det.png").exists()
    summary = write_report_of(Plan(speech=tmp_path / "speech", split="all"), tmp_path)
    alarms = json.loads((report / "summary.json").read_text())["operating_point"]["all"]["alarms"]["speech"]
    assert alarms["alarms"] and summary["operating_point"]["all"] == {"alarms": {"speech": alarms}, "misses": {}}
    lines = main_lines(summary)
    assert lines[-1] == "Without --keywords, misses are not measured." and not any("missed" in line for line in lines)
    assert not (tmp_path / "out/det.png").exists()
    assert "<audio" in (page := (tmp_path / "out/report.html").read_text()) and "Misses against" not in page


def write_report_of(plan, folder):
    measurement = measure(spotter(), plan)
    counts = measurement.counts(SETTINGS)
    summary = measurement.summary(counts, SETTINGS, "tiny")
    write_report(measurement, counts, summary, folder / "out", worst=1)
    return summary


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "nothing to hear: give --keywords, --speech or --sounds"), ({"clips": 3}, "clips=3 limits the words")],
)
def test_a_plan_without_anything_to_hear_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Plan(**arguments)


def test_thresholds_are_chosen_with_recordings_of_the_words_alone(tmp_path):
    with pytest.raises(InputError, match="no recordings of the words, which thresholds must find; give --keywords"):
        measure(spotter(), Plan(speech=write_speech(tmp_path, 1), split="all"), every_word=True)


def test_recordings_that_state_no_speaker_are_counted_in_a_note(tmp_path):
    words = write_words(tmp_path / "words", count=1)
    for file in sorted(words.rglob("*.wav")):
        file.rename(file.with_name(file.name.replace("_nohash_", "-")))
    plan = Plan(words, write_speech(tmp_path / "speech", 1), split="all")
    assert measure(spotter(), plan).notes == [
        "6 recordings of the words state no speaker and count as one each: intervals of misses may be too narrow."
    ]


def test_a_second_report_replaces_the_first_and_other_files_are_refused(report, tmp_path):
    check_report_folder(report)
    check_report_folder(tmp_path / "new")
    (tmp_path / "alarms").mkdir()
    with pytest.raises(InputError, match=r"has other files \(alarms\)"):
        check_report_folder(tmp_path)
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(InputError, match=r"has other files \(thesis.txt\)"):
        check_report_folder(tmp_path)


def test_the_90th_percentile_is_within_the_delays():
    assert delay([1.0, 2.0]) == pytest.approx({"median": 1.5, "90_percent_below": 1.9})
    assert delay([1.0]) is None


def test_only_the_card_says_which_other_words_training_heard():
    said = ["cat", "dog"]
    assert heard_words({"heard_words": ["cat", "house"]}, said) == {"cat"}
    assert heard_words({"heard_words": []}, said) == set()
    assert heard_words({"heard_words": ["unknown"]}, said) is None  # a folder of that name has any words
    assert heard_words({}, said) is None


def test_misses_alone_are_measured_without_a_curve_and_the_report_says_so(tmp_path):
    measurement = measure(spotter(), Plan(write_words(tmp_path / "words", ("go", "stop")), split="all"))
    counts = measurement.counts(SETTINGS)
    summary = measurement.summary(counts, SETTINGS, "tiny")
    page = write_report(measurement, counts, summary, tmp_path / "out").read_text()
    assert summary["operating_point"]["all"]["misses"]["clean"]["words"] > 1 and not summary["reached"]
    assert "Without --speech, --sounds and other words, false alarms are not counted." in page
    assert "Misses against" not in page and not (tmp_path / "out/det.png").exists()
