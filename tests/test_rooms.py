"""The house's rules, read from the source: who imports whom, how long a file is, what is documented."""

import ast
from importlib.util import resolve_name
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
PACKAGE = HOUSE / "vitspeech"
FILES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted((HOUSE / "scripts").glob("*.py"))
MAY_IMPORT = {
    "attention": {"attention"},
    "frontends": {"frontends"},
    "data": {"data"},
    "decoding": {"decoding"},
    "models": {"models", "attention", "frontends"},
    "checkpoint": {"checkpoint", "models", "frontends", "attention", "data"},
}
MAY_NOT_IMPORT = {"tasks": {"models", "data", "frontends"}}
FORBIDDEN_NAMES = {"utils", "common", "misc", "helpers", "base"}


def room_of(path):
    """The first name below the package: `attention` of attention/masks.py, `checkpoint` of checkpoint.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(source, package="vitspeech"):
    """What the source imports of ours, at any depth: the name below the package, "" for the package."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names += [f"{module}.{alias.name}" for alias in node.names]
    ours = [name.split(".") for name in names if name.split(".")[0] == "vitspeech"]
    return {[*parts, ""][1] for parts in ours}


def imports_of_room(room):
    """Each file of the room, which has one, with the rooms that it imports."""
    found = {}
    for path in FILES:
        if room_of(path) == room:
            package = ".".join(path.relative_to(HOUSE).parent.parts)
            found[str(path.relative_to(HOUSE))] = imported(path.read_text(), package)
    assert found
    return found


def public_definitions(path):
    """The file's own classes and functions whose name has no leading underscore."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    defined = [node for node in ast.parse(path.read_text()).body if isinstance(node, kinds)]
    return [node for node in defined if not node.name.startswith("_")]


def named(path):
    return str(path.relative_to(HOUSE))


@pytest.mark.parametrize(
    "line, rooms",
    [
        ("import torch\nfrom torch import nn", set()),
        ("import vitspeech", {""}),
        ("from vitspeech import ViT, data", {"ViT", "data"}),
        ("import vitspeech.models.vit", {"models"}),
        ("from vitspeech.models import ViT", {"models"}),
        ("from ..models import ViT", {"models"}),
        ("from .scores import attend", {"attention"}),
        ("from .. import data", {"data"}),
        ("def late():\n    from vitspeech.tasks import Classification", {"tasks"}),
    ],
)
def test_every_way_to_import_is_seen(line, rooms):
    assert imported(line, "vitspeech.attention") == rooms


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_room_imports_only_what_it_may(room):
    for path, rooms in imports_of_room(room).items():
        assert rooms <= MAY_IMPORT[room], path


@pytest.mark.parametrize("room", MAY_NOT_IMPORT)
def test_room_imports_nothing_it_may_not(room):
    for path, rooms in imports_of_room(room).items():
        assert rooms.isdisjoint(MAY_NOT_IMPORT[room]), path


@pytest.mark.parametrize("path", [path for path in FILES if room_of(path) != "benchmark"], ids=named)
def test_nothing_needs_the_benchmark(path):
    package = ".".join(path.relative_to(HOUSE).parent.parts)
    assert "benchmark" not in imported(path.read_text(), package)


@pytest.mark.parametrize("path", [path for path in FILES if path != PACKAGE / "__init__.py"], ids=named)
def test_file_imports_from_rooms_and_not_through_the_public_names(path):
    package = ".".join(path.relative_to(HOUSE).parent.parts)
    assert imported(path.read_text(), package) <= {room_of(other) for other in FILES}


def test_no_file_or_folder_has_a_name_that_says_nothing():
    parts = {part for path in FILES for part in path.relative_to(HOUSE).with_suffix("").parts}
    assert not parts & FORBIDDEN_NAMES


@pytest.mark.parametrize("path", FILES, ids=named)
def test_file_has_at_most_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_script_has_at_most_80_lines(path):
    assert len(path.read_text().splitlines()) <= 80


def test_there_are_files_and_scripts_to_hold_to_the_rules():
    assert len(FILES) > 20 and SCRIPTS


@pytest.mark.parametrize("path", FILES, ids=named)
def test_file_and_its_public_classes_and_functions_have_docstrings(path):
    assert ast.get_docstring(ast.parse(path.read_text()))
    assert [node.name for node in public_definitions(path) if not ast.get_docstring(node)] == []
