"""Releasing runs: one, several seeds, and what can't be released."""

import json
import shutil

import pytest
import torch
import yaml
from safetensors.torch import load_file

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.checkpoint.model import save
from vitspeech.checkpoint.models_table import write_table
from vitspeech.checkpoint.release import readme, release, release_seeds
from vitspeech.errors import InputError


def other_seed(finished_run, tmp_path, *, seed, accuracy):
    """A copy of the run with another seed and another result."""
    run = shutil.copytree(finished_run, tmp_path / f"seed{seed}")
    card = json.loads((run / "model/card.json").read_text())
    card |= {"seeds": [seed], "metrics": card["metrics"] | {"test_accuracy": accuracy}}
    (run / "model/card.json").write_text(json.dumps(card))
    return run


def change(run, key, value):
    """Change one key of the run's config."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    *parents, name = key.split(".")
    place = config
    for parent in parents:
        place = place[parent]
    place[name] = value
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def change_card(run, **entries):
    """Change entries of the card of the run's model; `None` removes one."""
    file = run / "model/card.json"
    card = json.loads(file.read_text()) | entries
    file.write_text(json.dumps({name: value for name, value in card.items() if value is not None}))


def test_a_released_card_has_all_required_entries(finished_run, tmp_path):
    release(finished_run, tmp_path / "checkpoints/shapes")
    card = vitspeech.load(tmp_path / "checkpoints/shapes").card
    assert card.keys() >= {"name", "data", "split", "metrics", "seeds", "commit", "hardware", "minutes", "sha256"}
    assert card["name"] == "shapes" and card["split"] == "test" and card["seeds"] == [0]
    assert card["data"]["init_args"] == {"count": 250, "drawn_from": 0}
    table = write_table(tmp_path / "checkpoints").read_text()
    assert (
        f"| `shapes` | {card['parameters'] / 1e6:.2f} M | accuracy {100 * card['metrics']['test_accuracy']:.2f} %"
        in table
    )


def test_seeds_give_mean_and_deviation(finished_run, tmp_path):
    first = other_seed(finished_run, tmp_path, seed=1, accuracy=0.90)
    second = other_seed(finished_run, tmp_path, seed=2, accuracy=0.94)
    metrics = release(first, tmp_path / "out/x", [second])["metrics"]
    assert (metrics["test_accuracy"], metrics["test_accuracy_mean"]) == (0.90, 0.92)
    assert metrics["test_accuracy_sd"] == pytest.approx(0.0283, abs=1e-4)
    assert "92.00 ± 2.83 % (2)" in write_table(tmp_path / "out").read_text()


def test_seeds_have_the_same_test_set(finished_run, tmp_path):
    runs = [other_seed(finished_run, tmp_path, seed=seed, accuracy=0.5) for seed in (1, 2, 3)]
    for run, digit in zip(runs, "112", strict=True):
        change_card(run, splits={"test": {"items": 2, "sha256": digit * 64}})
    first, same, other = runs
    assert release(first, tmp_path / "x", [same, finished_run])["seeds"] == [1, 2, 0]  # generated items have no names
    with pytest.raises(InputError, match=r"seed3: was tested on other items than .*seed1"):
        release(first, tmp_path / "y", [other])


def test_half_precision_halves_the_file_and_measures_the_rounded_weights(finished_run, tmp_path):
    exact = release(finished_run, tmp_path / "exact")
    measured = []

    def measure(model):
        measured.append({name: weight.clone() for name, weight in model.network.state_dict().items()})
        return {"test_accuracy": 0.25}

    card = release(finished_run, tmp_path / "half", measure_half=measure)
    assert (card["metrics"], card["weights"], "weights" in exact) == ({"test_accuracy": 0.25}, "float16", False)
    model = vitspeech.load(tmp_path / "half")
    network, before = model.network, vitspeech.load(tmp_path / "exact").network
    stored = load_file(tmp_path / "half/model.safetensors")
    for name, parameter in network.named_parameters():
        assert parameter.dtype == torch.float32 and stored[name].dtype == torch.float16
        assert torch.equal(parameter, before.get_parameter(name).half().float())
        assert torch.equal(parameter, measured[0][name])
    for name, buffer in network.named_buffers():
        assert torch.equal(buffer, before.get_buffer(name))
    save(model, tmp_path / "half")  # as `vitspeech tune` does: nothing changes
    assert load_file(tmp_path / "half/model.safetensors").keys() == stored.keys()
    assert model.card["sha256"] == vitspeech.load(tmp_path / "half").card["sha256"]


