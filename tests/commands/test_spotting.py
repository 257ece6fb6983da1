"""`vitspeech spot` and `vitspeech tune`: the report, the settings in the card, and how they fail."""

import json
from dataclasses import replace

import pytest
import torch
from running import one_line
from spotting_data import write_speech, write_words

import vitspeech
from vitspeech.checkpoint.model import save
from vitspeech.spotting.measure import measure

WORDS = ("go", "left", "cat")  # two of the tiny model's words, and another one
ALL_WORDS = ("yes", "no", "up", "down", "left", "right", "stop", "go")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    return write_words(root / "words", WORDS, count=3), write_speech(root / "speech", seconds=2)


def test_spot_leaves_a_report(command, finished_speech_run, folders, tmp_path):
    keywords, speech = folders
    few = ("--split", "all", "--clips", 4, "--hours", 0.002)
    result = command(
        "spot", finished_speech_run, "--keywords", keywords, "--speech", speech, "-o", tmp_path / "r", *few
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("false alarms per hour, continuous speech: ")
    assert any(line.startswith("missed, 5 dB: ") for line in lines)
    assert lines[-1].startswith(str(tmp_path / "r" / "report.html")) and "real-time factor" in lines[-1]
    names = {"report.html", "det.png", "summary.json", "detections.csv", "words.csv", "recordings.csv", "alarms"}
    assert {file.name for file in (tmp_path / "r").iterdir()} == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--clips", "0"), "clips=0 is not a number from 1"),
        (("--hours", "1"), "hours=1.0 limits the speech; give --speech"),
        (("--seed", "-1"), "seed=-1 is not a number from 0"),
        (("--speech", "missing"), "missing: no such"),
        (("--sounds", "missing"), "missing: no such"),
        (("--speech", __file__), "no such folder of speech"),
    ],
)
def test_spot_reports_an_error_in_one_line(command, finished_speech_run, folders, tmp_path, arguments, message):
    result = command("spot", finished_speech_run, "--keywords", folders[0], "-o", tmp_path / "r", *arguments)
    assert message in one_line(result) and not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("fixture", "message"),
    [
        ("finished_recognizer_run", "SpeechRecognizer does not classify clips"),
        ("finished_run", "ViT can't be streamed"),
    ],
)
def test_spot_refuses_models_that_spot_no_words(request, command, folders, tmp_path, fixture, message):
    result = command("spot", request.getfixturevalue(fixture), "--keywords", folders[0], "-o", tmp_path / "r")
    assert message in one_line(result)


@pytest.fixture(scope="module")
def folders_of_all_words(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    return write_words(root / "words", ALL_WORDS, count=1), write_speech(root / "speech", seconds=2)


@pytest.fixture
def model(finished_speech_run, tmp_path):
    """A spotter that finds its words, as a network that has been trained for longer."""
    model = vitspeech.load(finished_speech_run)
    with torch.no_grad():
        model.network.head.bias[-2:] -= 50  # of unknown and silence
    save(model, tmp_path / "model")
    return tmp_path / "model"


def test_tune_writes_thresholds_into_the_card(command, model, folders_of_all_words, monkeypatch):
    folders = folders_of_all_words

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
    assert lines[0].startswith("wanted per hour") and lines[-1] == str(model / "card.json")
    assert lines[-2] == "The model has no label unknown."
    written = json.loads((model / "card.json").read_text())
    assert set(written["spotting"]["thresholds"]) == set(ALL_WORDS)
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
        (("--alarms-per-hour", "0"), "--alarms-per-hour=0.0 is not a number from 1e-06"),
        (
            ("--alarms-per-hour", "1", "--split", "test"),
            "nothing to count false alarms in: give --speech, --sounds or --others RATE",
        ),
        (("--alarms-per-hour", "1", "--others", "-3"), "--others=-3.0 is not a number from 1e-06"),
        (("--alarms-per-hour", "1", "--others", "3"), "has no other words"),
    ],
)
def test_tune_reports_an_error_in_one_line(command, model, folders_of_all_words, arguments, message):
    assert message in one_line(command("tune", model, "--keywords", folders_of_all_words[0], *arguments))


def test_spot_measures_false_alarms_alone(command, finished_speech_run, folders, tmp_path):
    rest = ("--split", "all", "--hours", 0.002, "-o", tmp_path / "r")
    result = command("spot", finished_speech_run, "--speech", folders[1], *rest)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("false alarms per hour, continuous speech: ") and "keywords: " not in result.stdout
    assert lines[-2] == "Without --keywords, misses are not measured."


def test_tune_needs_recordings_of_every_word(command, model, folders_of_all_words, tmp_path):
    few = write_words(tmp_path / "few", ALL_WORDS[1:], count=1)
    rest = ("--speech", folders_of_all_words[1], "--split", "all", "--alarms-per-hour", 50_000)
    assert "few has no recordings of yes in the split all" in one_line(command("tune", model, "--keywords", few, *rest))


def test_tune_refuses_a_card_that_cannot_be_written_before_it_listens(command, model, folders):
    (model / "card.json").unlink()
    (model / "card.json").mkdir()
    result = command("tune", model, "--keywords", folders[0], "--speech", folders[1], "--alarms-per-hour", 1)
    assert one_line(result).startswith(f"vitspeech tune: {model / 'card.json'}: ")
