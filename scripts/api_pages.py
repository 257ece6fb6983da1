"""The public names of a module as Markdown, for docs/api/: signatures as in the source, and docstrings."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from textwrap import dedent
from typing import Any

import vitspeech

SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Shape|Warns|Yields):\n((?:(?: {4}.*)?\n?)+)", re.MULTILINE)
ITEM = re.compile(r"^(\*{0,2}[\w.]+): ", re.MULTILINE)
PROPERTIES = {"property", "cached_property", "functools.cached_property"}


def api(description: str) -> list[str]:
    """The names of a module, `MODULE: NAMES`, by default `__all__`, what `vitspeech` has of it, or all public ones."""
    module_name, _, chosen = description.partition(": ")
    module = import_module(module_name)
    defined = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module_name]
    exported = [name for name in defined if name in vitspeech.__all__]
    names = chosen.split() or getattr(module, "__all__", exported or defined)
    values = {name: getattr(module, name) for name in names}
    return ["", *(line for name, value in values.items() if documented(name, value) for line in entry(name, value, 2))]


def documented(name: str, value: Any) -> bool:
    """Whether a name is public, and is a class, function or property of the package with a docstring of its own."""
    value = plain(value)
    if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    return value.__module__.startswith("vitspeech") and vars(value).get("__doc__", value.__doc__) is not None


def plain(value: Any) -> Any:
    """The function of a property, a class method or a decorated function; a class as it is."""
    for attribute in ("fget", "func", "__func__"):
        value = getattr(value, attribute, None) or value
    return inspect.unwrap(value) if callable(value) else value


def entry(title: str, value: Any, level: int) -> Iterator[str]:
    """A heading, the signature and the docstring of a class or function, then those of a class's members.

    Members with one paragraph are lines of a list, before the others.
    """
    value = plain(value)
    yield from (f"{'#' * level} `{title}`", "", "```python", signature(value), "```", "", *docstring(value), "")
    members = [
        (name, member) for name, member in vars(value).items() if inspect.isclass(value) and documented(name, member)
    ]
    short = [part for part in members if "\n\n" not in inspect.getdoc(plain(part[1]))]
    yield from ["**Members**", ""] if short else []
    yield from (f"- `{signature(plain(member), 1000)}`: {' '.join(docstring(plain(member)))}" for _, member in short)
    yield from [""] if short else []
    for name, member in members:
        if (name, member) not in short:
            yield from entry(f"{value.__name__}.{name}", member, level + 1)


def signature(value: Any, width: int = 100) -> str:
    """How a function or class is called, and what it returns; a property without brackets."""
    source, node = parsed(value)
    if isinstance(node, ast.ClassDef):
        return in_lines(node.name, constructed(value), "", width)
    returned = f" -> {written(source, node.returns)}" if node.returns else ""
    if PROPERTIES & set(map(ast.unparse, node.decorator_list)):
        return node.name + returned
    return in_lines(node.name, arguments(source, node.args), returned, width)


def constructed(value: type) -> list[str]:
    """The arguments of a class's constructor: its own, or that of the class of the package that it extends."""
    for base in value.__mro__:
        if not base.__module__.startswith("vitspeech"):
            continue
        source, node = parsed(base)
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                return arguments(source, part.args)
        if "__dataclass_fields__" in vars(base) or hasattr(base, "_fields"):
            return [written(source, part) for part in node.body if isinstance(part, ast.AnnAssign)]
    return []


def parsed(value: Any) -> tuple[str, Any]:
    """The source of a class or function, and its syntax tree."""
    source = dedent(inspect.getsource(value))
    return source, ast.parse(source).body[0]


def written(source: str, node: ast.AST | None) -> str:
    """A part of a source in one line."""
    return " ".join((ast.get_source_segment(source, node) if node else "").split())


def arguments(source: str, node: ast.arguments) -> list[str]:
    """Each argument of a function apart from `self` and `cls`, with annotation and default."""
    positional = [*node.posonlyargs, *node.args]
    defaults = [None] * (len(positional) - len(node.defaults)) + node.defaults
    keywords = zip(node.kwonlyargs, node.kw_defaults, strict=True)
    known = {id(argument): default for argument, default in [*zip(positional, defaults, strict=True), *keywords]}

    def one(argument: ast.arg, stars: str = "") -> str:
        default, text = known.get(id(argument)), stars + written(source, argument)
        return f"{text}{' = ' if argument.annotation else '='}{written(source, default)}" if default else text

    parts = [one(argument) for argument in positional if argument.arg not in ("self", "cls")]
    if node.vararg or node.kwonlyargs:
        parts.append(one(node.vararg, "*") if node.vararg else "*")
    parts += [one(argument) for argument in node.kwonlyargs]
    return parts + ([one(node.kwarg, "**")] if node.kwarg else [])


def in_lines(name: str, parts: list[str], returned: str, width: int) -> str:
    """`name(arguments)` in one line of at most `width` characters, or in a line for each argument."""
    line = f"{name}({', '.join(parts)}){returned}"
    return line if len(line) <= width else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


def docstring(value: Any) -> list[str]:
    """The lines of a docstring in Google style as Markdown: its sections become lists."""

    def section(match: re.Match) -> str:
        items = ITEM.sub(r"- `\1`: ", dedent(match[2]).strip())
        return f"**{match[1]}**\n\n{items}\n\n"

    return SECTION.sub(section, inspect.getdoc(value) or "").strip().splitlines()
