"""Config files: the shipped ones by name, and overlays that extend another config.

A config that begins with `extends: full.yaml` holds only what differs from that file. The path is relative to the
config itself; a shipped config may also be named (`extends: speech_commands/full`).
"""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from vitspeech.documents import read_yaml
from vitspeech.errors import InputError

PACKAGE = Path(__file__).parents[1]


def config_folder() -> Path:
    """The folder of the shipped configs: `vitspeech/configs` in an installed wheel, `configs` in a checkout."""
    installed = PACKAGE / "configs"
    return installed if installed.is_dir() else PACKAGE.parent / "configs"


def shipped_configs() -> list[str]:
    """The names of all shipped configs: `cifar10/vit`, `shapes/cnn` and so on."""
    folder = config_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def find_config(name_or_path: str | Path) -> Path:
    """The file of a config: a path as it is, or the name of a shipped config (`shapes/vit`).

    Raises:
        FileNotFoundError: If there is neither such a file nor a shipped config of that name.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    name = str(name_or_path).removesuffix(".yaml")
    if name in (names := shipped_configs()):
        return config_folder() / f"{name}.yaml"
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`vitspeech configs` lists the shipped ones"
    raise FileNotFoundError(f"{name_or_path}: neither a file nor a shipped config; {hint}")


def config_chain(path: Path) -> list[Path]:
    """The configs that this one extends, the most general one first, and then the config itself.

    Raises:
        FileNotFoundError: If a config that is extended does not exist.
        InputError: If configs extend each other in a circle, or `extends` is not a path.
    """
    chain = [path]
    while (extends := read_config(chain[0]).get("extends")) is not None:
        if not isinstance(extends, str):
            raise InputError(f"{chain[0]}: extends: {extends!r} is not the path of a config")
        beside = Path(os.path.normpath(chain[0].parent / extends))
        try:
            parent = beside if beside.is_file() else find_config(extends)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{chain[0]}: extends: {error}") from None
        if parent.resolve() in [config.resolve() for config in chain]:
            raise InputError(f"{chain[0]}: extends: {extends} leads back to {parent}; configs extend each other")
        chain.insert(0, parent)
    return chain


def read_config(path: Path) -> dict[str, Any]:
    """The contents of a config; empty if it is not a mapping, which the parser reports.

    Raises:
        InputError: If it is not YAML that can be read, see `vitspeech.documents`.
    """
    config = read_yaml(path)
    return config if isinstance(config, dict) else {}


def expand_configs(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Replace each `--config NAME` of a command line by the configs that it extends and the config itself.

    Returns:
        The command line, with every config as `--config=PATH`, and the configs as the command line named them.

    Raises:
        FileNotFoundError: If a config does not exist.
        InputError: If configs extend each other in a circle.
    """
    expanded, named, rest = [], [], iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if option != "--config":
            expanded.append(argument)
            continue
        value = value if equals else next(rest, "")
        if not value:
            raise FileNotFoundError("--config: no config is named after it")
        named.append(find_config(value))
        expanded += [f"--config={path}" for path in config_chain(named[-1])]
    return expanded, named
