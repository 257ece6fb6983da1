"""The plan of a sweep: its command line, the names of its variants, the order and the commands of its runs."""

import pytest

from vitspeech.commands.sweep import parse_variation, split_options
from vitspeech.errors import InputError
from vitspeech.sweep.plan import make_plan, shipped_name

OWN = ("--seeds", "--vary", "--table")


def names(plan):
    return [variant.name for variant in plan.variants]


def test_options_of_train_are_split_from_those_of_the_sweep_wherever_they_stand():
    line = "--trainer.max_epochs 3 a/b --data.root=x --seeds 0 1 -o out --config trainer/gpu --model.lr -1".split()
    own, others = split_options(line, OWN)
    assert own == "a/b --seeds 0 1 -o out".split()
    assert others == ["--trainer.max_epochs=3", "--data.root=x", "--config=trainer/gpu", "--model.lr=-1"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("k.depth=1,2,3", ["1", "2", "3"]),
        ("k.words=[yes, no],[up, down, left]", ["[yes, no]", "[up, down, left]"]),
        ("k.a={b: [1, 2], c: 3}, null", ["{b: [1, 2], c: 3}", "null"]),
        ("k.text='a,b',\"c[\"", ["'a,b'", '"c["']),
        ("k.kind=mine.Net=1", ["mine.Net=1"]),
    ],
)
def test_values_are_split_at_commas_outside_of_brackets_and_quotes(text, values):
    assert parse_variation(text) == (text.partition("=")[0], values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depth=1,,2", "write it as KEY=A,B,C"),
        ("depth=1,2,1", "a value is there twice"),
        ("words=[a,b", "brackets or quotes are not closed"),
        ("seed_everything=0,1", "--vary seed_everything: name the seeds with --seeds"),
    ],
)
def test_what_is_no_variation_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_variation(text)


def test_every_config_is_run_with_every_value_and_seed_seed_by_seed(tmp_path):
    variations = [("model.network.depth", ["1", "2"]), ("model.optimizer.lr", ["1e-3", "4e-3"])]
    overrides, trust = ["--data.root=x"], ["mine"]
    plan = make_plan(["shapes/vit", "shapes/cnn"], [3, 0], tmp_path, variations, overrides=overrides, trust=trust)
    assert names(plan)[:3] == ["vit,depth=1,lr=1e-3", "vit,depth=1,lr=4e-3", "vit,depth=2,lr=1e-3"]
    assert len(plan.runs) == 16 and [run.seed for run in plan.runs] == [3] * 8 + [0] * 8
    run = plan.runs[6]
    assert run.folder == tmp_path / "cnn,depth=2,lr=1e-3/seed-3"
    assert plan.options(run) == [
        "--config=shapes/cnn",
        "--data.root=x",
        "--model.network.depth=2",
        "--model.optimizer.lr=1e-3",
        "--seed_everything=3",
        "--trust=mine",
    ]
    with pytest.raises(InputError, match="depth: is varied"):
        make_plan(["shapes/vit"], [0], tmp_path, variations, overrides=["--model.network.depth=3"])


def test_configs_of_one_name_get_as_much_of_their_path_as_tells_them_apart(tmp_path):
    assert names(make_plan(["shapes/vit", "cifar10/vit", "shapes/cnn"], [0], tmp_path)) == [
        "shapes-vit",
        "cifar10-vit",
        "cnn",
    ]
    mine = [tmp_path / folder / "x/mine.yaml" for folder in ("a", "b")]
    for file in mine:
        file.parent.mkdir(parents=True)
        file.touch()
    assert names(make_plan([str(file) for file in mine], [0], tmp_path)) == ["a-x-mine", "b-x-mine"]
    assert shipped_name("shapes/vit") == "shapes/vit" and shipped_name(str(mine[0])) == "mine.yaml"


def test_keys_of_one_name_get_as_much_as_tells_them_apart(tmp_path):
    plan = make_plan(["shapes/vit"], [0], tmp_path, [("model.encoder.width", ["1"]), ("model.decoder.width", ["2"])])
    assert names(plan) == ["vit,encoder.width=1,decoder.width=2"]


def test_a_variant_is_a_safe_name_of_a_folder(tmp_path):
    long = "[" + ", ".join(["word"] * 60) + "]"
    variations = [("data.words", ["[yes, 'no']", "../../etc", long, long[:-1] + ", up]"])]
    plan = make_plan(["shapes/vit"], [0], tmp_path, variations)
    assert names(plan)[:2] == ["vit,words=yes-no", "vit,words=etc"]
    assert all(run.folder.parent.parent == tmp_path and len(run.folder.parent.name) < 120 for run in plan.runs)
    assert len(set(names(plan))) == 4


@pytest.mark.parametrize(
    ("configs", "seeds", "variations", "message"),
    [
        (["shapes/vit", "shapes/vit.yaml"], [0], [], "the config is there twice"),
        (["shapes/vit"], [-1], [], "is not a number from 0"),
        (["shapes/vit"], [0], [("a.b", ["1"]), ("a.b", ["2"])], "--vary a.b a.b: a key is there twice"),
        (["shapes/vit"], [0], [("a.b", ["[1]", "1"])], "b=1: would be the folder of 2 variants"),
    ],
)
def test_what_cannot_be_planned_is_refused(tmp_path, configs, seeds, variations, message):
    with pytest.raises(InputError, match=message):
        make_plan(configs, seeds, tmp_path, variations)
