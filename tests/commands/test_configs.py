"""`vitspeech configs`: the list of shipped configs, and copies that work in another folder."""

from running import one_line
from tiny import ROOT

from vitspeech.commands.configs import portable, summary
from vitspeech.training import config as configs


def test_every_config_is_listed_with_a_description(command):
    lines = command("configs").stdout.splitlines()
    folder = ROOT / "configs"
    names = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")}
    assert {line.split()[0] for line in lines} == names
    assert all(len(line.split()) > 3 for line in lines)


def test_a_config_is_printed_as_it_is(command):
    assert command("configs", "shapes/vit").stdout == (ROOT / "configs/shapes/vit.yaml").read_text()


def test_an_unknown_config_is_one_line_with_a_hint(command):
    assert "did you mean" in one_line(command("configs", "shapes/vitt"))


def test_the_description_is_the_first_sentence_of_the_comment():
    assert summary("# A small network, v0.02 of\n# it. Reaches 7 %.\nseed_everything: 0\n# end") == (
        "A small network, v0.02 of it."
    )


def test_the_description_does_not_end_at_et_al():
    assert summary("# The model of Lin et al. 2017. More.") == "The model of Lin et al. 2017."


def test_a_copy_names_the_shipped_config_that_it_extends(tmp_path, monkeypatch):
    text = "# A copy.\nextends: ../cifar10/vit.yaml  # all but this\ntrainer: {max_epochs: 3}\n"
    own, shipped = tmp_path / "own.yaml", tmp_path / "configs"
    own.write_text(text)
    assert portable(own) == text  # it extends no shipped config
    for name in ("cifar10/vit", "shapes/copy"):
        (shipped / name).parent.mkdir(parents=True)
        (shipped / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(configs, "config_folder", lambda: shipped)
    assert portable(shipped / "shapes/copy.yaml") == text.replace("../cifar10/vit.yaml", "cifar10/vit")
