"""The error for what a user can correct: an option, a config, a card or a file.

Commands print an `InputError` as one line. An error of any other class, except `OSError`, is a bug of the package, and
commands print its traceback (see `vitspeech.command_line`).
"""


class InputError(ValueError):
    """A value, a file or a combination of settings that the user gave is wrong; the message says which and why."""


class MissingExtraError(InputError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""
