"""Standard output as people have it: another encoding than UTF-8, no output at all, a terminal that obeys escape codes.

Needs nothing but Python: exported models have a copy.
"""

import codecs
import os
import re
import sys

# Characters that move the cursor, begin escape codes or change the direction of what follows.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def one_line(text: object) -> str:
    """The message of an error, or the name of a file, in one line, with escapes for control characters."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], " ".join(str(text).split()))


def prepare_output() -> None:
    """Let `print` work whatever the standard output is.

    Names of files that are not UTF-8 are printed as they are, and characters that the output lacks as `?`. A program
    without a standard output (`>&-`, a service, pythonw) prints nothing. No file is opened in the place of an output
    that is closed, where a library would print into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("vitspeech.printable", printable)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="vitspeech.printable")


def printable(error: UnicodeError) -> tuple[bytes, int]:
    """The bytes for the next character that an encoding lacks: a byte of a file name that is not UTF-8, or `?`."""
    code = ord(error.object[error.start])
    return bytes([code - 0xDC00]) if 0xDC80 <= code <= 0xDCFF else b"?", error.start + 1
