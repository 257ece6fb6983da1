"""`vitspeech configs` and `vitspeech samples`: what comes with the package."""

import re
from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line
from vitspeech.files import read_text
from vitspeech.samples import copy_samples

CONFIGS = """List the configs that come with the package, or print one.

vitspeech configs                            # every name by task, with a one-line description
vitspeech configs cifar10/vit > mine.yaml    # a copy to change; train it with `vitspeech train --config mine.yaml`
"""
TASKS = {  # names and folders of configs; the first one is to start with
    "one label for an image": ("shapes/vit", "shapes", "own_images", "cifar10", "cifar100"),
    "a keyword spotter": ("own_words", "own_words_embedding", "keywords"),
    "one word of a clip": ("spoken_words/truncated", "speech_commands"),
    "several words of an utterance": ("spoken_words/sequences", "word_sequences"),
    "continuous speech": ("librispeech/ctc", "librispeech", "speech_encoder"),
    "sequences of symbols": ("symbols/reverse", "symbols"),
}
EXPERIMENTS = "experiments of the documentation"
OVERLAYS = "overlays, for a second --config"
SAMPLES = """Copy a sample recording (the words left, right, go) and two sample images (a cat, a horse) into a folder.

vitspeech samples
vitspeech samples examples/
"""


def configs(arguments: Sequence[str]) -> None:
    """Run `vitspeech configs`: prints a table of names, or the text of one config."""
    parser = command_line.parser("configs", CONFIGS, trusts=False)
    add = parser.add_argument
    add("name", nargs="?", metavar="CONFIG", help="print this config instead of the list")
    options = parser.parse_args(arguments)

    from vitspeech.training.config import config_folder, find_config, shipped_configs

    if options.name:
        print(portable(find_config(options.name), config_folder()), end="")
        return
    texts = {name: (config_folder() / f"{name}.yaml").read_text("utf-8") for name in shipped_configs()}
    width = max(map(len, texts))
    tasks = {name: task_of(name, text) for name, text in texts.items()}
    for task in (*TASKS, EXPERIMENTS, OVERLAYS):
        print(f"{task}:")
        first = TASKS.get(task, ("",))[0]
        for name in sorted((name for name in texts if tasks[name] == task), key=lambda name: name != first):
            print(f"{'*' if name == first else ' '} {name:{width}}  {summary(texts[name])}")
        print()
    print("* is the one to start with. Train one: vitspeech train --config shapes/vit")


def task_of(name: str, text: str) -> str:
    """What a config is listed under, by its name and its text."""
    if text.startswith("# Overlay: "):
        return OVERLAYS
    return next((task for task, names in TASKS.items() if {name, name.partition("/")[0]} & {*names}), EXPERIMENTS)


def summary(text: str) -> str:
    """The first sentence of the comment that a config starts with."""
    comment = " ".join(line.lstrip("# ") for line in re.match(r"(#.*\n?)*", text)[0].splitlines())
    return re.split(r"(?<=[.?])(?<!et al\.)\s", comment, maxsplit=1)[0]


def portable(path: Path, shipped: Path) -> str:
    """The text of a config that works in any folder: it extends configs of `shipped` by name."""

    def named(match: re.Match) -> str:
        place, root = (path.parent / match["place"]).resolve(), shipped.resolve()
        if match["key"] == "init_from" and place.is_dir():
            return f"init_from: {place}{match['rest']}"
        if match["key"] == "extends" and place.is_file() and place.is_relative_to(root):
            return f"extends: {place.relative_to(root).with_suffix('').as_posix()}{match['rest']}"
        return match[0]

    pattern = r"^(?P<key>extends|init_from): *(?P<place>[^\s#]+)(?P<rest>.*)$"
    return re.sub(pattern, named, read_text(path), flags=re.MULTILINE)


def samples(arguments: Sequence[str]) -> None:
    """Run `vitspeech samples`: prints the copies' paths and two commands to try."""
    parser = command_line.parser("samples", SAMPLES, trusts=False)
    add = parser.add_argument
    folder = "folder for the copies (default: samples)"
    add("folder", nargs="?", type=Path, default=Path("samples"), metavar="FOLDER", help=folder)
    paths = copy_samples(parser.parse_args(arguments).folder)
    print("\n".join(map(str, paths)))
    recording, cat, horse, _ = paths
    print("\nTo try, with released models in checkpoints/:")
    print(f"  vitspeech stream checkpoints/keywords-12 {recording}")
    print(f"  vitspeech predict checkpoints/vit-cifar10 {cat} {horse}")
