"""YAML and JSON files are read in bounded time, and hostile or broken ones are refused in one line."""

import math
import os
import time
from pathlib import Path

import pytest
import yaml

from vitspeech.errors import InputError
from vitspeech.files import DEEPEST, MOST_BYTES, read_json, read_yaml

BROKEN_YAML = {
    "aliases": ("a: &a [x, x]\nb: [*a, *a]\n", "line 2: aliases are not read"),
    "itself": ("a: &a [*a]\n", "line 1: aliases are not read"),
    "deep": ("[" * 500 + "]" * 500, "nested deeper"),
    "very deep": ("[" * 100_000, "nested deeper|cannot be read|nesting depth"),  # PyYAML 6.0.4 has a limit of its own
    "deep blocks": ("- " * 5000 + "x", "nested deeper|cannot be read"),
    "duplicate": ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is there twice"),
    "code": ("!!python/object/apply:os.system [touch hacked]\n", "line 1: could not determine a constructor"),
    "list as a key": ("? [a]\n: 1\n", "line 1: found unhashable key"),
    "number": (f"a: {'9' * 10_000}\n", "line 1: a number that is too long"),
    "base 60": (f"a: 1{':59' * 100_000}\n", "line 1: a number that is too long"),
    "wrong tag": ("a: !!int x\n", "does not fit its tag"),
    "wrong date": ("a: !!timestamp x\n", "does not fit its tag"),
    "two documents": ("a: 1\n--- \nb: 2\n", "line 2: but found another document"),
    "control character": ("a: \0\n", "special characters are not allowed|control characters are not allowed"),
    "tab": ("a:\n\t- b\n", "line 2"),
}
BROKEN_JSON = {
    "deep": ("[" * 200 + "]" * 200, "nested deeper"),
    "very deep": ("[" * 500_000, "nested deeper"),
    "duplicate": ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
    "NaN": ('{"a": NaN}', "NaN is not a number"),
    "infinite": ('{"a": -Infinity}', "-Infinity is not a number"),
    "beyond floats": ('{"a": 1e999}', "beyond the range of floats"),
    "long": (f'{{"a": {"9" * 100_000}}}', "too long"),
    "cut": ('{"a":\n 1', "line 2: Expecting"),
    "empty": ("", "line 1: Expecting value"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN_YAML.values(), ids=BROKEN_YAML)
def test_broken_yaml_is_one_line_at_once(tmp_path, text, message):
    check(read_yaml, tmp_path / "config.yaml", text, message)


@pytest.mark.parametrize(("text", "message"), BROKEN_JSON.values(), ids=BROKEN_JSON)
def test_broken_json_is_one_line_at_once(tmp_path, text, message):
    check(read_json, tmp_path / "card.json", text, message)


def check(read, file, text, message):
    file.write_text(text)
    start = time.process_time()
    with pytest.raises(InputError, match=rf"{file}: cannot be read: .*({message})") as raised:
        read(file)
    assert "\n" not in str(raised.value)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("read", [read_yaml, read_json])
def test_what_is_no_text_file_is_refused_before_it_is_read(tmp_path, read):
    (tmp_path / "latin").write_bytes(b"{\n'caf\xe9': 1}")
    with pytest.raises(InputError, match="latin: line 2: not UTF-8"):
        read(tmp_path / "latin")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(100 * MOST_BYTES)
    with pytest.raises(InputError, match="large: larger than 1,048,576 bytes"):
        read(tmp_path / "large")
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(InputError, match="not a regular file"):
            read(tmp_path / name)
    with pytest.raises(InputError, match="not a regular file"):
        read(os.devnull)


def test_what_people_write_is_read_as_before(tmp_path):
    text = """
extends: full.yaml
base: {lr: 1.0e-05, on: yes, none: ~}
model: {hex: 0x10, date: 2001-01-01, text: "a: b", infinite: .inf}
list: [1, -2, three]
"""
    (tmp_path / "config.yaml").write_text("\ufeff" + text)
    assert read_yaml(tmp_path / "config.yaml") == {
        "extends": "full.yaml",
        "base": {"lr": 1e-05, True: True, "none": None},
        "model": {"hex": 16, "date": "2001-01-01", "text": "a: b", "infinite": math.inf},
        "list": [1, -2, "three"],
    }
    (tmp_path / "card.json").write_text('{"lr": 5e-05, "seeds": [0, -1], "name": "ç", "none": null}')
    assert read_json(tmp_path / "card.json") == {"lr": 5e-05, "seeds": [0, -1], "name": "ç", "none": None}


def test_nesting_up_to_the_bound_is_read(tmp_path):
    text = "[" * DEEPEST + "]" * DEEPEST
    for read in (read_yaml, read_json):
        (tmp_path / "file").write_text(text)
        value, depth = read(tmp_path / "file"), 0
        while value:
            value, depth = value[0], depth + 1
        assert depth == DEEPEST - 1
        (tmp_path / "file").write_text(f"[{text}]")
        with pytest.raises(InputError, match="nested deeper"):
            read(tmp_path / "file")


def test_every_config_of_the_package_is_read_as_yaml_reads_it():
    files = sorted(Path(__file__).parents[1].glob("c*/*/*.yaml"))
    assert len(files) > 30
    for file in files:
        assert read_yaml(file) == yaml.safe_load(file.read_text())
