"""List the configs that come with the package, or print one.

vitspeech configs                            # every name with a one-line description
vitspeech configs cifar10/vit > mine.yaml    # a copy to change; train it with `vitspeech train --config mine.yaml`
"""

import re
from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line
from vitspeech.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech configs`: prints a table of names, or the text of one config."""
    parser = command_line.parser("configs", __doc__)
    parser.add_argument("name", nargs="?", metavar="CONFIG", help="print this config instead of the list")
    options = parser.parse_args(arguments)

    from vitspeech.training.config import config_folder, find_config, shipped_configs

    if options.name:
        print(portable(find_config(options.name)), end="")
        return
    names = shipped_configs()
    width = max(map(len, names))
    for name in names:
        text = (config_folder() / f"{name}.yaml").read_text("utf-8")
        print(f"{name:{width}}  {summary(text)}")


def summary(text: str) -> str:
    """The first sentence of the comment that a config starts with."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return re.split(r"(?<=[.?])(?<!et al\.)\s", " ".join(lines), maxsplit=1)[0]


def portable(path: Path) -> str:
    """The text of a config that works in any folder: a config that it extends is given by name, not by path.

    Raises:
        InputError: If the file is not UTF-8.
    """
    from vitspeech.training.config import config_folder

    def named(match: re.Match) -> str:
        parent = (path.parent / match["parent"]).resolve()
        if not parent.is_file() or not parent.is_relative_to(config_folder().resolve()):
            return match[0]
        name = parent.relative_to(config_folder().resolve()).with_suffix("").as_posix()
        return f"extends: {name}{match['rest']}"

    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None
    return re.sub(r"^extends: *(?P<parent>[^\s#]+)(?P<rest>.*)$", named, text, flags=re.MULTILINE)
