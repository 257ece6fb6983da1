"""Downloading a folder: several processes at once, and errors."""

import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import IncompleteRead
from threading import Event
from urllib.error import URLError

import pytest

from vitspeech.data.downloads import download_folder
from vitspeech.errors import InputError

DURATION_S, URL = 0.3, "http://example.org/words.tar.gz"


@pytest.mark.parametrize("begins_with_the_folder", [True, False])
def test_a_process_that_starts_while_another_unpacks_waits_for_it(tmp_path, begins_with_the_folder):
    folder, begun, starts = tmp_path / "sets" / "words", Event(), []

    def download():
        starts.append(1)
        if begins_with_the_folder:
            folder.mkdir()
        begun.set()
        time.sleep(DURATION_S)
        folder.mkdir(exist_ok=begins_with_the_folder)
        (folder / "clip.wav").touch()

    def found():
        download_folder(folder, download, URL)
        return [file.name for file in folder.iterdir()]

    with ThreadPoolExecutor() as threads:
        first = threads.submit(found)
        assert begun.wait(10)
        assert threads.submit(found).result(10) == first.result(10) == ["clip.wav"]
    assert len(starts) == 1 and list(folder.parent.iterdir()) == [folder]


def test_if_a_download_fails_a_process_that_waits_goes_on(tmp_path):
    folder, begun, starts = tmp_path / "words", Event(), []

    def download():
        starts.append(1)
        begun.set()
        time.sleep(DURATION_S)
        if len(starts) == 1:
            raise OSError("no network")
        folder.mkdir()

    with ThreadPoolExecutor() as threads:
        first = threads.submit(download_folder, folder, download, URL)
        assert begun.wait(10)
        second = threads.submit(download_folder, folder, download, URL)
        with pytest.raises(InputError, match="no network"):
            first.result(10)
        second.result(10)
    assert len(starts) == 2 and list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "error", [tarfile.ReadError("unexpected end"), URLError(OSError(-2, "unknown host")), IncompleteRead(b"", 5)]
)
def test_a_download_that_fails_names_the_address_and_what_to_do_by_hand(tmp_path, error):
    def download():
        raise error

    message = rf"^{tmp_path}/words: downloading {URL} failed \([^<]*\); .*unpack it as that folder"
    with pytest.raises(InputError, match=message):
        download_folder(tmp_path / "words", download, URL)
    (tmp_path / "words").mkdir()  # by hand
    download_folder(tmp_path / "words", download, URL)
