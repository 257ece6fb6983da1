"""Packages whose public names are imported on first use (PEP 562), so that importing one takes milliseconds."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from opcode import opmap
from pathlib import Path
from typing import Any


def on_first_use(
    package: str, elsewhere: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package that imports each name from its module, on first use.

    The names are those of its stub `__init__.pyi`, in lines `from MODULE import NAME as NAME`. `dir` lists these names
    alone. The error for another name says which is nearest, whatever its case, or what does the same as a name of
    another library, `elsewhere`.
    """
    attributes = vars(sys.modules[package])
    path = str(Path(attributes["__file__"]).with_suffix(".pyi"))
    stub = attributes["__spec__"].loader.get_data(path).decode().replace("\r\n", "\n")  # may be in a zip file
    imports = re.findall(r"^from (\S+) import (\([^)]*\)|.*)$", stub, re.MULTILINE)
    module_of = {name: module for module, names in imports for name in re.findall(r"(\w+) as ", names)}

    def find(name: str) -> Any:
        if name not in module_of:
            hint = f"; use {elsewhere[name]}" if elsewhere and name in elsewhere else nearest(name, module_of)
            caller = sys._getframe(1)
            # `from package import name` would replace an AttributeError, and with it the hint.
            is_import = caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]
            # With the name alone Python does not add a guess of its own.
            error = ImportError if is_import else AttributeError
            raise error(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        attributes[name] = getattr(import_module(module_of[name]), name)
        return attributes[name]

    return find, lambda: sorted(module_of), sorted(module_of)


def nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'ViT'?` for `VIT` or `Vitt`; nothing if no name is near."""
    written = {known.lower().replace("_", ""): known for known in names}
    close = get_close_matches(name.lower().replace("_", ""), written, n=1, cutoff=0.7)
    return f"; did you mean {written[close[0]]!r}?" if close else ""
