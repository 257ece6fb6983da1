"""Configs and the command line of `vitspeech train`: files by name, overlays, the parser, and its errors in one line.

A config that begins with `extends: full.yaml` holds only what differs from that file. The path is relative to the
config itself; a shipped config may also be named (`extends: speech_commands/full`).

The parser is jsonargparse's. It imports classes of vitspeech, its libraries and the trusted modules alone, however a
config comes to name them, and reads no file but configs.
"""

import argparse
import inspect
import math
import os
import sys
from argparse import ArgumentError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from inspect import isclass, isroutine
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from jsonargparse import Namespace, set_parsing_settings
from lightning.fabric.plugins import CheckpointIO, ClusterEnvironment
from lightning.fabric.plugins.precision import Precision
from lightning.pytorch import Callback, LightningDataModule
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.cli import LightningArgumentParser
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.layer_sync import LayerSync
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.strategies import Strategy
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.optim import Optimizer

from vitspeech.attention import DecoderConfig, EncoderConfig
from vitspeech.errors import InputError
from vitspeech.files import read_yaml
from vitspeech.training.run_folder import CONFIG, resumed_config
from vitspeech.trust import IMPORTED, NO_PART, import_trusted, is_known, refusal

PACKAGE = Path(__file__).parents[1]
PROGRAM = "vitspeech train"
KEYS = "seed_everything data model trainer extends init_from init_from_least every_minutes every_steps".split()
RESTARTS = {"torchrun": "TORCHELASTIC_RESTART_COUNT", "SLURM": "SLURM_RESTART_COUNT"}
# Lines of an error of jsonargparse that do not say what is wrong.
UNSAID = ("Does not validate", "Subtypes:", "Errors:", "Given value", "Subclass types", "a class path", "a dict ")
USUAL = {  # keys by the names that other programs have for them
    **dict.fromkeys(("lr", "learning_rate"), "model.optimizer.lr"),
    **dict.fromkeys(("epochs", "num_epochs", "num_train_epochs", "n_epochs"), "trainer.max_epochs"),
    **dict.fromkeys(("batch_size", "bs", "train_batch_size"), "data.batch"),
    **dict.fromkeys(("depth", "layers", "num_layers"), "model.network.encoder.depth"),
    **dict.fromkeys(("heads", "num_heads"), "model.network.encoder.heads"),
    **dict.fromkeys(("data_dir", "data_root", "dataset", "root"), "data.root"),
    **dict.fromkeys(("pretrained", "checkpoint", "weights"), "init_from"),
    **dict.fromkeys(("output_dir", "output", "out", "o"), "run"),
    **dict.fromkeys(("gpus", "devices"), "trainer.devices"),
    "weight_decay": "model.optimizer.weight_decay",
    "num_workers": "data.workers",
    "device": "trainer.accelerator",
    "seed": "seed_everything",
}
NO_KEYS = "has keys, such as trainer.max_epochs, and no value of its own"
NULL = "Expected a <class 'NoneType'>"
# What a run is made of: classes that a config may name. The last four are plugins of the trainer.
PARTS = (nn.Module, Optimizer, LightningDataModule, Callback, Logger, Profiler, Accelerator, Strategy)
PARTS += (Precision, CheckpointIO, ClusterEnvironment, LayerSync)


def config_folder() -> Path:
    """The folder of the shipped configs: `vitspeech/configs` in an installed wheel, `configs` in a checkout."""
    installed = PACKAGE / "configs"
    return installed if installed.is_dir() else PACKAGE.parent / "configs"


def shipped_configs() -> list[str]:
    """The names of all shipped configs: `cifar10/vit`, `shapes/cnn` and so on."""
    folder = config_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def find_config(name_or_path: str | Path) -> Path:
    """The file of a config: a path as it is, or the name of a shipped config (`shapes/vit`)."""
    path = Path(name_or_path)
    if path.is_file():
        return path
    name = str(name_or_path).removesuffix(".yaml")
    if name in (names := shipped_configs()):
        return config_folder() / f"{name}.yaml"
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`vitspeech configs` lists the shipped ones"
    raise FileNotFoundError(f"{name_or_path}: neither a file nor a shipped config; {hint}")


