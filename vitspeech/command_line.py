"""What commands share: their parser, and how they report errors: bad input in one line, a bug with its traceback."""

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vitspeech.errors import InputError
from vitspeech.writing import check_target

BAD_INPUT = (InputError, OSError, FloatingPointError)  # the last one: a loss that is not finite
UNREAD_FILES_STATUS = 3
BUG_STATUS = 70  # EX_SOFTWARE of sysexits.h
BUG = "this is a bug in vitspeech, or in code of your own that --trust named; please report it with the lines above"
BROKEN_PIPE_STATUS = 141  # what a shell reports for a program ended by SIGPIPE


def program(verb: str) -> str:
    """The command as the user typed it, for messages and usage lines: `predict.py` or `vitspeech predict`."""
    script = Path(sys.argv[0]).name
    return script if script.endswith(".py") and script != "__main__.py" else f"vitspeech {verb}"


def parser(verb: str, description: str | None, **options: Any) -> argparse.ArgumentParser:
    """A parser whose help starts with `description` as it is written, usually the module's docstring."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=program(verb), description=description, formatter_class=form, **options)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`, for models whose configuration names classes of the user's own modules."""
    text = "accept classes of this module of your own, whose code then runs; may be repeated"
    parser.add_argument("--trust", action="append", default=[], metavar="MODULE", help=text)


def check_table(table: Path | None, option: str = "--csv") -> None:
    """Refuse a table or a figure that cannot be written later, before the work is done; see `check_target`.

    Raises:
        FileNotFoundError: If its folder does not exist.
        InputError: If it is a folder, a device or another special file.
        PermissionError: If the file or its folder is not writable.
    """
    if table is not None:
        check_target(table, option)


class UnreadFiles:
    """The files that a command could not read, while it went on with the others.

    Args:
        verb: The command's, such as "predict".
    """

    def __init__(self, verb: str) -> None:
        self.name, self.count = program(verb), 0

    def status(self, path: Path, error: Exception) -> str:
        """Count a file; the error in one line, without the file's name."""
        self.count += 1
        return one_line(error).removeprefix(f"{path}: ")

    def report(self, path: Path, error: Exception) -> None:
        """Count a file, and print a line about it on standard error."""
        from tqdm import tqdm

        tqdm.write(f"{self.name}: {path}: {self.status(path, error)}", file=sys.stderr)  # not into a progress bar

    def exit(self, table: Path | None = None) -> None:
        """End with exit status 3 if there was such a file.

        Args:
            table: Where the errors were written, if `report` did not print them.
        """
        if not self.count:
            return
        if table is not None:
            files = "1 file" if self.count == 1 else f"{self.count:,} files"
            print(f"{self.name}: {files} could not be read: see the column `status` of {table}", file=sys.stderr)
        sys.stdout.flush()
        sys.exit(UNREAD_FILES_STATUS)


def one_line(error: Exception) -> str:
    """The message of an error, in one line."""
    return " ".join(str(error).split())


def run(command: Callable[[], None], name: str) -> None:
    """Run a command and report bad input (`BAD_INPUT`) as one line on standard error, with exit status 1.

    A warning is one line as well. A closed pipe (`| head`) ends the command quietly. An error of another class is a
    bug: its traceback is shown, and the exit status is 70. If the environment variable VITSPEECH_TRACEBACK is set, bad
    input shows its traceback, too.

    Args:
        command: Parses its arguments and does the work.
        name: Precedes each message; see `program`.
    """
    original = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"{name}: warning: {' '.join(str(message).split())}\n"
    if os.environ.get("VITSPEECH_TRACEBACK"):
        command()
        return
    try:
        command()
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output once more when it exits, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE_STATUS)
    except BAD_INPUT as error:
        sys.exit(f"{name}: {one_line(error)}")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        print(f"{name}: {BUG}", file=sys.stderr)
        sys.exit(BUG_STATUS)
    finally:
        warnings.formatwarning = original
