"""The command line of a sweep: which options are its own, and which are handed to every run."""

from collections.abc import Collection, Sequence

from vitspeech.errors import InputError

OWN_OPTION = {  # of `vitspeech train`, which a sweep sets itself
    "--run": "the sweep names the folders of its runs; name its own with -o",
    "--resume": "the same command resumes a sweep",
    "--seed_everything": "name the seeds with --seeds",
    "--print_config": "--dry-run lists the runs; `vitspeech train` prints a config",
}


def split_options(arguments: Sequence[str], own: Collection[str]) -> tuple[list[str], list[str]]:
    """Split a command line into a sweep's own part and the options of `vitspeech train`, as `--KEY=VALUE`.

    Args:
        arguments: The command line after the verb.
        own: The long options of the command itself, such as `--seeds`.

    Raises:
        InputError: If an option of `vitspeech train` has no value, or is one that a sweep sets itself.
    """
    mine, others, remaining = [], [], list(arguments)
    while remaining:
        argument = remaining.pop(0)
        name, equals, value = argument.partition("=")
        if not argument.startswith("--") or name in own:
            mine.append(argument)
            continue
        if name in OWN_OPTION:
            raise InputError(f"{name}: {OWN_OPTION[name]}")
        if not equals:
            if not remaining or remaining[0].startswith("--"):
                raise InputError(f"{name} needs a value")
            value = remaining.pop(0)
        others.append(f"{name}={value}")
    return mine, others


def parse_variation(text: str) -> tuple[str, list[str]]:
    """The key of `KEY=A,B,C` and its values; a comma inside of brackets or quotes does not separate values.

    Raises:
        InputError: If there is no key or no value, a value is there twice, or brackets or quotes are not closed.
    """
    key, _, listed = text.partition("=")
    key = key.strip()
    values = [value.strip() for value in split_commas(listed)]
    if not key or not all(values):
        raise InputError(f"--vary {text}: write it as KEY=A,B,C, with a key of the config and a value between commas")
    if len(set(values)) < len(values):
        raise InputError(f"--vary {text}: a value is there twice")
    return key, values


def split_commas(text: str) -> list[str]:
    """The parts of a text between commas that are not inside of brackets or quotes.

    Raises:
        InputError: If brackets or quotes are not closed.
    """
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "[{(") - (character in "]})")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
        if depth < 0:
            break
    if depth or quote:
        raise InputError(f"--vary: brackets or quotes are not closed in {text}")
    return parts
