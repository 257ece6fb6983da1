"""`vitspeech predict`: what it prints and writes, and how it fails."""

import csv
import itertools
import os
import signal
import time

import pytest
from pyarrow import parquet
from running import one_line

from vitspeech.data.images.reading import read_picture


@pytest.mark.parametrize(("run", "file"), [("finished_run", "star"), ("finished_speech_run", "words")])
def test_predict_prints_a_line_a_file(request, command, run, file):
    run, file = map(request.getfixturevalue, (run, file))
    path, _, labels = command("predict", run, file, "--top", 2).stdout.strip().rpartition(": ")
    assert path == str(file) and len(labels.split(", ")) == 2


@pytest.fixture
def pictures(star):
    """A folder of 140 good pictures and a broken one in their middle."""
    for number in range(140):
        os.link(star, star.with_name(f"{number:03}.png"))
    star.rename(star.with_name("069b.png")).unlink()
    star.with_name("069b.png").touch()
    return star.parent


def test_a_broken_picture_among_140_has_a_row_with_its_status(command, finished_run, pictures, tmp_path):
    table = tmp_path / "out.csv"
    result = command("predict", finished_run, pictures, "--top", 1, "--out", table)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["file"] for row in rows] == sorted(str(path) for path in pictures.glob("*.png")) and len(rows) == 141
    assert [*rows.pop(70).values()] == [str(pictures / "069b.png"), "", "", "", "empty (0 bytes)"]
    assert all(row["status"] == "ok" and row["rank"] == "1" and float(row["probability"]) > 0 for row in rows)
    assert result.stdout == f"{table}\n"
    expected = f"vitspeech predict: 1 file could not be read: see the column `status` of {table}"
    assert one_line(result, status=3) == expected


def test_broken_pictures_are_a_line_each_and_the_rest_is_printed(command, finished_run, pictures):
    (pictures / "000.png").unlink()
    (pictures / "000.png").write_bytes(b"\x89PNG")
    result = command("predict", finished_run, pictures, "--top", 1)
    printed = [line.rpartition(": ")[0] for line in result.stdout.splitlines()]
    assert printed == [str(pictures / f"{number:03}.png") for number in range(1, 140)]
    lines = result.stderr.replace("\r", "\n").splitlines()  # the progress bar ends its own with \\r
    first, second = (line for line in lines if line.startswith("vitspeech"))
    assert result.returncode == 3 and "Traceback" not in result.stderr
    assert first.startswith(f"vitspeech predict: {pictures / '000.png'}: not an image that can be read")
    assert second == f"vitspeech predict: {pictures / '069b.png'}: empty (0 bytes)"


@pytest.fixture
def thirty(star, monkeypatch):
    """A folder of 30 pictures of which one is broken; batches are of eight."""
    monkeypatch.setattr("vitspeech.inference.predict.BATCH", 8)
    folder = star.parent / "thirty"
    folder.mkdir()
    for number in range(30):
        os.link(star, folder / f"{number:02}.png")
    (folder / "05.png").unlink()
    (folder / "05.png").touch()
    return folder


@pytest.fixture
def interrupted(command, finished_run, thirty, tmp_path, monkeypatch):
    """Runs the command and presses Ctrl-C while a picture is read; gives the table."""

    def run(table, at="20.png"):
        def read(path, side):
            if path.name == at:
                raise KeyboardInterrupt
            return read_picture(path, side)

        with monkeypatch.context() as patched:
            patched.setattr("vitspeech.inference.predict.read_picture", read)
            return command("predict", finished_run, thirty, "--out", table)

    return run


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_interrupted_table_is_resumed_and_ends_as_any_other(
    command, finished_run, thirty, interrupted, tmp_path, ending
):
    whole, table = tmp_path / f"whole.{ending}", tmp_path / f"out.{ending}"
    assert command("predict", finished_run, thirty, "--out", whole).returncode == 3
    table.write_text("old")
    body = tmp_path / f"out.{ending}.partial"
    message = one_line(interrupted(table), status=130)
    assert message == f"vitspeech predict: {body} has the rows of 16 inputs; go on with --resume"
    assert table.read_text() == "old"
    message = one_line(command("predict", finished_run, thirty, "--out", table))
    assert f"{body}: was left by an interrupted run; go on with --resume, or remove it to start over" in message
    message = one_line(command("predict", finished_run, thirty, "--out", table, "--resume", "--top", 2))
    assert f"{body}: cannot be resumed: top was 3, and is 2 now" in message
    result = command("predict", finished_run, thirty, "--out", table, "--resume")
    # The broken picture was met before the interruption.
    expected = f"vitspeech predict: 1 file could not be read: see the column `status` of {table}"
    assert one_line(result, status=3) == expected and result.stdout == f"{table}\n"
    assert table.read_bytes() == whole.read_bytes() and not body.exists()
    assert "nothing to resume" in one_line(command("predict", finished_run, thirty, "--out", table, "--resume"))


def test_a_killed_command_is_resumed(command, finished_run, thirty, tmp_path, monkeypatch):
    def slow(path, side):
        if next(calls) == 20:
            time.sleep(60)  # the kill comes before the end
        return read_picture(path, side)

    calls = itertools.count()
    whole, table = tmp_path / "whole.csv", tmp_path / "out.csv"
    command("predict", finished_run, thirty, "--out", whole)
    process = os.fork()
    if process == 0:
        try:
            monkeypatch.setattr("vitspeech.inference.predict.read_picture", slow)
            command("predict", finished_run, thirty, "--out", table)
        finally:
            os._exit(0)
    body, end = table.with_name("out.csv.partial"), time.monotonic() + 20
    while not (body.exists() and body.read_bytes().count(b"\n") >= 2) and time.monotonic() < end:
        time.sleep(0.002)
    assert body.read_bytes().count(b"\n") >= 2  # what the rows are of, and a batch
    os.kill(process, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    with body.open("ab") as file:
        file.write(b"[torn, 1")
    assert command("predict", finished_run, thirty, "--out", table, "--resume").returncode == 3
    assert table.read_bytes() == whole.read_bytes()


def test_parquet_has_the_rows_of_csv(command, finished_run, thirty, tmp_path):
    for name in ("out.csv", "out.PARQUET"):
        command("predict", finished_run, thirty, "--out", tmp_path / name)
    expected = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    rows = parquet.read_table(tmp_path / "out.PARQUET").to_pylist()
    assert rows[15] == {name: None for name in rows[0]} | {"file": expected[15]["file"], "status": "empty (0 bytes)"}
    for row in rows:
        row["probability"] = "" if row["probability"] is None else f"{row['probability']:.6f}"
    assert [{name: "" if cell is None else str(cell) for name, cell in row.items()} for row in rows] == expected
