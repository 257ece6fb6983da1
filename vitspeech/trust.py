"""Which classes a configuration may name: those of vitspeech and its libraries, and of modules the user trusts.

A configuration names classes by import path (`class_path: mine.Net`), and importing a module runs its code. Classes of
vitspeech, torch, timm, lightning and torchmetrics are always accepted. Every other module has to be trusted by name:
`trust=["mine"]` in Python, `--trust mine` on the command line.
"""

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from vitspeech.errors import InputError

KNOWN_PACKAGES = ("vitspeech", "torch", "timm", "lightning", "torchmetrics")


def is_known(class_path: str, trust: Sequence[str] = ()) -> bool:
    """Whether a class path lies in a known package or in a trusted module."""
    return any(class_path.startswith(f"{package}.") for package in (*KNOWN_PACKAGES, *trust))


def refusal(class_path: str) -> str:
    """The message about a class that is not trusted."""
    module = class_path.rpartition(".")[0] or class_path
    return (
        f"{class_path} is not part of vitspeech, and loading it runs its code; if you trust it, pass "
        f"--trust {module} (in Python: trust=[{module!r}])"
    )


def check_trusted(class_path: str, trust: Sequence[str] = ()) -> None:
    """Refuse a class path outside the known packages and the trusted modules.

    Args:
        class_path: Import path of a class, such as `mine.Net`.
        trust: Modules whose code may run; trusting `mine` includes `mine.networks`.

    Raises:
        InputError: If the class is in none of them.
    """
    if not is_known(class_path, trust):
        raise InputError(refusal(class_path))


def check_config(config: Any, trust: Sequence[str] = ()) -> None:
    """`check_trusted` for every class that a configuration names.

    Raises:
        InputError: If one of them is not trusted.
    """
    for class_path in class_paths(config):
        check_trusted(class_path, trust)


def class_paths(config: Any) -> Iterator[str]:
    """Every `class_path` in nested dictionaries and lists, and every `score` that is an import path."""
    if isinstance(config, dict):
        if isinstance(config.get("class_path"), str):
            yield config["class_path"]
        if isinstance(config.get("score"), str) and "." in config["score"]:
            yield config["score"]
        for value in config.values():
            yield from class_paths(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from class_paths(value)


def import_trusted(class_path: str, trust: Sequence[str]) -> Any:
    """Import a class of a trusted module, which may lie in the current folder.

    Raises:
        InputError: If the class is not trusted, or there is no such module or class.
    """
    check_trusted(class_path, trust)
    module, _, name = class_path.rpartition(".")
    if not is_known(class_path):
        search_current_folder()
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{class_path}: cannot be imported: {error}") from None


def import_modules(trust: Sequence[str]) -> None:
    """Import the trusted modules, so that what they register by name can be used.

    Raises:
        InputError: If one of them is no name of a module, or cannot be imported.
    """
    for module in trust:
        if not all(name.isidentifier() for name in module.split(".")):
            raise InputError(f"--trust {module}: is not the name of a module, such as mine or mine.networks")
    if trust:
        search_current_folder()
    for module in trust:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"the trusted module {module} cannot be imported: {error}") from None


def search_current_folder() -> None:
    """Let imports find the user's modules in the current folder, after everything that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
