"""The parser of configs: jsonargparse's, with one correction and with its errors in one line."""

import argparse
import re
from argparse import ArgumentError
from collections.abc import Sequence
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.cli import LightningArgumentParser


class Parser(LightningArgumentParser):
    """Lightning's parser, in which a later config may name another class than an earlier one.

    The arguments that both classes have are kept. jsonargparse 4.53 checks each of them by parsing it in place, which
    breaks typed groups such as `encoder`; here it checks a copy.
    """

    def _check_value_key(self, action: argparse.Action, value: Any, *arguments: Any, **options: Any) -> Any:
        value = value.clone() if isinstance(value, Namespace) else value
        return super()._check_value_key(action, value, *arguments, **options)


def readable(error: str) -> str:
    """The parser's error in one line: `model.network: vitspeech.ViT: Option 'widht' is not accepted`.

    The parser nests the errors of nested classes, and says of each class that it might be left out instead.
    """
    line = " ".join(error.split())
    line = re.sub(r"Does not validate against any of the Union subtypes Subtypes: \[.*?\] Errors: - ", "", line)
    line = re.sub(r"( - Expected a <class 'NoneType'>| Given value type: ).*", "", line)
    keys = re.findall(r"Parser key \"([^\"]+)\": Problem with given class_path '([^']+)': ", line)
    if not keys:
        return re.sub(r"^Problem with given class_path '[^']+': ", "", line)
    _, last = keys[-1]
    reason = re.sub(r".*Problem with given class_path '[^']+': ", "", line)
    return f"{'.'.join(key for key, _ in keys)}: {last}: {reason}"


def wrong_config(parser: LightningArgumentParser, arguments: Sequence[str], reason: str) -> str | None:
    """The config file that gives this error together with those before it; `None` if the command line does."""
    finder = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    finder.add_argument("--config", action="append", default=[])
    configs = finder.parse_known_args(list(arguments))[0].config
    for count in range(1, len(configs) + 1):
        try:
            parser.parse_args([f"--config={config}" for config in configs[:count]])
        except ArgumentError as error:
            if str(error) == reason:
                return configs[count - 1]
    return None
