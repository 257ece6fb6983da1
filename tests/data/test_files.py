"""Files are written atomically."""

import csv
import os

import pytest

from vitspeech.data.files import find_files, write_csv


def test_a_table_is_read_back_as_it_was_given(tmp_path):
    rows = [("a,b.wav", 'say "yes"', 0.5), ("ü.wav", "two\nlines", "")]
    write_csv(tmp_path / "out.csv", ["file", "unit", "start_s"], iter(rows))
    with (tmp_path / "out.csv").open(newline="") as opened:
        found = list(csv.reader(opened))
    assert found == [["file", "unit", "start_s"], ["a,b.wav", 'say "yes"', "0.5"], ["ü.wav", "two\nlines", ""]]
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_table_without_rows_has_its_columns(tmp_path):
    write_csv(tmp_path / "out.csv", ["file", "unit"], [])
    assert (tmp_path / "out.csv").read_text() == "file,unit\n"


def broken():
    yield ("a.wav", "go")
    raise ValueError("b.wav: truncated")


def test_rows_that_fail_halfway_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="truncated"):
        write_csv(tmp_path / "out.csv", ["file", "unit"], broken())
    assert not list(tmp_path.iterdir())


def test_rows_that_fail_halfway_leave_the_table_that_was_there(tmp_path):
    write_csv(tmp_path / "out.csv", ["file", "unit"], [("old.wav", "stop")])
    before = (tmp_path / "out.csv").read_bytes()
    with pytest.raises(ValueError, match="truncated"):
        write_csv(tmp_path / "out.csv", ["file", "unit"], broken())
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_bytes() == before


def test_a_folder_that_is_not_there_is_named_before_a_row_is_made(tmp_path):
    rows = broken()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_csv(tmp_path / "nowhere" / "out.csv", ["file", "unit"], rows)
    assert next(rows) == ("a.wav", "go")


def test_a_table_names_files_whose_names_are_not_utf_8(tmp_path):
    write_csv(tmp_path / "table.csv", ["file"], [(os.fsdecode(b"bad\xff.jpg"),)])
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").split() == ["file", r"bad\udcff.jpg"]


def test_a_folder_stands_for_its_files_and_those_of_linked_folders_but_not_hidden_ones(tmp_path):
    for name in ("pictures/b.JPG", "pictures/._b.jpg", "pictures/notes.txt", "elsewhere/a.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "pictures" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "pictures")
    found = find_files([tmp_path / "pictures"], {".jpg"}, "picture")
    assert [file.relative_to(tmp_path).as_posix() for file in found] == ["pictures/b.JPG", "pictures/link/a.jpg"]
