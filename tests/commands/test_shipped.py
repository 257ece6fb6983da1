"""`vitspeech configs` and `samples`: the list of shipped configs, copies that work in another folder, and samples."""

from tiny import ROOT

from vitspeech.commands.shipped import EXPERIMENTS, OVERLAYS, TASKS, portable, summary
from vitspeech.samples import FILES, FOLDER


def test_every_config_is_listed_once_with_a_description(command):
    lines = command("configs").stdout.splitlines()[:-1]
    folder = ROOT / "configs"
    names = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))
    listed = [line[2:] for line in lines if line.startswith(("  ", "* "))]
    assert sorted(line.split()[0] for line in listed) == names
    assert all(len(line.split()) > 3 for line in listed)


def test_configs_are_listed_by_task_and_each_begins_with_the_one_to_start_with(command):
    tasks = dict(part.split(":\n", 1) for part in command("configs").stdout.split("\n\n")[:-1])
    for task, (first, *others) in TASKS.items():
        line, *rest = tasks[task].splitlines()
        assert line.startswith(f"* {first} ") and all(other.startswith("  ") for other in rest)
        assert all(any(other[2:].startswith(name) for other in rest) for name in others)
    assert "encoders/lstm" in tasks[EXPERIMENTS] and "windows/mlp-9" in tasks[EXPERIMENTS]
    assert "trainer/gpu" in tasks[OVERLAYS] and "cifar10/distilled" in tasks[OVERLAYS]
    assert "*" not in tasks[EXPERIMENTS] + tasks[OVERLAYS]


def test_a_config_is_printed_as_it_is(command):
    assert command("configs", "shapes/vit").stdout == (ROOT / "configs/shapes/vit.yaml").read_text()


def test_the_description_is_the_first_sentence_of_the_comment():
    assert summary("# A small network, v0.02 of\n# it. Reaches 7 %.\nseed_everything: 0\n# end") == (
        "A small network, v0.02 of it."
    )
    assert summary("# The model of Lin et al. 2017. More.") == "The model of Lin et al. 2017."


def test_a_copy_names_the_shipped_config_that_it_extends(tmp_path):
    text = "# A copy.\nextends: ../cifar10/vit.yaml  # all but this\ntrainer: {max_epochs: 3}\n"
    own, shipped = tmp_path / "own.yaml", tmp_path / "configs"
    own.write_text(text)
    assert portable(own, shipped) == text  # it extends no shipped config
    for name in ("cifar10/vit", "shapes/copy"):
        (shipped / name).parent.mkdir(parents=True)
        (shipped / f"{name}.yaml").write_text(text)
    assert portable(shipped / "shapes/copy.yaml", shipped) == text.replace("../cifar10/vit.yaml", "cifar10/vit")


def test_a_copy_starts_from_the_same_weights():
    assert f"\ninit_from: {ROOT / 'checkpoints/speech-encoder'}\n" in portable(
        ROOT / "configs/own_words.yaml", ROOT / "configs"
    )
    assert "\ninit_from: null\n" in portable(ROOT / "configs/own_words_embedding.yaml", ROOT / "configs")


def test_the_samples_are_copied_and_two_commands_are_shown(command, tmp_path):
    lines = command("samples", tmp_path / "new").stdout.splitlines()
    assert lines[: len(FILES)] == [str(tmp_path / "new" / name) for name in FILES]
    for name in FILES:
        assert (tmp_path / "new" / name).read_bytes() == (FOLDER / name).read_bytes()
    assert [line.split()[1] for line in lines[-2:]] == ["stream", "predict"]


def test_every_sample_has_its_license():
    text = (FOLDER / "LICENSES.md").read_text()
    samples = {path.name for path in FOLDER.iterdir() if path.suffix in (".wav", ".jpg")}
    assert samples == set(FILES) - {"LICENSES.md"} and all(f"## {name}\n" in text for name in samples)
