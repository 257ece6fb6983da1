"""Config files: the shipped ones by name, and overlays that extend another config.

A config that begins with `extends: full.yaml` holds only what differs from that file. The path is relative to the
config itself; a shipped config may also be named (`extends: speech_commands/full`).

The command line of `train` before it is parsed: the run to resume, configs by name, trusted modules.

These functions refuse most mistakes before any class is imported, with the file's name. `parser.restrict_imports` keeps
code that is not trusted from running, however a config comes to name it.

The parser of configs: jsonargparse's, restricted to trusted modules, with one correction and one-line errors.
"""

import argparse
import inspect
import os
import pydoc
import re
import sys
from argparse import ArgumentError
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import yaml
from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch.cli import LightningArgumentParser

from vitspeech.attention import DecoderConfig, EncoderConfig
from vitspeech.errors import InputError
from vitspeech.files import parse_yaml, read_yaml
from vitspeech.training.run_folder import resumed_config
from vitspeech.trust import KNOWN_PACKAGES, check_trusted, is_known, refusal

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
        InputError: If it is not YAML that can be read, see `vitspeech.files`.
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


TASKS = {  # values of the former key `task`, and the class that replaces each
    "classification": "vitspeech.Classification",
    "labeling": "vitspeech.Labeling",
    "labelling": "vitspeech.Labeling",
    "recognition": "vitspeech.Recognition",
    "transcription": "vitspeech.Transcription",
}
KEYS = {"seed_everything", "data", "model", "trainer", "extends", "init_from", "every_minutes", "every_steps"}
DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
MODULE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def named_folder(configs: Sequence[Path]) -> str | None:
    """The folder that the last of these configs with a key `init_from` names.

    It is relative to the config, if there is such a folder, else to the current folder, as on the command line.

    Raises:
        InputError: If it is not the path of a folder.
    """
    folder = None
    for file in configs:
        if "init_from" not in (config := read_config(file)):
            continue
        folder = config["init_from"]
        if not isinstance(folder, str | None):
            raise InputError(f"{file}: init_from: {folder!r} is not the path of a folder")
        if folder and (file.parent / folder).is_dir():
            folder = os.path.normpath(file.parent / folder)
    return folder


@dataclass(frozen=True)
class Arguments:
    """A command line of `train`, ready for the parser.

    Args:
        parsed: What the parser takes: configs as paths, with those that they extend, and overrides in their order.
        configs: The configs that the command line names.
        run: The folder that `--run` names.
        resume: The run that `--resume` names.
        trust: The modules that `--trust` names.
    """

    parsed: list[str]
    configs: list[Path]
    run: str | None = None
    resume: str | None = None
    trust: tuple[str, ...] = ()


def prepare(arguments: Sequence[str]) -> Arguments:
    """Expand the configs of a command line, and refuse what must not or cannot be parsed.

    Raises:
        FileNotFoundError: If a config or the run to resume does not exist.
        InputError: If a config has the shape of an earlier version, or names a class of a module that is not trusted;
            if the path of the run is not UTF-8, or not that of the run to resume, which started from other weights.
    """
    runs, rest = take_option(arguments, "--run")
    resumes, rest = take_option(rest, "--resume")
    trusted, rest = take_option(rest, "--trust", many=True)
    trust = tuple(name for value in trusted for name in re.split(r"[\s,]+", value.strip("[]")) if name)
    for name in trust:
        if not MODULE_NAME.fullmatch(name):
            raise InputError(f"--trust {name}: is not the name of a module, such as mine or mine.networks")
    run, resume = (values[-1] if values else None for values in (runs, resumes))
    check_run(run, resume)
    if resume is not None:
        rest = [f"--config={resumed_config(resume)}", *rest]
    expanded, configs = expand_configs(rest)
    check_classes(expanded, trust)
    check_shape(expanded)
    init_from, expanded = take_option(expanded, "--init_from")
    folder = init_from[-1] if init_from else named_folder(config_files(expanded))
    if resume is not None and folder != (started := named_folder([resumed_config(resume)])):
        raise InputError(f"init_from={folder}: {resume} started from {started or 'random weights'}; leave it out")
    expanded += [f"--init_from={folder}"] if folder else []
    return Arguments(expanded, configs, run, resume, trust)


def check_run(run: str | None, resume: str | None) -> None:
    """Check the folder of a new run, and that of a run to resume, which is resumed in its own folder.

    Raises:
        InputError: If both are given and differ, or a path is not UTF-8.
    """
    for option, folder in (("--run", run), ("--resume", resume)):
        try:
            (folder or "").encode()
        except UnicodeEncodeError:
            raise InputError(f"{option} {folder!a}: not UTF-8; name another folder") from None
    if run is not None and resume is not None and Path(run).resolve() != Path(resume).resolve():
        raise InputError(f"--run {run}: a run is resumed in its own folder, {resume}; leave out --run")