def read_config(path: Path) -> dict[str, Any]:
    """The contents of a config. Messages do not quote a file that is none: another config may name any."""
    config = read_yaml(path)
    if not isinstance(config, dict | None):
        raise InputError(f"{path}: not a config, which has keys such as data, model and trainer")
    return config or {}


def config_chain(path: Path) -> list[Path]:
    """The configs that this one extends, the most general one first, and then the config itself."""
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


def read_arguments(arguments: Sequence[str]) -> Arguments:
    """Take the options that are not keys of a config from a command line, and expand its configs."""
    given, rest = split_options(arguments)
    trust = tuple(name for value in given.trust for name in value.strip("[]").replace(",", " ").split())
    run, resume = given.run, given.resume
    if run is not None and run != run.encode(errors="replace").decode():  # the model's card could not be written
        raise InputError(f"--run {run!a}: not UTF-8; name another folder")
    if None not in (run, resume) and Path(run).resolve() != Path(resume).resolve():
        raise InputError(f"--run {run}: a run is resumed in its own folder, {resume}; leave out --run")
    if resume is not None:
        rest = [f"--config={resumed_config(resume)}", *rest]
    if any(argument.partition("=")[0] == "--trainer" for argument in rest):
        raise InputError(f"--trainer: {NO_KEYS}")
    parsed, configs = expand_configs(rest)
    for file in config_files(parsed):
        for key in read_config(file).keys() - {*KEYS}:  # the parser overlooks one without a value
            raise InputError(f"{file}: unknown key {key!r}{did_you_mean(str(key), KEYS)}")
    source = given.init_from or named_source(config_files(parsed))
    if not source and any(argument.partition("=")[0] == "--init_from_least" for argument in rest):
        raise InputError("--init_from_least: is for --init_from")
    if resume is not None and source != (started := named_source([resumed_config(resume)])):
        raise InputError(f"init_from={source}: {resume} started from {started or 'random weights'}; leave it out")
    return Arguments([*parsed, *([f"--init_from={source}"] if source else [])], configs, run, resume, trust)


