"""`vitspeech tune`: the settings in the card, and how it fails."""

import json
import shutil

import pytest
from running import one_line
from spotting_data import write_speech, write_words


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    return write_words(root / "words", ("go", "left"), count=3), write_speech(root / "speech", seconds=2)


@pytest.fixture
def model(finished_speech_run, tmp_path):
    shutil.copytree(finished_speech_run / "model", tmp_path / "model")
    return tmp_path / "model"


def test_tune_writes_thresholds_into_the_card(command, model, folders):
    rest = ("--keywords", folders[0], "--speech", folders[1], "--split", "all")
    card = json.loads((model / "card.json").read_text())
    result = command("tune", model, "--alarms-per-hour", 50_000, *rest, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert json.loads((model / "card.json").read_text()) == card
    result = command("tune", model, "--alarms-per-hour", 50_000, *rest)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("wanted an hour") and lines[-1] == str(model / "card.json")
    written = json.loads((model / "card.json").read_text())
    assert set(written["spotting"]["thresholds"]) == {"yes", "no", "up", "down", "left", "right", "stop", "go"}
    assert written["spotting_choice"]["wanted_alarms_per_hour"] == {"speech": 50_000}
    assert {key: written[key] for key in card} == card
    assert command("spot", model, *rest, "-o", model.parent / "report").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--alarms-per-hour", "0"), "--alarms-per-hour 0.0: is not a positive number"),
        (("--alarms-per-hour", "nan"), "--alarms-per-hour nan: is not a positive number"),
        (("--alarms-per-hour", "1"), "nothing to count false alarms in: give --speech, --sounds or --others RATE"),
        (("--alarms-per-hour", "1", "--others", "-3"), "--others -3.0: is not a positive number"),
        (("--alarms-per-hour", "1", "--others", "3"), "has no other words"),
        (("--alarms-per-hour", "1", "--others", "3", "--sounds"), "words has no other words in the split validation"),
    ],
)
def test_tune_reports_an_error_in_one_line(command, model, folders, arguments, message):
    arguments = (*arguments, folders[1]) if arguments[-1] == "--sounds" else arguments
    assert message in one_line(command("tune", model, "--keywords", folders[0], *arguments))


def test_tune_refuses_a_card_that_cannot_be_written_before_it_listens(command, folders, tmp_path):
    result = command("tune", tmp_path, "--keywords", folders[0], "--speech", folders[1], "--alarms-per-hour", 1)
    assert "model.safetensors" in one_line(result)
