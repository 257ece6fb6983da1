"""The command line of `train` before it is parsed: the run to resume, configs by name, trusted modules.

These functions refuse most mistakes before any class is imported, with the file's name. `parser.restrict_imports` keeps
code that is not trusted from running, however a config comes to name it.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import yaml

from vitspeech.documents import parse_yaml
from vitspeech.errors import InputError
from vitspeech.training.configs import expand_configs, read_config
from vitspeech.training.init_from import named_folder
from vitspeech.training.run_folder import resumed_config
from vitspeech.trust import check_trusted, is_known

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
