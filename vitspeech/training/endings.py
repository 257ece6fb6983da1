"""How a command that does not finish a run ends: in one line that says why, and how to go on."""

import errno
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from vitspeech.errors import InputError

FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "a file is too large"}


@contextmanager
def clear_ending(program: str, resume: Callable[[], str]) -> Iterator[None]:
    """End with one line if training is interrupted, its loss is not finite, or the disk is full.

    SIGTERM, which schedulers send, and SIGHUP, which the end of a connection sends, are treated as Ctrl-C. Nothing is
    saved then; the last checkpoint remains. The exit status is 128 plus the number of the signal, as in a shell.

    Args:
        program: The command, which precedes the line.
        resume: Returns the command that resumes the run, or nothing if there is no run yet.

    Raises:
        FloatingPointError: If a loss is infinite or NaN.
        InputError: If the disk is full.
    """
    received = signal.SIGINT

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received = number
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup
    numbers = [signal.SIGTERM, *([] if ignored else [signal.SIGHUP])] if main else []
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as ending:  # Lightning exits at Ctrl-C
        if isinstance(ending.__context__, FloatingPointError):  # another process reports it, see `one_message`
            raise
        command = resume()
        print(file=sys.stderr)  # ends the line of the progress bar
        print(f"{program}: interrupted{f'; continue with {command}' if command else ''}", file=sys.stderr)
        sys.exit(128 + received)
    except FloatingPointError as error:
        raise FloatingPointError(
            f"{error}. Resuming would meet it again; start a new run with a lower learning rate (--model.optimizer.lr)"
        ) from error
    except OSError as error:
        if error.errno not in FULL:
            raise
        command = resume()
        file = f"{error.filename}: " if error.filename else ""
        advice = f"; make room, then continue with {command}" if command else ""
        raise InputError(f"{file}{FULL[error.errno]}{advice}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