def test_a_weight_too_large_for_half_precision_is_named(finished_run, tmp_path):
    run = shutil.copytree(finished_run, tmp_path / "run")
    model = vitspeech.load(run)
    with torch.no_grad():
        model.network.head.bias[0] = 1e6
    save(model, run / "model")
    with pytest.raises(InputError, match=r"head\.bias has values above 65,504"):
        release(run, tmp_path / "half", measure_half=dict)
    assert not (tmp_path / "half").exists()


def test_the_table_is_rewritten_and_its_introduction_stays(finished_run, tmp_path):
    (tmp_path / "README.md").write_text("# Ours\n\nA word first.\n")
    for name in ("a", "b"):
        release(finished_run, tmp_path / name)
    assert (tmp_path / "README.md").read_text() == "# Ours\n\nA word first.\n"  # only write_table changes it
    text = write_table(tmp_path).read_text()
    assert text.startswith("# Ours\n\nA word first.\n\n| model |") and text.count("| model |") == 1
    assert text.count("| `a` |") == text.count("| `b` |") == 1


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("data.init_args.count", 999, "data.init_args.count is 999, but 250 in"),
        ("data.init_args.augment", None, "data.init_args.augment.flip is not set, but True in"),
        ("model.init_args.optimizer.init_args.lr", 0.5, "model.init_args.optimizer.init_args.lr is 0.5, but 0.004 in"),
        ("trainer.precision", "16-mixed", "trainer.precision is '16-mixed', but '32-true' in"),
    ],
)
def test_seeds_are_of_one_config(finished_run, tmp_path, key, value, message):
    strange = other_seed(finished_run, tmp_path, seed=5, accuracy=0.5)
    change(strange, key, value)
    with pytest.raises(ValueError) as caught:
        release(finished_run, tmp_path / "x", [strange])
    assert str(caught.value) == f"{strange}: {message} {finished_run}; seeds must be of one config"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "key, sums", [("starts_from_sha256", ("0" * 64, "1" * 64)), ("teachers_sha256", (["0" * 64], []))]
)
def test_seeds_learn_from_the_same_weights(finished_run, tmp_path, key, sums):
    first, other = (other_seed(finished_run, tmp_path, seed=seed, accuracy=0.5) for seed in (4, 5))
    for run, value in zip((first, other), sums, strict=True):
        card = json.loads((run / "model/card.json").read_text())
        (run / "model/card.json").write_text(json.dumps(card | {key: value}))
    with pytest.raises(InputError, match=rf"seed5: learned from other weights than .*seed4 \({key} differs\)"):
        release(first, tmp_path / "x", [other])


def test_seeds_may_differ_in_what_does_not_change_what_is_learned(finished_run, tmp_path):
    other = other_seed(finished_run, tmp_path, seed=5, accuracy=0.5)
    changes = {"seed_everything": 5, "data.init_args.seed": 5, "data.init_args.root": "elsewhere"}
    changes |= {"trainer.enable_progress_bar": True, "trainer.accelerator": "gpu", "trainer.default_root_dir": "x"}
    for key, value in changes.items():
        change(other, key, value)
    assert release(finished_run, tmp_path / "x", [other])["seeds"] == [0, 5]


def test_seeds_may_differ_in_what_auto_precision_chose_and_the_readme_says_so(finished_run, tmp_path):
    others = [other_seed(finished_run, tmp_path, seed=seed, accuracy=0.5) for seed in (5, 6, 7)]
    for run in others[:2]:
        change(run, "trainer.precision", "bf16-mixed")
        change_card(run, precision="bf16-mixed")
    folder = tmp_path / "x"
    release(finished_run, folder, others[:1])
    card = release_seeds(folder, others[1:])
    assert card["recipe"]["trainer.precision"] == "32-true"
    assert [run["precision"] for run in card["runs"]] == ["32-true", "bf16-mixed", "bf16-mixed", "32-true"]
    assert "Precision by seed: bf16-mixed (5, 6), 32-true (0, 7)." in readme(vitspeech.load(folder))
    release(others[0], tmp_path / "y", others[1:2])
    assert "Precision by seed" not in readme(vitspeech.load(tmp_path / "y"))


