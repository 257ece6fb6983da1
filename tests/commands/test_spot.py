"""`vitspeech spot`: the report, and how it fails."""

import pytest
from running import one_line
from spotting_data import write_speech, write_words

WORDS = ("go", "left", "cat")  # two of the tiny model's words, and another one


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
    assert lines[0].startswith("false alarms an hour, continuous speech: ")
    assert any(line.startswith("missed, 5 dB: ") for line in lines)
    assert lines[-1].startswith(str(tmp_path / "r" / "report.html")) and "real-time factor" in lines[-1]
    names = {"report.html", "det.png", "summary.json", "detections.csv", "words.csv", "recordings.csv", "alarms"}
    assert {file.name for file in (tmp_path / "r").iterdir()} == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--clips", "0"), "clips=0 is not a number from 1"),
        (("--hours", "-1"), "hours=-1.0 is not a number from 0.001"),
        (("--hours", "nan"), "hours=nan is not a number from 0.001"),
        (("--hours", "1"), "hours=1.0 limits the speech; give --speech"),
        (("--seed", "-1"), "seed=-1: a seed is a number from 0"),
        (("--speech", "missing"), "missing: no such folder of speech"),
        (("--sounds", "missing"), "missing: no such folder"),
        (("--keywords", "missing"), "missing: no such folder"),
    ],
)
def test_spot_reports_an_error_in_one_line(command, finished_speech_run, folders, tmp_path, arguments, message):
    result = command("spot", finished_speech_run, "--keywords", folders[0], "-o", tmp_path / "r", *arguments)
    assert message in one_line(result) and not (tmp_path / "r").exists()


def test_spot_needs_words_of_the_model(command, finished_speech_run, tmp_path):
    result = command(
        "spot", finished_speech_run, "--keywords", write_words(tmp_path / "w", ("cat",)), "-o", tmp_path / "r"
    )
    assert "no recordings of yes, no, up, down, left, right, stop, go in the split test" in one_line(result)


def test_spot_refuses_a_folder_with_other_files(command, finished_speech_run, folders, tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    result = command("spot", finished_speech_run, "--keywords", folders[0], "-o", tmp_path)
    assert "has other files (thesis.txt)" in one_line(result)


@pytest.mark.parametrize(
    ("fixture", "message"),
    [
        ("finished_recognizer_run", "the model transcribes; give one that spots single words"),
        ("finished_run", "ViT can't be streamed"),
        ("finished_labeler_run", "SpeechLabeler does not classify clips"),
    ],
)
def test_spot_refuses_models_that_spot_no_words(request, command, folders, tmp_path, fixture, message):
    result = command("spot", request.getfixturevalue(fixture), "--keywords", folders[0], "-o", tmp_path / "r")
    assert message in one_line(result)
