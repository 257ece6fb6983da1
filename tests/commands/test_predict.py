"""`vitspeech predict`: what it prints and writes, and how it fails."""

import csv
import os
import stat

import pytest
from running import one_line

import vitspeech


def test_predict_prints_a_line_a_picture(command, finished_run, star):
    result = command("predict", finished_run, star, "--top", 2)
    path, _, labels = result.stdout.strip().rpartition(": ")
    assert path == str(star) and len(labels.split(", ")) == 2


def test_predict_writes_a_csv(command, finished_run, star, tmp_path):
    result = command("predict", finished_run, star.parent, "--csv", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert result.returncode == 0
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert list(rows[0]) == ["file", "rank", "label", "probability", "status"]
    assert {row["status"] for row in rows} == {"ok"}


@pytest.fixture
def pictures(star):
    """A folder of 300 good pictures and a broken one in their middle."""
    for number in range(300):
        os.link(star, star.with_name(f"{number:03}.png"))
    star.rename(star.with_name("149b.png")).unlink()
    star.with_name("149b.png").touch()
    return star.parent


def test_a_broken_picture_among_300_has_a_row_with_its_status(command, finished_run, pictures, tmp_path):
    table = tmp_path / "out.csv"
    result = command("predict", finished_run, pictures, "--top", 1, "--csv", table)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["file"] for row in rows] == sorted(str(path) for path in pictures.glob("*.png")) and len(rows) == 301
    assert dict(rows.pop(150)) == {
        "file": str(pictures / "149b.png"),
        "rank": "",
        "label": "",
        "probability": "",
        "status": "empty (0 bytes)",
    }
    assert all(row["status"] == "ok" and row["rank"] == "1" and float(row["probability"]) > 0 for row in rows)
    assert result.stdout == f"{table}\n"
    expected = f"vitspeech predict: 1 file could not be read: see the column `status` of {table}"
    assert one_line(result, status=3) == expected


def test_broken_pictures_are_a_line_each_and_the_rest_is_printed(command, finished_run, pictures):
    (pictures / "000.png").unlink()
    (pictures / "000.png").write_bytes(b"\x89PNG")
    result = command("predict", finished_run, pictures, "--top", 1)
    printed = [line.rpartition(": ")[0] for line in result.stdout.splitlines()]
    assert printed == [str(pictures / f"{number:03}.png") for number in range(1, 300)]
    lines = result.stderr.replace("\r", "\n").splitlines()  # the progress bar ends its own with \\r
    first, second = (line for line in lines if line.startswith("vitspeech"))
    assert result.returncode == 3 and "Traceback" not in result.stderr
    assert first == f"vitspeech predict: {pictures / '000.png'}: not a picture that can be read"
    assert second == f"vitspeech predict: {pictures / '149b.png'}: empty (0 bytes)"


def test_an_interrupted_table_leaves_the_old_one(command, finished_run, star, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        yield star, [("star", 1.0)]
        raise KeyboardInterrupt

    (tmp_path / "out.csv").write_text("old")
    monkeypatch.setattr(vitspeech, "predict", interrupted)
    assert command("predict", finished_run, star, "--csv", tmp_path / "out.csv").returncode == 130
    assert [path.read_text() for path in tmp_path.glob("out.csv*")] == ["old"]


def test_a_missing_checkpoint_is_one_line(command, tmp_path, star):
    assert "nowhere: missing" in one_line(command("predict", tmp_path / "nowhere", star))


def test_usage_errors_have_status_two(command, finished_run, star):
    assert command("predict").returncode == 2
    assert command("predict", finished_run, star, "--top", 0).returncode == 2


def test_predict_accepts_a_recording(command, finished_speech_run, words):
    result = command("predict", finished_speech_run, words, "--top", 1)
    assert result.returncode == 0 and result.stdout.startswith(f"{words}: ")


@pytest.mark.parametrize("verb", ["predict", "transcribe"])
def test_a_table_in_a_folder_that_does_not_exist_is_refused_before_the_work(command, tmp_path, verb):
    result = command(verb, tmp_path / "no model is read", tmp_path, "--csv", tmp_path / "nowhere/out.csv")
    assert f"the folder {tmp_path / 'nowhere'} does not exist" in one_line(result)


@pytest.mark.parametrize(
    ("verb", "option"),
    [("predict", "--csv"), ("transcribe", "--csv"), ("predict", "--attention"), ("transcribe", "--picture")],
)
def test_a_target_that_is_no_regular_file_is_refused_before_the_work_and_stays(command, star, verb, option):
    (star.parent / "link").symlink_to(os.devnull)
    for target in (os.devnull, star.parent / "link"):
        message = one_line(command(verb, star.parent / "no model is read", star, option, target))
        assert message.startswith(f"vitspeech {verb}: {option} {target}: is a device")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode) and (star.parent / "link").is_symlink()


def test_a_table_does_not_replace_a_file_that_is_read(command, finished_run, star):
    content = star.read_bytes()
    assert "is a file to be read" in one_line(command("predict", finished_run, star, "--csv", star))
    assert star.read_bytes() == content
