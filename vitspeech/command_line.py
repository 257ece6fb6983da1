"""What commands share: their parser, and how they report errors: bad input in one line, a bug with its traceback."""

import argparse
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vitspeech.errors import InputError
from vitspeech.files import check_target
from vitspeech.terminal import one_line, open_outputs, warning_in

BAD_INPUT = (InputError, OSError, FloatingPointError)  # the last one: a loss that is not finite
UNREAD_FILES_STATUS = 3
BUG_STATUS = 70  # EX_SOFTWARE of sysexits.h
BROKEN_PIPE_STATUS = 141  # what a shell reports for a program ended by SIGPIPE
BUG = "this is a bug in vitspeech, or in code of your own that --trust named; please report it with the lines above"
TABLES = (".csv", ".parquet")
PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".eps", ".ps")  # of matplotlib


def program(verb: str) -> str:
    """The command as the user typed it, for messages and usage lines: `predict.py` or `vitspeech predict`."""
    script = Path(sys.argv[0]).name
    return script if script.endswith(".py") and script != "__main__.py" else f"vitspeech {verb}"


def parser(verb: str, description: str | None, *, trusts: bool = True, **options: Any) -> argparse.ArgumentParser:
    """A parser whose help starts with `description`, with `--trust` for models of the user's own classes."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=program(verb), description=description, formatter_class=form, **options)
    if trusts:
        text = "accept classes of this module of your own, whose code then runs; may be repeated"
        parser.add_argument("--trust", action="append", default=[], metavar="MODULE", help=text)
    return parser


def add_language_model(parser: argparse.ArgumentParser) -> None:
    """Add `--language-model` and its weights, which `language_settings` reads."""
    group = parser.add_argument_group("language model of a recognizer with CTC")
    group.add_argument("--language-model", metavar="FILE", help="ARPA file, as `vitspeech language-model` writes it")
    group.add_argument("--language-weight", type=float, metavar="A", help="its weight (default 0.3)")
    group.add_argument("--length-bonus", type=float, metavar="B", help="score of each unit or word (default 0.5)")


def language_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `vitspeech.Search` that `add_language_model` added and the user gave."""
    given = settings(options, "language_model", "language_weight", "length_bonus")
    if given and "language_model" not in given:
        raise InputError(f"--{next(iter(given)).replace('_', '-')} needs --language-model")
    return given


def settings(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options of these names that the user gave."""
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def add_device(parser: argparse.ArgumentParser, others: str = ", mps") -> None:
    """Add `--device`, which `find_device` reads."""
    text = f"where the network runs: auto (default: CUDA if there is a GPU, else the CPU), cpu, cuda, cuda:N{others}"
    parser.add_argument("--device", default="auto", metavar="DEVICE", help=text)


def find_device(name: str) -> str:
    """The device of torch that `--device` names, tried before a model is loaded; `auto` is a CUDA GPU or the CPU."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", name, re.ASCII):
        raise InputError(f"--device {name}: choose from auto, cpu, cuda, cuda:N, mps")
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:  # an AssertionError if torch is a build without CUDA
        raise InputError(f"--device {name}: {str(error).splitlines()[0]}") from None
    return name


def add_table(parser: argparse.ArgumentParser, columns: Iterable[str]) -> None:
    """Add `--out` and `--resume` for a table with these columns, which `check_table` checks."""
    text = f"write a table instead, .csv or .parquet: {', '.join(columns)}"
    parser.add_argument("--out", type=Path, metavar="FILE", help=text)
    parser.add_argument("--resume", action="store_true", help="resume the table of an interrupted command")


def check_table(options: argparse.Namespace, inputs: Sequence[str] = ()) -> None:
    """Refuse a table that cannot be written later, and `--resume` without one."""
    if options.resume and options.out is None:
        raise InputError("--resume needs the table to resume: name it by --out")
    check_file(options.out, "--out", TABLES, inputs)