def split_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of a command line that are not keys of a config, and the rest of it."""

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for option in ("--run", "--resume", "--init_from"):
        parser.add_argument(option)
    parser.add_argument("--trust", nargs="+", action="extend", default=[])
    separate, is_trust = [], False
    for argument in arguments:  # argparse would take an override that contains a space for one more module
        if argument.startswith("-"):
            is_trust = argument == "--trust"
        elif is_trust:
            argument = f"--trust={argument}"
            if separate[-1] == "--trust":
                separate.pop()
        separate.append(argument)
    try:
        return parser.parse_known_args(separate)
    except ArgumentError as error:
        raise InputError(str(error)) from None


def after_restart(arguments: Sequence[str]) -> Sequence[str]:
    """The command line of what `torchrun --max-restarts` or SLURM has started again: it resumes the run of `--run`.

    SLURM starts a job again that was preempted or lost its machine.
    """
    given, _ = split_options(arguments)
    starter = next((name for name, count in RESTARTS.items() if int(os.environ.get(count) or 0)), None)
    if starter is None or given.resume:
        return arguments
    if not given.run:
        raise InputError(f"{starter} has started this run again, and without --run it cannot be found: name its folder")
    if not (Path(given.run) / CONFIG).is_file():
        return arguments
    return ["--resume", given.run, *(f"--trust={name}" for name in given.trust)]


def expand_configs(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Replace each `--config NAME` of a command line by the configs that it extends and the config itself.

    Returns:
        The command line, with every config as `--config=PATH`, and the configs as the command line named them.
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


def config_files(parsed: Sequence[str]) -> list[Path]:
    """The configs of an expanded command line, in their order."""
    return [Path(argument.removeprefix("--config=")) for argument in parsed if argument.startswith("--config=")]


def named_source(configs: Sequence[Path]) -> str | None:
    """The folder of weights that the last of these configs with a key `init_from` names.

    It is relative to the config, if there is such a folder, else to the current folder, as on the command line.
    """
    folder = None
    for file in configs:
        if "init_from" in (config := read_config(file)):
            folder = config["init_from"]
            if not isinstance(folder, str | None):
                raise InputError(f"{file}: init_from: {folder!r} is not the path of a folder")
            if folder and (file.parent / folder).is_dir():
                folder = os.path.normpath(file.parent / folder)
    return folder


# `encoder: {depth: 6}` and `encoder: {class_path: vitspeech.RecurrentEncoder}` can then replace each other in configs.
SETTINGS = [EncoderConfig, DecoderConfig]
set_parsing_settings(subclasses_enabled=SETTINGS)
ALLOWED: set[str] = set()  # modules that an earlier call of `restrict_imports` trusted


def restrict_imports(trust: Sequence[str]) -> None:
    """Let parsers in this process import only parts of runs, see `vitspeech.trust`, and the trusted modules.

    This holds wherever a class is named: in configs, in files that configs refer to, and on the command line. An object
    that a known package merely imports, such as `vitspeech.trust.os.system`, counts to the module that defines it.
    """
    set_parsing_settings(import_path_denylist=["*", *ALLOWED], import_path_allowlist=[*IMPORTED, *trust])
    ALLOWED.update(trust)


OVERRIDDEN = ("_add_signature_parameter", "_check_value_key")  # private names, of jsonargparse 4.53
if not all(hasattr(LightningArgumentParser, name) for name in OVERRIDDEN):  # files would be read for values unnoticed
    raise InputError(f"jsonargparse {version('jsonargparse')} is not supported; try `pip install jsonargparse==4.53.*`")


class Parser(LightningArgumentParser):
    """Lightning's parser, in which a later config may name another class than an earlier one.

    The arguments that both classes have are kept. jsonargparse 4.53 checks each of them by parsing it in place, which
    breaks typed groups such as `encoder`; here it checks a copy.

    A value is never the name of a file to read the value from. jsonargparse would read any file for it, and print its
    contents if they do not fit.
    """

    def print_help(self, file: Any = None) -> None:
        """Print the help; that of a class (`--data.help CLASS`) begins with its docstring, not with its first line."""
        text, _, name = str(self.description).partition("=")
        if text.startswith("Help for ") and name:
            documented = import_trusted(name, [*ALLOWED])  # jsonargparse has imported it
            docstring = f"{inspect.getdoc(documented) or documented.__name__}\n"
            sections = docstring.split("\n\n")  # without `Args`, since the help lists the arguments with their types
            print("\n\n".join(part for part in sections if not part.startswith("Args:")).strip(), file=file)
            print(file=file)
        super().print_help(file)

    def add_argument(self, *arguments: Any, sub_configs: bool = False, **options: Any) -> Any:
        return super().add_argument(*arguments, **options)

    def _add_signature_parameter(self, *arguments: Any, sub_configs: bool = False, **options: Any) -> None:
        super()._add_signature_parameter(*arguments, **options)

    def _check_value_key(self, action: argparse.Action, value: Any, *arguments: Any, **options: Any) -> Any:
        value = value.clone() if isinstance(value, Namespace) else value
        if hasattr(action, "_load_config") and not isinstance(value, Mapping | Namespace | None):
            raise TypeError(f'Parser key "{action.dest}":\n  {NO_KEYS}')  # a text would be a file to read
        if value == "None" and NoneType in get_args(getattr(action, "_typehint", None)):
            value = None  # jsonargparse makes a text of `null` on its way to a nested class
        return super()._check_value_key(action, value, *arguments, **options)

    def parse(self, arguments: Sequence[str], trust: Sequence[str]) -> Namespace:
        """Parse an expanded command line. A mistake ends the command in one line."""
        try:
            return self.checked(arguments, trust)
        except (ArgumentError, InputError) as error:
            is_usage = isinstance(error, ArgumentError)
            line = self.explain(str(error), trust) if is_usage else str(error)
            configs = [f"--config={file}" for file in config_files(arguments)]
            heads = (configs[:count] for count in range(1, len(configs) + 1))
            if wrong := next((head[-1] for head in heads if self.refuses(head, trust, str(error))), None):
                raise InputError(f"{wrong.removeprefix('--config=')}: {line}") from None
            if not is_usage or "--trust" in line:
                raise InputError(line) from None
            print(f"{PROGRAM}: {line}", file=sys.stderr)
            sys.exit(2)

    def checked(self, arguments: Sequence[str], trust: Sequence[str]) -> Namespace:
        """The config that arguments give, in which every class is a part of a run."""
        config = self.parse_args(list(arguments))
        check_objects(config, trust)
        return config

    def refuses(self, arguments: Sequence[str], trust: Sequence[str], message: str) -> bool:
        """Whether these arguments give this error."""
        try:
            self.checked(arguments, trust)
        except (ArgumentError, InputError) as error:
            return str(error) == message
        return False

    def explain(self, message: str, trust: Sequence[str]) -> str:
        """An error of jsonargparse in one line: `model.network: vitspeech.ViT: Option 'widht' is not accepted`.

        Its lines are indented below the key or class that they are about; the deepest ones say what is wrong.
        Values of a config stand among them as they are, so a line may say anything.
        """
        if "Importing '" in message:
            return refusal(message.partition("Importing '")[2].partition("'")[0])
        path, reasons = [], []
        for text in message.splitlines():
            line, indent = text.strip().removeprefix("- "), len(text) - len(text.lstrip())
            path = [part for part in path if part[0] < indent]
            if line.startswith('Parser key "'):
                path.append((indent, line.split('"')[1], ""))
            elif line.startswith("Problem with given class_path"):
                path.append((indent, "", line.partition("'")[2].partition("'")[0]))
            elif not line.startswith(UNSAID) and (line != NULL or not reasons):
                reasons.append((indent, path, line))
        depth, path, _ = max(reasons, key=lambda reason: reason[0])
        key, class_path = ".".join(part[1] for part in path if part[1]), "".join(part[2] for part in path[-1:])
        reason = " or ".join(dict.fromkeys(reason[2] for reason in reasons if reason[:2] == (depth, path)))
        if "a callable class: " in reason:  # of an optimizer
            reason, _, value = reason.partition("a callable class: ")[2].partition(". Got value: ")
            class_path = value.partition("class_path='")[2].partition("'")[0]
        if reason in ("Expected a <class 'str'>. Got value: True", "Expected a <class 'str'>. Got value: False"):
            reason += "; put yes, no, on and off in quotes"
        return ": ".join([*filter(None, (key, class_path)), reason + self.suggestion(reason, class_path, trust)])

    def suggestion(self, reason: str, class_path: str, trust: Sequence[str]) -> str:
        """What the user may have meant by an option that is not accepted, of the parser or of a class."""
        options = list(self.get_defaults().keys())
        if reason.startswith(unknown := "unrecognized arguments: "):
            name = reason.removeprefix(unknown).partition(" ")[0].partition("=")[0]
            if not name.startswith("-"):
                with suppress(FileNotFoundError):
                    find_config(name)
                    return f"; did you mean --config {name}?"
            if usual := USUAL.get(name.lstrip("-").replace("-", "_")):
                return f"; did you mean --{usual}?"
            return did_you_mean(name, [f"--{option}" for option in options])
        if "accept" not in reason:
            return ""
        with suppress(InputError):  # of a class that is not trusted, or a text that is none
            if isclass(kind := import_trusted(class_path, trust)):
                parser = Parser(exit_on_error=False)
                parser.add_class_arguments(kind, fail_untyped=False)
                options = list(parser.get_defaults().keys())
        return did_you_mean(reason.rpartition("'")[0].rpartition("'")[2], options)

    def build(self, config: Namespace) -> Namespace:
        """Build the classes of a config."""
        errors: list[Exception] = []

        def construct(kind: type, *arguments: Any, **options: Any) -> Any:
            try:
                return kind(*arguments, **options)
            except Exception as error:
                errors.append(error)
                raise

        try:
            return self.instantiate(config, instantiators=[(construct, object, True)])
        except Exception as error:
            raise (errors or [error])[0] from None


def did_you_mean(name: str, keys: Sequence[str]) -> str:
    """`; did you mean trainer.max_epochs?` for `max_epoch`; nothing if no key is like it, nor the end of one."""
    ends = {key.rpartition(".")[2]: key for key in keys} | {key: key for key in keys}
    close = get_close_matches(name, ends, n=1, cutoff=0.7)
    return f"; did you mean {ends[close[0]]}?" if close else ""


def check_objects(config: Namespace, trust: Sequence[str]) -> None:
    """Refuse functions, classes that no part of a run is made of, NaN and infinity, wherever a parsed config has them.

    The parser accepts any callable where an argument is annotated as one, and the run would call it. Libraries accept
    infinity as a learning rate; the constructors of this package say themselves which numbers may be infinite.

    Args:
        config: What the parser returns.
        trust: Modules that `--trust` names; all that they define is accepted.
    """
    for key, value in values_of(config):
        of_library = key.startswith(("trainer.", "model.init_args.optimizer."))
        if isinstance(value, float) and (math.isnan(value) or (math.isinf(value) and of_library)):
            raise InputError(f"{key}: {value} is not a finite number")
        is_named = key.rpartition(".")[2] == "class_path" and isinstance(value, str)
        named = import_trusted(value, trust) if is_named else value
        if isclass(named) or isroutine(named):
            module = f"{named.__module__}."
            is_part = isclass(named) and (issubclass(named, PARTS) or module.startswith("vitspeech."))
            if not is_part and not any(module.startswith(f"{name}.") for name in trust):
                raise InputError(f"{key.removesuffix('.class_path')}: {module}{named.__qualname__} {NO_PART}")


def places_outside(trainer: Namespace, run: Path) -> Iterator[str]:
    """`KEY: PLACE` of each file or folder outside of a run that the part of a config about the trainer names."""
    for key, value in values_of(trainer, "trainer"):
        if isinstance(value, str | os.PathLike):
            path = Path(value)
            is_place = path.is_absolute() or ".." in path.parts or key.endswith(("dir", "dirpath", "folder", "root"))
            if is_place and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(run)):
                yield f"{key}: {value}"


def foreign_modules(config: Any) -> set[str]:
    """The modules outside of vitspeech and its libraries whose classes a config names."""
    named = [value for key, value in values_of(config) if key.rpartition(".")[2] in ("class_path", "score")]
    classes = [name for name in named if isinstance(name, str) and "." in name]
    return {name.rpartition(".")[0] for name in classes if not is_known(name)}


def values_of(config: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of a parsed config, or of the part of it under a key, with its key: `trainer.max_epochs`."""
    config = vars(config) if isinstance(config, Namespace) else config
    if isinstance(config, Mapping):
        for name, value in config.items():
            yield from values_of(value, f"{key}.{name}" if key else str(name))
    elif isinstance(config, list | tuple):
        for value in config:
            yield from values_of(value, key)
    else:
        yield key, config


def plain_settings(config: Any) -> Any:
    """A config in which settings are written without their class, which is known: `encoder: {depth: 6}`."""
    if isinstance(config, dict):
        if config.get("class_path") in [f"vitspeech.{kind.__name__}" for kind in SETTINGS]:
            return plain_settings(config.get("init_args") or {})
        return {key: plain_settings(value) for key, value in config.items()}
    return [plain_settings(item) for item in config] if isinstance(config, list) else config


@contextmanager
def config_errors(key: str) -> Iterator[None]:
    """While a run is built and tried out, turn any error into an `InputError` of one line: it is about the config.

    Args:
        key: The part of the config, for the message.
    """
    try:
        yield
    except (InputError, OSError, Warning):  # a warning: the user has made errors of them
        raise
    except Exception as error:
        kind = "" if isinstance(error, ValueError | MisconfigurationException) else f" ({type(error).__name__})"
        raise InputError(f"{key}: {error}{kind}") from error
