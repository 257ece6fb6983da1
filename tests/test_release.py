"""Releasing runs: one, several seeds, and what can't be released."""

import json
import shutil

import pytest

import vitspeech
from vitspeech.release import card_data, release


def other_seed(finished_run, tmp_path, *, seed, accuracy):
    """A copy of the run with another seed and another result."""
    run = shutil.copytree(finished_run, tmp_path / f"seed{seed}")
    card = json.loads((run / "model/card.json").read_text())
    card |= {"seeds": [seed], "metrics": card["metrics"] | {"test_accuracy": accuracy}}
    (run / "model/card.json").write_text(json.dumps(card))
    return run


def test_a_released_card_says_what_the_issue_asks_for(finished_run, tmp_path):
    release(finished_run, tmp_path / "checkpoints/shapes")
    card = vitspeech.load(tmp_path / "checkpoints/shapes").card
    assert card.keys() >= {"name", "data", "split", "metrics", "seeds", "commit", "hardware", "minutes", "sha256"}
    assert card["name"] == "shapes" and card["split"] == "test" and card["seeds"] == [0]
    assert card["data"]["init_args"] == {"count": 250, "drawn_from": 0}
    table = (tmp_path / "checkpoints/README.md").read_text()
    assert f"| `shapes` | {card['parameters'] / 1e6:.2f} M | {100 * card['metrics']['test_accuracy']:.2f} %" in table


def test_seeds_give_mean_and_deviation(finished_run, tmp_path):
    first = other_seed(finished_run, tmp_path, seed=1, accuracy=0.90)
    second = other_seed(finished_run, tmp_path, seed=2, accuracy=0.94)
    metrics = release(first, tmp_path / "out/x", [second])["metrics"]
    assert (metrics["test_accuracy"], metrics["test_accuracy_mean"]) == (0.90, 0.92)
    assert metrics["test_accuracy_sd"] == pytest.approx(0.0283, abs=1e-4)
    assert "92.00 ± 2.83 % (2)" in (tmp_path / "out/README.md").read_text()


def test_the_table_is_rewritten_and_its_introduction_stays(finished_run, tmp_path):
    (tmp_path / "README.md").write_text("# Ours\n\nA word first.\n")
    for name in ("a", "b"):
        release(finished_run, tmp_path / name)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("# Ours\n\nA word first.\n\n| model |") and text.count("| model |") == 1
    assert text.count("| `a` |") == text.count("| `b` |") == 1


def test_what_is_not_finished_or_not_alike_is_refused(finished_run, tmp_path):
    with pytest.raises(FileNotFoundError, match="no finished run"):
        release(tmp_path, tmp_path / "x")
    with pytest.raises(ValueError, match="not all different"):
        release(finished_run, tmp_path / "x", [finished_run])
    strange = other_seed(finished_run, tmp_path, seed=5, accuracy=0.5)
    card = json.loads((strange / "model/card.json").read_text())
    card["data"]["init_args"]["count"] = 999
    (strange / "model/card.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match="another network or data set"):
        release(finished_run, tmp_path / "x", [strange])
    assert not (tmp_path / "x").exists()


def test_a_card_can_name_nothing_but_data_sets(finished_run):
    model = vitspeech.load(finished_run)
    for path in ("os.system", "vitspeech.Augment", "vitspeech.ViT"):
        model.card["data"]["class_path"] = path
        with pytest.raises(ValueError, match="is no data set of vitspeech"):
            card_data(model, None)


def test_classes_that_the_model_does_not_know_are_named(finished_run):
    model = vitspeech.load(finished_run)
    model.labels = [label for label in model.labels if label != "heart"]
    with pytest.raises(ValueError, match="differ: heart"):
        card_data(model, None)
