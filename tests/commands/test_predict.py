"""`vitspeech predict`: what it prints and writes, and how it fails."""

import csv

from running import one_line


def test_predict_prints_a_line_a_picture(command, finished_run, star):
    result = command("predict", finished_run, star, "--top", 2)
    path, _, labels = result.stdout.strip().rpartition(": ")
    assert path == str(star) and len(labels.split(", ")) == 2


def test_predict_writes_a_csv(command, finished_run, star, tmp_path):
    result = command("predict", finished_run, star.parent, "--csv", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert result.returncode == 0
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert rows[0].keys() == {"file", "rank", "label", "probability"}


def test_a_broken_picture_leaves_no_half_written_csv(command, finished_run, star, tmp_path):
    (tmp_path / "zero.png").touch()
    message = one_line(command("predict", finished_run, star.parent, "--csv", tmp_path / "out.csv"))
    assert message.startswith("vitspeech predict: ") and "zero.png: empty (0 bytes)" in message
    assert not list(tmp_path.glob("out.csv*"))


def test_a_missing_checkpoint_is_one_line(command, tmp_path, star):
    assert "nowhere: missing" in one_line(command("predict", tmp_path / "nowhere", star))


def test_usage_errors_have_status_two(command, finished_run, star):
    assert command("predict").returncode == 2
    assert command("predict", finished_run, star, "--top", 0).returncode == 2


def test_predict_accepts_a_recording(command, finished_speech_run, words):
    result = command("predict", finished_speech_run, words, "--top", 1)
    assert result.returncode == 0 and result.stdout.startswith(f"{words}: ")
