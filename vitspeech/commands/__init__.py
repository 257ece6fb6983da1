"""The command `vitspeech`: one module per verb (`language_model` of `language-model`), imported when it is called.

Each module has `main(arguments)`, which parses the arguments before it imports torch, so that `--help` is immediate.
"""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module

import vitspeech
from vitspeech import command_line

VERBS = {
    "train": "train a network from a config, or resume a run",
    "evaluate": "measure a released model or a finished run on its test set",
    "predict": "classify images or recordings",
    "transcribe": "write down the words in recordings",
    "stream": "print words as they are recognized in a recording or from the microphone",
    "spot": "measure a keyword spotter: misses against false alarms an hour, as a report",
    "tune": "choose a keyword spotter's thresholds for a wanted rate of false alarms",
    "pack": "write a data set into files that are read in place, for data larger than memory",
    "language-model": "estimate an n-gram language model from the training transcripts of a config",
    "record": "record clips of your own words by microphone",
    "compare": "compare the receptive fields of models in one report",
    "probe": "measure accuracy against the distance that a network has to bridge",
    "sweep": "train configs with several seeds and varied values, and tabulate them",
    "release": "turn a finished run into a released model",
    "export": "write a model as an ONNX graph that runs without torch",
    "demo": "serve a page that runs models in the browser",
    "configs": "list the configs that come with the package, or print one",
    "samples": "copy sample images and a sample recording into a folder",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech VERB ...`.

    Args:
        arguments: The command line without the program's name; `None` takes the process's own.
    """
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

    Args:
        verb: A key of `VERBS`.
        arguments: The command line after the verb; `None` takes the process's own, for `scripts/VERB.py`.
    """
    command = import_module(f"vitspeech.commands.{verb.replace('-', '_')}")
    arguments = sys.argv[1:] if arguments is None else arguments
    command_line.run(partial(command.main, arguments), command_line.program(verb))


def usage() -> str:
    """The text of `vitspeech --help`."""
    verbs = "\n".join(f"  {verb:18}{text}" for verb, text in VERBS.items())
    return (
        "usage: vitspeech COMMAND [ARGUMENTS]\n"
        "       vitspeech COMMAND --help\n"
        "       vitspeech --version\n\n"
        "Train, run and understand attention models for images and speech.\n\n"
        f"{verbs}\n\n"
        "A first run, about two minutes on a CPU:\n"
        "  vitspeech train --config shapes/vit --run runs/first\n"
        "  vitspeech evaluate runs/first"
    )
