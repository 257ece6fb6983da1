"""Configs by name, and configs that extend others."""

from pathlib import Path

import pytest
from tiny import ROOT

from vitspeech.errors import InputError
from vitspeech.training.config import config_chain, config_folder, expand_configs, find_config, shipped_configs


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)


def test_a_checkout_has_its_configs_beside_the_package():
    assert config_folder() == ROOT / "configs"
    assert {"shapes/vit", "cifar10/cnn", "trainer/gpu"} <= set(shipped_configs())


@pytest.mark.parametrize("name", ["shapes/vit", "shapes/vit.yaml"])
def test_a_shipped_config_is_found_by_name_from_any_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == ROOT / "configs/shapes/vit.yaml"


def test_an_unknown_config_is_refused_with_close_names():
    with pytest.raises(FileNotFoundError, match=r"shape/vitt: neither a file nor a shipped config; .*shapes/vit"):
        find_config("shape/vitt")


def test_a_chain_begins_with_the_most_general_config(tmp_path):
    (tmp_path / "inner").mkdir()
    write(tmp_path, first="{}", second="extends: first.yaml")
    write(tmp_path / "inner", third="extends: ../second.yaml")
    names = [path.stem for path in config_chain(tmp_path / "inner/third.yaml")]
    assert names == ["first", "second", "third"]


def test_a_config_of_the_users_may_extend_a_shipped_one(tmp_path):
    write(tmp_path, mine="extends: shapes/vit")
    assert config_chain(tmp_path / "mine.yaml") == [ROOT / "configs/shapes/vit.yaml", tmp_path / "mine.yaml"]


@pytest.mark.parametrize("last", ["first", "second", "third"])
def test_a_circle_is_refused_in_one_line(tmp_path, last):
    write(tmp_path, first=f"extends: {last}.yaml", second="extends: first.yaml", third="extends: second.yaml")
    with pytest.raises(ValueError, match="configs extend each other") as caught:
        config_chain(tmp_path / "third.yaml")
    assert f"first.yaml: extends: {last}.yaml" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"), [("other.yaml", "other.yaml: neither a file"), ("[a.yaml]", "is not the path of a config")]
)
def test_what_cannot_be_extended_is_named_with_its_file(tmp_path, value, message):
    write(tmp_path, mine=f"extends: {value}")
    with pytest.raises((FileNotFoundError, ValueError), match=rf"mine.yaml: extends: .*{message}"):
        config_chain(tmp_path / "mine.yaml")


def test_every_config_of_a_command_line_is_expanded_in_its_place(tmp_path):
    write(tmp_path, first="{}", second="extends: first.yaml")
    file = str(tmp_path / "second.yaml")
    expanded, named = expand_configs(["--a=1", "--config", file, "--b", "2", "--config=trainer/gpu", "--c=3"])
    both = [f"--config={tmp_path}/first.yaml", f"--config={tmp_path}/second.yaml"]
    assert expanded == ["--a=1", *both, "--b", "2", f"--config={ROOT}/configs/trainer/gpu.yaml", "--c=3"]
    assert named == [Path(file), ROOT / "configs/trainer/gpu.yaml"]


def test_a_command_line_that_ends_with_config_is_refused():
    with pytest.raises(FileNotFoundError, match="--config: no config is named"):
        expand_configs(["--config"])


def test_a_config_that_multiplies_is_refused_before_it_is_parsed(tmp_path):
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
    )
    (tmp_path / "laughs.yaml").write_text(laughs + "data: {class_path: *a11}\n")
    with pytest.raises(InputError, match=r"laughs\.yaml: cannot be read: line 2: aliases are not read"):
        expand_configs(["--config", str(tmp_path / "laughs.yaml")])


@pytest.mark.parametrize("text", ["password=hunter2\n", "- hunter2\n", "hunter2", "'hunter2'"])
def test_a_file_that_is_no_config_is_not_quoted(tmp_path, text):
    write(tmp_path, mine="extends: other.yaml", other=text)
    with pytest.raises(InputError, match=r"other\.yaml: not a config") as raised:
        expand_configs(["--config", str(tmp_path / "mine.yaml")])
    assert "hunter2" not in str(raised.value)
