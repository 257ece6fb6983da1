"""The parser of configs: jsonargparse's, restricted to trusted modules, with one correction and one-line errors."""

import argparse
import inspect
import pydoc
import re
from argparse import ArgumentError
from collections.abc import Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args

from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch.cli import LightningArgumentParser

from vitspeech.attention import DecoderConfig, EncoderConfig
from vitspeech.errors import InputError
from vitspeech.trust import KNOWN_PACKAGES, refusal

# `encoder: {depth: 6}` and `encoder: {class_path: vitspeech.RecurrentEncoder}` can then replace each other in configs.
SETTINGS = [EncoderConfig, DecoderConfig]
set_parsing_settings(subclasses_enabled=SETTINGS)
ALLOWED: set[str] = set()  # modules that an earlier call of `restrict_imports` trusted


def restrict_imports(trust: Sequence[str]) -> None:
    """Let parsers in this process import only from the known packages and the trusted modules.

    This holds wherever a class is named: in configs, in files that configs refer to, and on the command line. An object
    that a known package merely imports, such as `vitspeech.trust.os.system`, counts to the module that defines it.
    """
    set_parsing_settings(import_path_denylist=["*", *ALLOWED], import_path_allowlist=[*KNOWN_PACKAGES, *trust])
    ALLOWED.update(trust)


class Parser(LightningArgumentParser):
    """Lightning's parser, in which a later config may name another class than an earlier one.

    The arguments that both classes have are kept. jsonargparse 4.53 checks each of them by parsing it in place, which
    breaks typed groups such as `encoder`; here it checks a copy.

    A value is never the name of a file to read the value from. jsonargparse would read any file for it, and print its
    contents if they do not fit.
    """

    def print_help(self, file: Any = None) -> None:
        """Print the help; that of a class (`--data.help CLASS`) begins with its docstring, not with its first line."""
        if named := re.fullmatch(r"Help for \S+=(\S+)", self.description or ""):
            print(description(pydoc.locate(named[1])), file=file)
            print(file=file)
        super().print_help(file)

    def add_argument(self, *arguments: Any, sub_configs: bool = False, **options: Any) -> Any:
        return super().add_argument(*arguments, **options)

    def _add_signature_parameter(self, *arguments: Any, sub_configs: bool = False, **options: Any) -> None:
        super()._add_signature_parameter(*arguments, **options)

    def build(self, config: Namespace) -> Namespace:
        """Build the classes of a config.

        Raises:
            InputError: The first one that a constructor raises; jsonargparse would try the next type of a union.
        """
        refused: list[InputError] = []

        def construct(kind: type, *arguments: Any, **options: Any) -> Any:
            try:
                return kind(*arguments, **options)
            except InputError as error:
                refused.append(error)
                raise

        try:
            return self.instantiate(config, instantiators=[(construct, object, True)])
        except Exception:
            if refused:
                raise refused[0] from None
            raise

    def _check_value_key(self, action: argparse.Action, value: Any, *arguments: Any, **options: Any) -> Any:
        value = value.clone() if isinstance(value, Namespace) else value
        if value == "None" and NoneType in get_args(getattr(action, "_typehint", None)):
            value = None  # jsonargparse makes a text of `null` on its way to a nested class
        return super()._check_value_key(action, value, *arguments, **options)


def description(documented: Any) -> str:
    """The docstring of a class without the section `Args`, since the help lists the arguments with their types."""
    text = f"{inspect.getdoc(documented) or documented.__name__}\n"
    return re.sub(r"\nArgs:\n(    .*\n|\n)*", "\n", text).strip()


def readable(error: str) -> str:
    """The parser's error in one line: `model.network: vitspeech.ViT: Option 'widht' is not accepted`.

    The parser nests the errors of nested classes, and adds that each class may be omitted.
    """
    line = " ".join(error.split())
    if denied := re.search(r"Importing '([^']+)' is not allowed", line):
        return refusal(denied[1])
    line = re.sub(r"Does not validate against any of the Union subtypes Subtypes: \[.*?\] Errors: - ", "", line)
    line = re.sub(r"( - Expected a <class 'NoneType'>| Given value type: ).*", "", line)
    quoted = r"\1 is not a text; put yes, no, on and off in quotes"
    line = re.sub(r"Expected a <class 'str'>. Got value: (True|False)", quoted, line)
    line = re.sub(r" - Import path vitspeech\.\w+ does not correspond to a subclass of \w+", "", line)
    line = re.sub(r"Type typing\.Callable.*? expects a function or a callable class: ", "", line)
    of_class = r"(Parser key \"optimizer\": )(.*)\. Got value: Namespace\(.*class_path='([^']+)'.*"
    line = re.sub(of_class, r"\1Problem with given class_path '\3': \2", line)
    keys = re.findall(r"Parser key \"([^\"]+)\": Problem with given class_path '([^']+)': ", line)
    if not keys:
        return re.sub(r"^Problem with given class_path '[^']+': ", "", line)
    _, last = keys[-1]
    reason = re.sub(r".*Problem with given class_path '[^']+': ", "", line)
    return f"{'.'.join(key for key, _ in keys)}: {last}: {reason}"


def suggestion(parser: Parser, line: str) -> str:
    """What the user may have meant by an option that the parser does not accept: `; did you mean depth?`, or nothing.

    Args:
        parser: The parser that refused it.
        line: Its error as `readable` returns it.
    """
    if nested := re.search(r"([\w.]+): Option '(\w+)' is not accepted", line):
        kind = pydoc.locate(nested[1])
        if not inspect.isclass(kind):
            return ""
        of_class = Parser(exit_on_error=False)
        of_class.add_class_arguments(kind, fail_untyped=False)
        return meant(nested[2], options(of_class))
    names = options(parser)
    if unknown := re.search(r"unrecognized arguments: (--[\w.]+)", line):
        inner = [option for option in names if option.endswith(unknown[1].replace("--", "."))]  # max_epochs
        return meant(unknown[1], [f"--{option}" for option in inner or names], cutoff=0 if inner else 0.8)
    if group := re.search(r"Group '([\w.]+)' does not accept option '(\w+)'", line):
        return meant(group[2], [name.removeprefix(f"{group[1]}.") for name in names if name.startswith(f"{group[1]}.")])
    return ""


def options(parser: Parser) -> list[str]:
    """The names of a parser's options, without dashes."""
    return [option.removeprefix("--") for option in parser._option_string_actions]


def meant(name: str, names: Sequence[str], cutoff: float = 0.6) -> str:
    """The name that is most like another one, as a question; nothing if none is alike."""
    close = get_close_matches(name, names, n=1, cutoff=cutoff)
    return f"; did you mean {close[0]}?" if close else ""


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


def plain_settings(config: Any) -> Any:
    """A config in which settings are written without their class, which is known: `encoder: {depth: 6}`."""
    if isinstance(config, dict):
        if config.get("class_path") in [f"vitspeech.{kind.__name__}" for kind in SETTINGS]:
            return plain_settings(config.get("init_args") or {})
        return {key: plain_settings(value) for key, value in config.items()}
    return [plain_settings(item) for item in config] if isinstance(config, list) else config
