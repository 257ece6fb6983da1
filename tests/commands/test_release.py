"""`vitspeech release`: what it writes, and that it changes a table only on request."""

import json
import shutil

import pytest


def test_release_writes_a_model_that_loads(command, finished_run, tmp_path):
    result = command("release", finished_run, tmp_path / "checkpoints/shapes")
    assert result.returncode == 0 and '"test_accuracy"' in result.stdout
    names = {path.name for path in (tmp_path / "checkpoints/shapes").iterdir()}
    assert names >= {"model.safetensors", "config.yaml", "card.json", "learning_curves.png", "confusion_matrix.png"}
    assert all(name in result.stdout.splitlines()[0] for name in names)
    assert not (tmp_path / "checkpoints/README.md").exists()  # only with --table


def test_the_table_of_the_current_folder_is_beside_it(command, finished_run, tmp_path, monkeypatch):
    command("release", finished_run, tmp_path / "checkpoints/shapes")
    monkeypatch.chdir(tmp_path / "checkpoints/shapes")
    assert command("release", ".", "--table").returncode == 0
    assert "| `shapes` |" in (tmp_path / "checkpoints/README.md").read_text()
    assert "| model |" not in (tmp_path / "checkpoints/shapes/README.md").read_text()


def test_release_in_half_precision_measures_again(command, finished_run, tmp_path):
    result = command("release", finished_run, tmp_path / "shapes", "--half")
    assert result.returncode == 0 and "confusion_matrix.png" in result.stdout
    card, before = (
        json.loads(path.read_text()) for path in (tmp_path / "shapes/card.json", finished_run / "model/card.json")
    )
    assert card["weights"] == "float16" and card["metrics"].keys() == before["metrics"].keys()
    assert abs(card["metrics"]["test_accuracy"] - before["metrics"]["test_accuracy"]) <= 0.05
    assert "rounded to float16" in (tmp_path / "shapes/README.md").read_text()
    evaluated = command("evaluate", tmp_path / "shapes")
    assert evaluated.stdout.splitlines()[-1] == f"test_accuracy {card['metrics']['test_accuracy']:.4f}"


def test_seeds_are_added_later(command, finished_run, tmp_path):
    folder = tmp_path / "checkpoints/shapes"
    command("release", finished_run, folder)
    run = shutil.copytree(finished_run, tmp_path / "other")
    card = json.loads((run / "model/card.json").read_text()) | {"seeds": [5]}
    (run / "model/card.json").write_text(json.dumps(card))
    result = command("release", folder, "--seeds", run, "--table")
    assert result.returncode == 0 and f"{folder}: wrote card.json, README.md\n" in result.stdout
    assert "Seed 0 (the mean is over it and 5);" in (folder / "README.md").read_text()
    assert "± 0.00 % (2)" in (tmp_path / "checkpoints/README.md").read_text()


def test_seeds_that_a_new_release_leaves_out_are_named(command, finished_run, tmp_path):
    folder = tmp_path / "shapes"
    assert command("release", finished_run, folder).stderr == ""
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | {"seeds": [0, 2, 1]}))
    with pytest.warns(UserWarning, match="shapes: the previous model had seeds that this one does not have: 1, 2$"):
        assert command("release", finished_run, folder).returncode == 0
    assert json.loads((folder / "card.json").read_text())["seeds"] == [0]
