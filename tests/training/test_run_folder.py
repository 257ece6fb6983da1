"""The folder of a run: one that holds files of the user's under the names of a run's files is refused, not changed."""

import json
import os
import shutil
from itertools import cycle
from pathlib import Path

import pytest
from running import one_line
from spotting_data import write_words
from tiny import TINY, TINY_SPEECH

from vitspeech.checkpoint.hub import push
from vitspeech.errors import InputError
from vitspeech.files import check_links
from vitspeech.training.run_folder import NAMES, check_free, check_run_links, discard, start
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
    assert "% of 4 words" in capsys.readouterr().out
    # A data set without `unknown` does not say it.
    assert "heard_words" not in json.loads((finished_speech_run / "model/card.json").read_text())


@pytest.mark.parametrize("name, make", [*zip(NAMES, cycle([a_file, a_folder, a_broken_link]), strict=False)])
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


LINKS = ["config.yaml", "run.json", "metrics.csv", "classes.csv", "best.ckpt", "previous.ckpt", "logs", "logs/1"]
LINKS += ["checkpoints", "model", "training_items.txt", ".model.before", ".model.draft"]


@pytest.mark.parametrize("name", LINKS)
def test_a_run_from_elsewhere_is_not_resumed_through_its_links(finished_run, tmp_path, command, name):
    run, own = tmp_path / "run", tmp_path / "own"
    shutil.copytree(finished_run, run, ignore=shutil.ignore_patterns("model", name))
    a_folder(own)
    target = own if name in ("logs", "logs/1", "checkpoints") or "model" in name else own / "mine.txt"
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(target)
    message = one_line(command("train", "--resume", run))
    assert f"{run / name}: a link to a file outside of the folder" in message
    assert entries(own) == {"mine.txt": b"mine"}


def test_the_last_checkpoint_may_be_on_another_disk(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/last.ckpt").symlink_to(tmp_path / "disk.ckpt")
    check_run_links(tmp_path / "run")
    (tmp_path / "run/notes").symlink_to("/etc")  # the user's own: no run has such a file
    check_run_links(tmp_path / "run")
    (tmp_path / "run/last.ckpt").unlink()
    (tmp_path / "run/last.ckpt").symlink_to(tmp_path / ".bash_profile")  # would be created
    with pytest.raises(InputError, match=r"last\.ckpt: a link to a file outside"):
        check_run_links(tmp_path / "run")


def test_the_link_that_leads_out_is_named_and_not_what_is_behind_it(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/logs").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"run/logs: a link"):
        check_links(tmp_path / "run", ["logs/1/log"])


@pytest.mark.parametrize("name", ["errors.txt", "model", "model/mine.jsonl", "config.yaml"])
def test_a_release_publishes_nothing_that_links_lead_to(finished_run, tmp_path, command, name):
    run, secret = shutil.copytree(finished_run, tmp_path / "run"), tmp_path / "secret"
    if name == "model":
        (run / "model").rename(secret)
    else:
        (run / name).unlink(missing_ok=True)
        a_file(secret)
    (run / name).symlink_to(secret)
    assert "a link to a file outside of the folder" in one_line(command("release", run, tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_readme_is_not_written_through_a_link_and_nothing_is_uploaded_through_one(finished_run, tmp_path, command):
    released = shutil.copytree(finished_run / "model", tmp_path / "released")
    (released / "notes.txt").symlink_to(tmp_path / "secret")
    assert command("release", released).returncode == 0  # the user's own link, which stays here
    with pytest.raises(InputError, match=r"notes\.txt: a link to a file outside"):
        push(released, "user/mine")
    (released / "README.md").unlink()
    (released / "README.md").symlink_to(tmp_path / ".bash_profile")
    assert "README.md: a link to a file outside" in one_line(command("release", released))
    assert not (tmp_path / ".bash_profile").exists()
