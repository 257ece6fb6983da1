"""The command `vitspeech`: each verb parses its arguments, calls the package, and prints.

A verb's module is imported when it is called, and parses the arguments before it imports torch, so that `--help` is
immediate. A module of one verb has `main`; a module of several has a function for each, named as the verb.
"""

import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module

import vitspeech
from vitspeech import command_line

GROUPS = {
    "train": {
        "train": "train a network from a config, or resume a run",
        "sweep": "train configs with several seeds and varied values, and tabulate them",
        "record": "record clips of your own words by microphone",
        "pack": "write a data set as one of Hugging Face, for data larger than memory",
        "language-model": "estimate an n-gram language model from the training transcripts of a config",
    },
    "measure": {
        "evaluate": "measure a released model or a finished run on its test set",
        "spot": "measure a keyword spotter: misses against false alarms per hour, as a report",
        "tune": "choose a keyword spotter's thresholds for a wanted rate of false alarms",
        "probe": "measure accuracy against the distance that a network has to bridge",
    },
    "run": {
        "predict": "classify images or recordings",
        "transcribe": "write down the words in recordings",
        "stream": "print words as they are recognized in a recording or from the microphone",
    },
    "understand": {"compare": "compare the receptive fields of models in one report"},
    "ship": {
        "release": "turn a finished run into a released model",
        "export": "write a model as an ONNX graph that runs without torch",
        "demo": "serve a page that runs models in the browser",
    },
    "what comes with the package": {
        "configs": "list the configs, or print one",
        "samples": "copy two images and a recording into a folder",
    },
}
VERBS = {verb: verb.replace("-", "_") for group in GROUPS.values() for verb in group}  # and the module of each
VERBS |= {"spot": "spotting", "tune": "spotting", "pack": "datasets", "language-model": "datasets"}
VERBS |= {"compare": "receptive", "probe": "receptive", "export": "exports", "demo": "exports"}
VERBS |= {"configs": "shipped", "samples": "shipped"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech VERB ...`.

    `None` takes the process's own command line; `arguments` are without the program's name.
    """
    command_line.open_outputs()
    verb, *rest = (sys.argv[1:] if arguments is None else list(arguments)) or [""]
    if verb in VERBS:
        run(verb, rest)
    elif verb == "--version":
        command_line.run(partial(print, f"vitspeech {vitspeech.__version__}"), "vitspeech")
    elif verb in ("", "-h", "--help"):
        command_line.run(partial(print, usage()), "vitspeech")
        sys.exit(0 if verb else 2)
    else:
        close = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(VERBS)}"
        print(f"vitspeech: unknown command {verb!r}; {hint}", file=sys.stderr)
        sys.exit(2)


def run(verb: str, arguments: Sequence[str] | None = None) -> None:
    """Run one verb; bad input ends it with one line on standard error, see `vitspeech.command_line`.

    `arguments` is the command line after the verb; `None` takes the process's own, for `scripts/VERB.py`.
    """
    arguments = sys.argv[1:] if arguments is None else arguments

    def checked() -> None:
        command_line.check_arguments(arguments, command_line.program(verb))
        command(verb)(arguments)

    command_line.run(checked, command_line.program(verb))


def command(verb: str) -> Callable[[Sequence[str]], None]:
    """The function that runs a verb; it takes the command line after the verb."""
    module, name = import_module(f"vitspeech.commands.{VERBS[verb]}"), verb.replace("-", "_")
    return module.main if VERBS[verb] == name else getattr(module, name)


def usage() -> str:
    """The text of `vitspeech --help`."""
    groups = [[f"{group}:", *(f"  {verb:18}{text}" for verb, text in verbs.items())] for group, verbs in GROUPS.items()]
    return (
        "usage: vitspeech COMMAND [ARGUMENTS]\n"
        "       vitspeech COMMAND --help\n"
        "       vitspeech --version\n\n"
        "Train, run and understand attention models for images and speech.\n\n"
        + "\n".join(line for group in groups for line in group)
        + "\n\nA first run, about two minutes on a CPU:\n"
        "  vitspeech train --config shapes/vit --run runs/first\n"
        "  vitspeech evaluate runs/first"
    )
