"""Which classes a configuration may name: those of vitspeech and its libraries, and of modules the user trusts.

A configuration names classes by import path (`class_path: mine.Net`), and importing a module runs its code. Classes of
vitspeech, and of the parts of torch, timm, lightning and torchmetrics that models and runs are made of, are always
accepted. Every other module has to be trusted by name: `trust=["mine"]` in Python, `--trust mine` on the command line.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from vitspeech.errors import InputError

KNOWN_PACKAGES = ("vitspeech", "torch", "timm", "lightning", "torchmetrics")
# What is imported of them because a configuration names it: other modules of torch are programs, such as
# `torch.utils.model_dump.__main__`, or change settings of the process.
IMPORTED = ("vitspeech", "torch.nn", "torch.optim", "timm.models", "timm.layers", "timm.optim", "lightning.pytorch")
IMPORTED += ("lightning.fabric", "torchmetrics")
NO_PART = "is not a part of a run, such as a network, an optimizer or a callback"


def is_known(class_path: str, trust: Sequence[str] = ()) -> bool:
    """Whether a class path lies in a known package or in a trusted module; trusting `mine` includes `mine.networks`."""
    return lies_in(class_path, (*KNOWN_PACKAGES, *trust))


def lies_in(class_path: str, packages: Sequence[str]) -> bool:
    """Whether a class path lies in one of the packages or modules."""
    return any(class_path.startswith(f"{package}.") for package in packages)


def refusal(class_path: str) -> str:
    """The message about a class that is not imported."""
    if is_known(class_path):
        return f"{class_path} {NO_PART}"
    module = class_path.rpartition(".")[0] or class_path
    return (
        f"{class_path} is not part of vitspeech, and loading it runs its code; if you trust it, pass "
        f"--trust {module} (in Python: trust=[{module!r}])"
    )


def import_trusted(class_path: str, trust: Sequence[str]) -> Any:
    """Import a class of the parts of a run, or of a trusted module, which may lie in the current folder."""
    if not lies_in(class_path, (*IMPORTED, *trust)):
        raise InputError(refusal(class_path))
    module, _, name = class_path.rpartition(".")
    imported = import_module(module)
    if not hasattr(imported, name):
        raise InputError(f"{class_path}: cannot be imported: {module} has no {name}")
    return getattr(imported, name)


def import_modules(trust: Sequence[str]) -> None:
    """Import the trusted modules, so that what they register by name can be used."""
    for module in trust:
        import_module(module)


def import_module(name: str) -> ModuleType:
    """Import a module of a known package, or a trusted one, which may lie in the current folder."""
    if not is_known(f"{name}.") and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # after everything that is installed
    try:
        if not all(map(str.isidentifier, name.split("."))):
            raise ImportError("this is not the name of a module, such as mine or mine.networks")
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"the trusted module {name!r} cannot be imported: {error}") from None
