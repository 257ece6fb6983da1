"""`vitspeech tune`: the settings in the card, and how it fails."""

import json
import shutil
from dataclasses import replace

import pytest
from running import one_line
from spotting_data import write_speech, write_words

import vitspeech
from vitspeech.spotting.measure import measure

WORDS = ("yes", "no", "up", "down", "left", "right", "stop", "go")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    return write_words(root / "words", WORDS, count=1), write_speech(root / "speech", seconds=2)


@pytest.fixture
def model(finished_speech_run, tmp_path):
    shutil.copytree(finished_speech_run / "model", tmp_path / "model")
    return tmp_path / "model"


def test_tune_writes_thresholds_into_the_card(command, model, folders, monkeypatch):
    def with_note(*args, **options):
        heard.append(replace(measure(*args, **options), notes=["The model has no label unknown."]))
        return heard[-1]

    heard = []

    monkeypatch.setattr("vitspeech.spotting.measure.measure", with_note)
    rest = ("--keywords", folders[0], "--speech", folders[1], "--split", "all")
    card = json.loads((model / "card.json").read_text())
    result = command("tune", model, "--alarms-per-hour", 50_000, *rest, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert json.loads((model / "card.json").read_text()) == card
    result = command("tune", model, "--alarms-per-hour", 50_000, *rest)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("wanted an hour") and lines[-1] == str(model / "card.json")
    assert lines[-2] == "The model has no label unknown."
    written = json.loads((model / "card.json").read_text())
    assert set(written["spotting"]["thresholds"]) == set(WORDS)
    assert written["spotting_choice"]["wanted_alarms_per_hour"] == {"speech": 50_000}
    spotting = vitspeech.load(model).spotting
    counts = heard[-1].counts(spotting)
    point = counts.at(spotting.thresholds)
    record = written["spotting_choice"]
    assert record["split"] == "all" and record["seed"] == 0 and record["expected_alarms_per_hour"]["speech"] <= 50_000
    alarms = counts.alarm_rate(point, counts.conditions.index("speech"))["alarms"]
    assert record["counted"]["speech"]["alarms"] == alarms
    assert record["missed"] == {
        name: counts.miss_rate(point, level)["rate"] for level, name in enumerate(counts.levels)
    }
    assert {key: written[key] for key in card} == card
    assert vitspeech.load(model).spotting.thresholds == written["spotting"]["thresholds"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--alarms-per-hour", "0"), "--alarms-per-hour 0.0: is not a positive number"),
        (("--alarms-per-hour", "nan"), "--alarms-per-hour nan: is not a positive number"),
        (("--alarms-per-hour", "1"), "nothing to count false alarms in: give --speech, --sounds or --others RATE"),
        (("--alarms-per-hour", "1", "--others", "-3"), "--others -3.0: is not a positive number"),
        (("--alarms-per-hour", "1", "--others", "3"), "has no other words"),
        (("--alarms-per-hour", "1", "--others", "3", "--hours", "1"), "hours=1.0 limits the speech; give --speech"),
        (("--alarms-per-hour", "1", "--others", "3", "--sounds"), "words has no other words in the split validation"),
    ],
)
def test_tune_reports_an_error_in_one_line(command, model, folders, arguments, message):
    arguments = (*arguments, folders[1]) if arguments[-1] == "--sounds" else arguments
    assert message in one_line(command("tune", model, "--keywords", folders[0], *arguments))


def test_tune_needs_recordings_of_every_word(command, model, folders, tmp_path):
    few = write_words(tmp_path / "few", WORDS[1:], count=1)
    rest = ("--speech", folders[1], "--split", "all", "--alarms-per-hour", 50_000)
    assert "few has no recordings of yes in the split all" in one_line(command("tune", model, "--keywords", few, *rest))


@pytest.mark.parametrize("kind", ["a folder", "a link to nowhere"])
def test_tune_refuses_a_card_that_cannot_be_written_before_it_listens(command, model, folders, monkeypatch, kind):
    card, heard = model / "card.json", []
    card.unlink()
    card.mkdir() if kind == "a folder" else card.symlink_to(model / "missing" / "card.json")
    monkeypatch.setattr("vitspeech.load", lambda *args, **options: None)
    monkeypatch.setattr("vitspeech.spotting.measure.measure", lambda *args, **options: heard.append(args))
    result = command("tune", model, "--keywords", folders[0], "--speech", folders[1], "--alarms-per-hour", 1)
    assert one_line(result).startswith(f"vitspeech tune: {card}: ") and not heard