def check_file(file: Path | None, option: str, endings: Sequence[str] = (), inputs: Sequence[str] = ()) -> None:
    """Refuse a file that cannot be written later (`check_target`), or is one of the inputs, before the work is done."""
    if file is None:
        return
    check_target(file, option)
    if file.exists() and any(os.path.exists(path) and os.path.samefile(path, file) for path in inputs):
        raise InputError(f"{option} {file}: is a file to be read; name another one")
    if endings and file.suffix.lower() not in endings:
        raise InputError(f"{option} {file}: end the name with {' or '.join(endings)}")


def check_folder(folder: Path, option: str = "-o") -> None:
    """Refuse an output folder that cannot be created or written to later, before the work is done."""
    try:
        nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
        is_folder = nearest.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"{option} {folder}: cannot be a folder: {error}") from None
    if not is_folder:
        raise InputError(f"{option} {folder}: {nearest} is not a folder; name another one")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(f"{option} {folder}: the folder {nearest} is not writable")


class UnreadFiles:
    """The files that the command `verb` could not read: rows of its table, or else lines on standard error."""

    def __init__(self, verb: str, table: Any = None) -> None:
        self.name, self.table, self.printed = program(verb), table, 0

    def add(self, path: Path, error: Exception) -> None:
        """Report a file that could not be read."""
        message = one_line(error).removeprefix(f"{one_line(path)}: ")
        if self.table is not None:
            self.table.add(path, [(path, *[None] * (len(self.table.columns) - 2), message)], unread=True)
            return
        from tqdm import tqdm

        self.printed += 1
        tqdm.write(f"{self.name}: {one_line(path)}: {message}", file=sys.stderr)  # not into a progress bar

    def exit(self) -> None:
        """End with exit status 3 if there was such a file."""
        count = self.printed if self.table is None else self.table.unread
        if self.table is not None and count:
            files = "1 file" if count == 1 else f"{count:,} files"
            where = f"see the column `status` of {self.table.path}"
            print(f"{self.name}: {files} could not be read: {where}", file=sys.stderr)
        if count:
            sys.stdout.flush()
            sys.exit(UNREAD_FILES_STATUS)


def check_arguments(arguments: Sequence[str], name: str) -> None:
    """Refuse an empty argument, such as the value of an unset variable: as a folder it would be the current one."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        if argument == "" or re.fullmatch(r"--[\w.-]+\+?=", argument):
            option = argument[:-1] or (before if before.startswith("-") else "an argument")
            print(f"{name}: {option} is empty; is a variable unset?", file=sys.stderr)
            sys.exit(2)


def run(command: Callable[[], None], name: str) -> None:
    """Run a command and report bad input (`BAD_INPUT`) as one line on standard error, with exit status 1.

    A warning is one line as well, also one that the user has made an error. A closed pipe (`| head`) ends the command
    quietly; output that cannot be written (a full disk) is an error as others. An error of another class is a bug: its
    traceback is shown, and the exit status is 70. With the environment variable VITSPEECH_TRACEBACK, bad input shows
    its traceback, too. `name` precedes messages.
    """
    open_outputs()
    original = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"{name}: warning: {one_line(message)}\n"
    if os.environ.get("VITSPEECH_TRACEBACK"):
        command()
        return
    try:
        try:
            command()
        except SystemExit:  # after --help, too
            flush_output()
            raise
        flush_output()
    except BrokenPipeError:
        sys.exit(BROKEN_PIPE_STATUS)
    except BAD_INPUT as error:
        sys.exit(f"{name}: {one_line(error)}")
    except KeyboardInterrupt as interrupt:
        if interrupt.args:  # how to go on
            print(f"{name}: {one_line(interrupt)}", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if warning := warning_in(error):
            kind = f"{type(warning).__name__}, an error by -W or PYTHONWARNINGS"
            sys.exit(f"{name}: {one_line(warning)} ({kind})")
        traceback.print_exc()
        print(f"{name}: {BUG}", file=sys.stderr)
        sys.exit(BUG_STATUS)
    finally:
        warnings.formatwarning = original
        with suppress(OSError):
            flush_output()


def flush_output() -> None:
    """Write what is left of standard output; drop it after an error, since Python writes it once more when it exits."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        error.filename = "standard output"
        raise