def take_option(arguments: Sequence[str], option: str, *, many: bool = False) -> tuple[list[str], list[str]]:
    """The values of an option, and the command line without it. With `many` it may have several values after it.

    Raises:
        InputError: If the option has no value.
    """
    values, rest, remaining = [], [], list(arguments)
    while remaining:
        name, equals, value = remaining.pop(0).partition("=")
        if name != option:
            rest.append(name + equals + value)
            continue
        option_values = [value] if equals else []
        while not equals and remaining and not remaining[0].startswith("--") and (many or not option_values):
            option_values.append(remaining.pop(0))
        if not any(option_values):
            raise InputError(f"{option} needs a value")
        values += option_values
    return values, rest


def config_files(arguments: Sequence[str]) -> list[Path]:
    """The configs of an expanded command line, in their order."""
    return [Path(value) for value in take_option(arguments, "--config")[0]]


def check_shape(arguments: Sequence[str]) -> None:
    """Refuse configs with unknown keys, and those of earlier versions: with `task`, or no `class_path` under `model`.

    Raises:
        InputError: If there is one; the message says how to change it.
    """
    named = any(argument.partition("=")[0] in ("--model", "--model.class_path") for argument in arguments)
    for file in config_files(arguments):
        config = read_config(file)
        model = config.get("model")
        if "task" in config:
            task = TASKS.get(str(config["task"]), "vitspeech.Classification")
            raise InputError(
                f"{file}: `task` is no longer a key; the task is the class of the model: remove `task` and write "
                f"model: {{class_path: {task}, init_args: {{network: ..., optimizer: ..., ...}}}}"
            )
        for key in config.keys() - KEYS:  # the parser overlooks one without a value
            close = get_close_matches(str(key), KEYS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(KEYS))}"
            raise InputError(f"{file}: unknown key {key!r}; {hint}")
        named = named or isinstance(model, str) or (isinstance(model, dict) and "class_path" in model)
        if isinstance(model, dict) and not named:
            raise InputError(
                f"{file}: `model` has no class_path, and no config before it names one; write model: {{class_path: "
                f"vitspeech.Classification, init_args: {{{', '.join(f'{key}: ...' for key in model)}}}}} (or Labeling, "
                "Recognition, Transcription, ...)"
            )


def check_classes(arguments: Sequence[str], trust: Sequence[str]) -> None:
    """Refuse classes of modules that are not trusted, wherever configs or the command line name them.

    Raises:
        InputError: If there is one; the message names it with its file.
    """
    for file in config_files(arguments):
        for name in named_classes(read_config(file)):
            try:
                check_trusted(name, trust)
            except ValueError as error:
                raise InputError(f"{file}: {error}") from None
    for argument in take_option(arguments, "--config")[1]:
        key, equals, value = argument.partition("=")
        if key.startswith("--") and not equals:
            continue  # its value is the next argument
        text = value if equals else key
        try:
            # Aliases may multiply, or lead back to themselves.
            content = parse_yaml(text, key) if "&" in text and "*" in text else yaml.safe_load(text)
        except InputError:
            raise
        except (yaml.YAMLError, ValueError):  # a date that does not exist, such as 2026-02-30
            continue
        for name in named_classes({"class_path": content} if key.endswith("class_path") else content):
            check_trusted(name, trust)


def named_classes(config: Any) -> Iterator[str]:
    """Every string in nested mappings and lists that the parser may import as a class.

    These are all dotted values of `class_path`, and other strings that begin with the name of a module that exists:
    `network: mine.Net` is short for `network: {class_path: mine.Net}`.
    """
    if isinstance(config, dict):
        for key, value in config.items():
            if key == "class_path" and isinstance(value, str):
                yield from [value] if "." in value else []
            else:
                yield from named_classes(value)
    elif isinstance(config, list):
        for value in config:
            yield from named_classes(value)
    elif isinstance(config, str) and DOTTED_NAME.fullmatch(config) and is_module(config.partition(".")[0]):
        yield config


def is_module(name: str) -> bool:
    """Whether there is a module of that name, in the current folder or installed; it is not imported."""
    if name in sys.builtin_module_names:
        return True
    module = PathFinder.find_spec(name, [*sys.path, os.getcwd()])
    return module is not None and module.origin is not None


def foreign_modules(config: Any) -> list[str]:
    """The modules outside of vitspeech and its libraries whose classes a resolved config names."""
    paths = [name for name in named_classes(config) if not is_known(name)]
    return sorted({path.rpartition(".")[0] for path in paths})


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
