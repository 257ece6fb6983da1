"""The folder of a run: one that holds files of the user's under the names of a run's files is refused, not changed."""

import json
import os
import shutil
from pathlib import Path

import pytest
from spotting_data import write_words
from tiny import TINY, TINY_SPEECH

from vitspeech.training.run_folder import NAMES, check_free, discard, start
from vitspeech.training.train import train


def entries(folder: Path) -> dict[str, bytes | None]:
    """The contents of every file below a folder; `None` for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def a_file(path: Path) -> None:
    path.write_text("mine")


def a_folder(path: Path) -> None:
    path.mkdir()
    a_file(path / "mine.txt")


def a_broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


def test_a_spotters_card_has_the_words_heard_as_unknown_and_training_says_what_it_misses(
    tmp_path, finished_speech_run, capsys
):
    words = write_words(tmp_path / "words", count=2)
    data = ["--data=vitspeech.Keywords", f"--data.root={words}", "--data.words=[go,stop]", "--data.batch=4"]
    shape = [argument for argument in TINY_SPEECH if not argument.startswith("--data")]
    train([*shape, "--model=vitspeech.Spotting", *data, "--trainer.max_epochs=1", f"--run={tmp_path / 'run'}"])
    assert json.loads((tmp_path / "run/model/card.json").read_text())["heard_words"] == ["cat"]
    assert "of 4 words missed at the default threshold" in capsys.readouterr().out
    # A data set without `unknown` does not say it.
    assert "heard_words" not in json.loads((finished_speech_run / "model/card.json").read_text())


@pytest.mark.parametrize("make", [a_file, a_folder, a_broken_link])
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_with_a_file_of_a_runs_name_is_refused_and_stays(tmp_path, name, make):
    make(tmp_path / name)
    a_file(tmp_path / "notes.txt")
    before = entries(tmp_path)
    with pytest.raises(FileExistsError, match=rf"holds a run|has {name}, a name that a run writes to"):
        check_free(tmp_path)
    with pytest.raises(FileExistsError):
        start(str(tmp_path), [], "seed: 0", {})
    assert entries(tmp_path) == before and os.path.lexists(tmp_path / name)


@pytest.mark.parametrize("name", ["logs", "metrics.csv", "model"])
def test_training_into_such_a_folder_ends_before_anything_is_written(tmp_path, name):
    a_folder(tmp_path / name)
    before = entries(tmp_path)
    with pytest.raises(FileExistsError, match=name):
        train([*TINY, f"--run={tmp_path}", "--data.init_args.batch=5000"])
    assert entries(tmp_path) == before


def test_a_config_that_cannot_be_written_does_not_block_the_folder(tmp_path, monkeypatch):
    with pytest.raises(UnicodeEncodeError):  # stands for a full disk
        start(str(tmp_path), [], "name: \udcff", {})
    assert entries(tmp_path) == {}
    start(str(tmp_path), [], "seed: 0", {})


def test_a_run_that_cannot_start_removes_its_own_files_alone(tmp_path):
    a_file(tmp_path / "notes.txt")
    folder = start(str(tmp_path), [], "seed: 0", {})
    shutil.copytree(tmp_path, tmp_path / "logs/0")
    discard(folder)
    assert entries(tmp_path) == {"notes.txt": b"mine"}
