"""Files are found in order, and written atomically."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vitspeech.data.audio.continuous import read_transcripts
from vitspeech.files import read_text, walk_files, walk_folder, write_csv, write_text


def test_a_table_names_files_whose_names_are_not_utf_8(tmp_path):
    write_csv(tmp_path / "table.csv", ["file"], [(os.fsdecode(b"bad\xff.jpg"),)])
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").split() == ["file", r"bad\udcff.jpg"]
    write_text(os.fsdecode(b"bad\xff.jpg"), tmp_path / "text")
    assert (tmp_path / "text").read_text(encoding="utf-8") == r"bad\udcff.jpg"


def test_what_editors_add_to_a_text_is_left_out(tmp_path):
    (tmp_path / "text").write_bytes("\ufeffone\r\ntwo\rthree\n".encode())
    assert read_text(tmp_path / "text") == "one\ntwo\nthree\n"
    (tmp_path / "1-2.trans.txt").write_bytes("\ufeff1-2-0\tGO HOME\r\n\r\n1-2-1 Stop\r\n".encode())
    found = read_transcripts(tmp_path / "1-2.trans.txt")
    assert {name: words for name, (_, words) in found.items()} == {"1-2-0": ["go", "home"], "1-2-1": ["stop"]}


def test_text_is_utf_8_in_a_locale_that_is_not(tmp_path):
    code = "from vitspeech.files import write_text; write_text('91 \\xb1 1 %', 'text')"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | locale, check=True)
    assert (tmp_path / "text").read_text(encoding="utf-8") == "91 ± 1 %"


def test_a_folder_stands_for_its_files_and_those_of_linked_folders_but_not_hidden_ones(tmp_path):
    for name in ("pictures/b.JPG", "pictures/._b.jpg", "pictures/notes.txt", "elsewhere/a.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "pictures" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "pictures")
    found = list(walk_files([tmp_path / "pictures"], {".jpg"}, "image"))
    assert [file.relative_to(tmp_path).as_posix() for file in found] == ["pictures/b.JPG", "pictures/link/a.jpg"]


@pytest.fixture
def tree(tmp_path):
    """Names of files and folders between which the order by whole paths and by names differs."""
    for name in ("a/z.jpg", "a-b/x.jpg", "a.jpg", "a b.jpg", "a/b/c/d.jpg", "A.jpg", "é/1.jpg", "é/.2.jpg", ".h/3.jpg"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).touch()
    (tmp_path / "tree/folder.jpg").mkdir()
    return tmp_path / "tree"


def test_a_folder_is_walked_in_the_order_of_sorted_paths(tree):
    expected = sorted(path for path in tree.rglob("*.jpg") if path.is_file() and path.name[0] != ".")
    assert list(walk_folder(tree, {".jpg"})) == expected and len(expected) == 8


def test_each_path_is_checked_before_the_first_file(tree):
    (tree / "void").mkdir()
    with pytest.raises(FileNotFoundError, match=r"void: no image in this folder \(\.jpg, \.png\)"):
        next(walk_files([tree, tree / "void"], {".jpg", ".png"}, "image"))
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such file or folder"):
        next(walk_files([tree, tree / "nowhere"], {".jpg"}, "image"))


def test_a_folder_that_several_links_lead_to_is_entered_once(tree, tmp_path):
    for name in ("far/in/1.jpg", "far/2.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    links = {"b1": tmp_path / "far/in", "b2": tmp_path / "far", "b3": tmp_path / "far/in", "b4": tree / "a", "b5": "b5"}
    for name, target in {**links, "b6": tmp_path}.items():
        (tree / name).symlink_to(target)
    (tmp_path / "far/back").symlink_to(tree)
    found = [path.relative_to(tree).as_posix() for path in walk_folder(tree, {".jpg"})]
    assert [name for name in found if name[0] == "b"] == ["b1/1.jpg", "b2/2.jpg"] and len(found) == 10


def test_a_folder_that_may_not_be_listed_is_left_out(tree, monkeypatch):
    def locked(path):
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", locked)
    assert len(list(walk_folder(tree, {".jpg"}))) == 6
