"""Packages whose public names are imported on first use (PEP 562), so that importing one takes milliseconds."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, module_of: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that imports each name from its module, on first use."""
    attributes = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        attributes[name] = getattr(import_module(module_of[name]), name)
        return attributes[name]

    return find, lambda: sorted({*attributes, *module_of})
