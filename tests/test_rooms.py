"""The rules of the house, read from the source: who imports whom, how long a file is, what has a docstring.

A room is a folder or file directly under vitspeech/. `ROOMS` is the plan of the house: each room may import only the
rooms listed for it, which are never the ones above it.
"""

import ast
from importlib.util import resolve_name
from pathlib import Path

import pytest

import vitspeech
from vitspeech.commands import VERBS

HOUSE = Path(__file__).parents[1]
PACKAGE = HOUSE / "vitspeech"
FILES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted((HOUSE / "scripts").glob("*.py"))
ROOMS = {
    "errors": "",
    "trust": "errors",
    "writing": "errors",
    "documents": "errors",
    "command_line": "errors writing",
    "samples": "",
    "provenance": "",
    "attention": "errors trust",
    "recurrence": "attention errors",
    "frontends": "errors",
    "data": "documents errors trust writing",
    "decoding": "errors",
    "metrics": "errors",
    "models": "attention errors frontends trust",
    "checkpoint": "attention data decoding documents errors frontends models recurrence trust writing",
    "inference": "attention checkpoint data decoding errors frontends metrics models",
    "plots": "attention checkpoint data decoding errors frontends inference metrics models",
    "evaluation": "data errors inference metrics plots",
    "spotting": "checkpoint data decoding errors frontends inference metrics plots provenance writing",
    "tasks": "checkpoint decoding errors evaluation inference metrics trust",
    "training": "attention checkpoint command_line data documents errors evaluation plots provenance tasks trust "
    "writing",
    "sweep": "checkpoint command_line data documents errors metrics plots training",
    "receptive": "attention checkpoint data errors frontends metrics models plots provenance",
    "export": "attention checkpoint data decoding errors frontends inference models recurrence samples tasks writing",
    "benchmark": "attention checkpoint data errors export frontends inference models plots provenance recurrence",
    "tables": "checkpoint errors receptive",
    "commands": (
        "benchmark checkpoint command_line data decoding errors export inference plots provenance receptive samples "
        "spotting sweep tasks training trust writing"
    ),
    "__main__": "commands",
}
MAY_USE_PUBLIC_NAMES = {"commands"}  # and so may import the package itself, as a user does
FORBIDDEN_NAMES = {"utils", "common", "misc", "helpers", "base"}


def room_of(path):
    """The first name below the package: `attention` for attention/masks.py, `trust` for trust.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(source, package="vitspeech"):
    """The names directly below the package that the source imports, at any depth; "" is the package itself."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names += [f"{module}.{alias.name}" for alias in node.names]
    ours = [name.split(".") for name in names if name.split(".")[0] == "vitspeech"]
    return {[*parts, ""][1] for parts in ours}


def imports_of(path):
    """The rooms that a file of the package imports, apart from `__version__`."""
    package = ".".join(path.relative_to(HOUSE).parent.parts)
    return imported(path.read_text(), package) - {"__version__"}


def room_graph():
    """Each room with the other rooms that it imports."""
    graph = {room_of(path): set() for path in FILES if path != PACKAGE / "__init__.py"}
    for path in FILES:
        if room_of(path) in graph:
            graph[room_of(path)] |= imports_of(path) & graph.keys() - {room_of(path)}
    return graph


def circles(graph):
    """The strongly connected components of more than one node (Tarjan 1972)."""
    order, lowest, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == order[node]:
            component = {stack.pop()}
            while node not in component:
                component.add(stack.pop())
            found.append(component)

    for node in graph:
        if node not in order:
            visit(node)
    return [component for component in found if len(component) > 1]


def public_definitions(path):
    """The file's classes and functions whose name has no leading underscore."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    definitions = [node for node in ast.parse(path.read_text()).body if isinstance(node, kinds)]
    return [node for node in definitions if not node.name.startswith("_")]


def short(path):
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
def test_every_form_of_import_is_recognized(line, rooms):
    assert imported(line, "vitspeech.attention") == rooms


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f", "a"}, "f": {"g"}, "g": {"e"}}
    assert sorted(map(sorted, circles(graph))) == [["b", "c"], ["e", "f", "g"]]


def test_the_plan_has_every_room():
    assert set(ROOMS) == set(room_graph())


def test_rooms_import_only_what_the_plan_allows():
    allowed = {room: {room, *names.split()} for room, names in ROOMS.items()}
    offenders = {}
    for path in FILES:
        if room_of(path) in allowed and (extra := imports_of(path) - {""} - allowed[room_of(path)]):
            offenders[short(path)] = sorted(extra)
    assert offenders == {}


def test_the_plan_and_the_house_have_no_circles():
    assert circles({room: set(names.split()) for room, names in ROOMS.items()}) == []
    assert circles(room_graph()) == []


def test_rooms_do_not_import_through_the_public_names():
    rooms = room_graph().keys() | {""}
    offenders = {}
    for path in FILES:
        names = imports_of(path)
        if path == PACKAGE / "__init__.py" or ("" not in names and names <= rooms):
            continue
        if names - rooms or room_of(path) not in MAY_USE_PUBLIC_NAMES:
            offenders[short(path)] = sorted(names - (rooms - {""}))
    assert offenders == {}


def test_public_names_are_listed_once_for_each_purpose():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    for_type_checkers = {
        f"{node.module}.{alias.name}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        for alias in node.names
    }
    assert for_type_checkers == {f"{module}.{name}" for name, module in vitspeech._MODULE_OF.items()}
    assert vitspeech.__all__ == sorted(vitspeech._MODULE_OF, key=lambda name: (not name.isupper(), name))
    for name in vitspeech.__all__:
        assert getattr(vitspeech, name).__name__ == name and name in dir(vitspeech)


def test_former_public_names_warn():
    for former, name in vitspeech._RENAMED.items():
        with pytest.warns(DeprecationWarning, match=f"vitspeech.{former} is now vitspeech.{name}"):
            assert getattr(vitspeech, former) is getattr(vitspeech, name)
    with pytest.raises(AttributeError, match="no attribute 'Vit'"):
        _ = vitspeech.Vit


def test_there_are_files_and_scripts_to_check():
    assert len(FILES) > 20 and len(SCRIPTS) > 5 and len(VERBS) > 5


def test_names_of_files_and_folders_say_what_is_inside():
    offenders = [short(path) for path in FILES if FORBIDDEN_NAMES & set(path.relative_to(HOUSE).with_suffix("").parts)]
    assert offenders == []


def test_files_have_at_most_300_lines_and_scripts_20():
    lines = {short(path): len(path.read_text().splitlines()) for path in [*FILES, *SCRIPTS]}
    assert {name: count for name, count in lines.items() if count > (20 if name.startswith("scripts") else 300)} == {}


def test_files_and_their_public_classes_and_functions_have_docstrings():
    offenders = [short(path) for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))]
    for path in FILES:
        offenders += [f"{short(path)}: {node.name}" for node in public_definitions(path) if not ast.get_docstring(node)]
    assert offenders == []
