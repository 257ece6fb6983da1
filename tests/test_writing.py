"""Files are replaced whole, through links, with their permissions; devices, pipes and folders are never replaced."""

import os
import socket
import stat
from pathlib import Path

import pytest

from vitspeech.command_line import check_file
from vitspeech.errors import InputError
from vitspeech.files import replacing


def write(path, text="new"):
    with replacing(path) as draft:
        draft.write_text(text)


@pytest.fixture
def special(tmp_path):
    """A named pipe, a socket, a folder, a link to each, and a link that leads to itself."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket may have 108 bytes
        server.bind("socket")
        os.chdir(here)
        (tmp_path / "folder").mkdir()
        for name in ("pipe", "socket", "folder"):
            (tmp_path / f"to-{name}").symlink_to(name)
        (tmp_path / "loop").symlink_to("loop")
        yield tmp_path


SPECIAL = ["pipe", "socket", "folder", "to-pipe", "to-socket", "to-folder", "loop"]


@pytest.mark.parametrize("name", SPECIAL)
def test_what_is_no_regular_file_is_refused_and_stays(special, name):
    before = os.lstat(special / name)
    with pytest.raises(InputError, match=r"not a regular file|cannot be written"):
        write(special / name)
    assert os.lstat(special / name).st_ino == before.st_ino
    assert not list(special.glob(".*"))


def test_a_device_is_refused_and_stays_one(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        device = Path(os.devnull)
    with pytest.raises(InputError, match="device"):
        write(device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/table.csv").write_text("old")
    (tmp_path / "middle").symlink_to("results/table.csv")
    (tmp_path / "link").symlink_to(tmp_path / "middle")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "middle").is_symlink()
    assert (tmp_path / "results/table.csv").read_text() == "new"
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["table.csv"]


def test_a_link_to_a_file_that_does_not_exist_yet_creates_it(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "link").symlink_to("results/table.csv")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "results/table.csv").read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_keeps_its_permissions(tmp_path, mode):
    (tmp_path / "table.csv").touch()
    (tmp_path / "table.csv").chmod(mode)
    write(tmp_path / "table.csv")
    assert stat.S_IMODE((tmp_path / "table.csv").stat().st_mode) == mode


def test_the_file_that_is_replaced_can_be_kept(tmp_path):
    (tmp_path / "new").write_text("first")
    with replacing(tmp_path / "new", keep=tmp_path / "old") as draft:
        draft.write_text("second")
        assert not (tmp_path / "old").exists() and (tmp_path / "new").read_text() == "first"
    assert (tmp_path / "new").read_text() == "second" and (tmp_path / "old").read_text() == "first"


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    with replacing(tmp_path / "table.csv") as first:
        first.write_text("first")
        write(tmp_path / "table.csv", "second")
        assert (tmp_path / "table.csv").read_text() == "second"
    assert (tmp_path / "table.csv").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_draft_is_not_written_through_a_link_that_somebody_put_there(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    (tmp_path / f".table.csv.{'0' * 12}.draft").symlink_to("victim")
    with pytest.raises(FileExistsError):
        write(tmp_path / "table.csv")
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_or_folder_that_is_not_writable_is_refused(tmp_path):
    (tmp_path / "table.csv").touch(mode=0o444)
    with pytest.raises(PermissionError, match="the file is not writable"):
        check_file(tmp_path / "table.csv", "--out")
    tmp_path.chmod(0o555)
    with pytest.raises(PermissionError, match=r"the folder .* is not writable"):
        check_file(tmp_path / "other.csv", "--out")
    tmp_path.chmod(0o755)
