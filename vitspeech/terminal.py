"""Standard output as people have it: another encoding than UTF-8, none at all, a terminal that obeys escape codes.

Needs nothing but Python: exported models have a copy.
"""

import codecs
import io
import os
import re
import sys

# Characters that move the cursor, begin escape codes or change the direction of what follows.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
SIMPLER = {"–": b"-", "—": b"-", "×": b"x", "±": b"+-", "…": b"..."}  # where an output lacks them


def one_line(text: object) -> str:
    """The message of an error, or the name of a file, in one line, with escapes for control characters."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], " ".join(str(text).split()))


def replace_missing(error: UnicodeError) -> tuple[bytes, int]:
    """For characters that an output lacks: bytes of the names of files as they are, and escapes or simpler signs."""
    replaced = b""
    for one in error.object[error.start : error.end]:
        is_byte = "\udc80" <= one <= "\udcff"
        replaced += os.fsencode(one) if is_byte else SIMPLER.get(one) or one.encode("ascii", "backslashreplace")
    return replaced, error.end


codecs.register_error("vitspeech", replace_missing)


def open_outputs() -> None:
    """Open what `>&-`, or a service, has closed: what is written there is dropped, and no file gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # has this number, the lowest one that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="vitspeech")


def warning_in(error: BaseException | None) -> Warning | None:
    """The warning that an error is, or that has caused it, since the user has made errors of warnings."""
    while error is not None and not isinstance(error, Warning):
        error = error.__cause__ or error.__context__
    return error
