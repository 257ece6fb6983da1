"""The scripts as a user runs them: what they print, what they leave, how they fail."""

import csv
import os
import subprocess
import sys

import pytest
from tiny import ROOT

from vitspeech.data.shapes import save_example


def script(name: str, *arguments, **environment) -> subprocess.CompletedProcess:
    """Run a script in a process of its own."""
    command = [sys.executable, ROOT / "scripts" / name, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


@pytest.fixture
def star(tmp_path):
    save_example(str(tmp_path / "star.png"))
    return tmp_path / "star.png"


def one_line(result: subprocess.CompletedProcess, status: int = 1) -> str:
    """The message of a run that failed as promised: one line, no traceback, that exit status."""
    message = result.stderr.rpartition("\r")[2].strip()
    assert result.returncode == status, result.stderr
    assert "Traceback" not in message and "\n" not in message
    return message


def test_evaluate_gives_the_cards_number_again_in_its_last_line(finished_run):
    import vitspeech

    card = vitspeech.load(finished_run).card
    result = script("evaluate.py", finished_run)
    assert result.stdout.splitlines()[-1] == f"test_accuracy {card['metrics']['test_accuracy']:.4f}"


def test_predict_prints_a_line_a_picture(finished_run, star):
    result = script("predict.py", finished_run, star, "--top", 2)
    path, _, labels = result.stdout.strip().rpartition(": ")
    assert path == str(star) and len(labels.split(", ")) == 2


def test_predict_writes_a_csv(finished_run, star, tmp_path):
    result = script("predict.py", finished_run, star.parent, "--csv", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert result.returncode == 0
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert rows[0].keys() == {"file", "rank", "label", "probability"}


def test_a_broken_picture_leaves_no_half_written_csv(finished_run, star, tmp_path):
    (tmp_path / "zero.png").touch()
    message = one_line(script("predict.py", finished_run, star.parent, "--csv", tmp_path / "out.csv"))
    assert message.startswith("predict.py: ") and "zero.png: empty (0 bytes)" in message
    assert not list(tmp_path.glob("out.csv*"))


def test_a_missing_checkpoint_is_one_line(tmp_path, star):
    assert "nowhere: missing" in one_line(script("predict.py", tmp_path / "nowhere", star))


def test_usage_errors_have_status_two(finished_run, star):
    assert script("predict.py").returncode == 2
    assert script("predict.py", finished_run, star, "--top", 0).returncode == 2


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("--model.network.init_args.heads=5", "heads=5 does not divide width=64"),
        ("--model.network.init_args.patch=5", "patch=5 does not divide image=32"),
    ],
)
def test_a_network_that_cannot_be_is_one_line(tmp_path, override, reason):
    run = tmp_path / "run"
    result = script("train.py", "--config", ROOT / "configs/shapes/vit.yaml", override, "--run", run)
    assert reason in one_line(result)
    assert not run.exists()


def test_a_missing_data_set_is_one_line_and_leaves_no_run(tmp_path):
    config = ROOT / "configs/cifar10/vit.yaml"
    run = tmp_path / "run"
    result = script("train.py", "--config", config, "--run", run, VITSPEECH_DATA=str(tmp_path / "void"))
    assert "void/cifar-10-batches-py: CIFAR-10 is not there" in one_line(result)


def test_release_writes_a_model_that_loads(finished_run, tmp_path):
    result = script("release.py", finished_run, tmp_path / "checkpoints/shapes")
    assert result.returncode == 0 and '"test_accuracy"' in result.stdout
    assert {path.name for path in (tmp_path / "checkpoints/shapes").iterdir()} == {
        "model.safetensors",
        "config.yaml",
        "card.json",
    }


def test_every_script_says_what_it_is_for():
    for path in sorted((ROOT / "scripts").glob("*.py")):
        result = script(path.name, "--help")
        assert result.returncode == 0 and "usage" in result.stdout.lower(), path
        assert len(path.read_text().splitlines()) <= 80