def test_a_recognizer_is_released_with_its_errors_and_listed_by_its_error_rate(finished_recognizer_run, tmp_path):
    card = release(finished_recognizer_run, tmp_path / "checkpoints/words")
    assert next(iter(card["metrics"])) == "word_error_rate" and card["delay_ms"] == 245
    listed = (tmp_path / "checkpoints/words/errors.txt").read_text()
    assert listed == (finished_recognizer_run / "errors.txt").read_text()
    table = write_table(tmp_path / "checkpoints").read_text()
    assert f"| `words` | 0.01 M | WER {100 * card['metrics']['word_error_rate']:.2f} % | one seed |" in table
    assert vitspeech.load(tmp_path / "checkpoints/words").network.head.out_features == 9


def test_a_card_finds_the_words_that_its_utterances_are_made_of(finished_recognizer_run):
    model = vitspeech.load(finished_recognizer_run)
    data = card_dataset(model, None)
    assert (type(data).__name__, type(data.source).__name__) == ("WordSequences", "SpokenWords")
    assert (data.count, data.source.count, data.labels) == (60, 100, model.labels)
    model.card["data"]["init_args"]["source"]["class_path"] = "vitspeech.Shapes"
    with pytest.raises(ValueError, match=r"'vitspeech\.Shapes' is not a data set"):
        card_dataset(model, None)


def test_the_card_keeps_the_recipe_and_the_result_of_each_seed(finished_run, tmp_path):
    first = other_seed(finished_run, tmp_path, seed=1, accuracy=0.90)
    second = other_seed(finished_run, tmp_path, seed=2, accuracy=0.94)
    change(first, "trainer.default_root_dir", "/home/me")
    change(first, "data.init_args.noise", "/home/me/noise")
    change(second, "data.init_args.noise", "/home/you/noise")
    card = release(first, tmp_path / "x", [second])
    assert [(run["seed"], run["metrics"]) for run in card["runs"]] == [
        (1, {"test_accuracy": 0.90}),
        (2, {"test_accuracy": 0.94}),
    ]
    assert all({"minutes", "commit", "hardware"} <= run.keys() for run in card["runs"])
    assert card["recipe"]["model.init_args.network.class_path"] == "vitspeech.ViT"
    assert card["recipe"]["data.init_args.noise"] == "noise"  # the folders of this machine are not shown
    assert "/home/me" not in (tmp_path / "x/card.json").read_text()


def test_seeds_are_added_to_a_released_model_whose_weights_stay(finished_run, tmp_path):
    first, second, third = (
        other_seed(finished_run, tmp_path, seed=seed, accuracy=accuracy)
        for seed, accuracy in ((1, 0.90), (2, 0.94), (3, 0.92))
    )
    at_once = release(first, tmp_path / "x", [second, third])
    release(first, tmp_path / "later")
    before = load_file(tmp_path / "later/model.safetensors")
    release_seeds(tmp_path / "later", [second])
    assert release_seeds(tmp_path / "later", [third]) == at_once | {"name": "later"}
    model = vitspeech.load(tmp_path / "later")  # the sums of the card are right
    assert (model.card["seeds"], model.card["metrics"]["test_accuracy"]) == ([1, 2, 3], 0.90)
    assert model.card["metrics"]["test_accuracy_mean"] == pytest.approx(0.92)
    assert all(torch.equal(before[name], value) for name, value in model.network.state_dict().items())
    assert (tmp_path / "later/learning_curves.png").exists()


def test_seeds_that_cannot_be_added_leave_the_card(finished_run, tmp_path):
    folder = tmp_path / "x"
    release(finished_run, folder)
    before = (folder / "card.json").read_text()
    other = other_seed(finished_run, tmp_path, seed=1, accuracy=0.5)
    change(other, "trainer.max_epochs", 77)
    with pytest.raises(InputError, match=rf"seed1: trainer\.max_epochs is 77, but \d+ in {folder}; seeds must"):
        release_seeds(folder, [other])
    with pytest.raises(InputError, match=r"seeds \[0, 0\] are not all different"):
        release_seeds(folder, [finished_run])
    assert (folder / "card.json").read_text() == before
    card = json.loads(before)
    del card["recipe"]
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match="has no recipe"):
        release_seeds(folder, [other_seed(finished_run, tmp_path, seed=2, accuracy=0.5)])
