"""Turn a finished run into a released model: weights as safetensors, configuration, card, README and curves.

vitspeech release runs/cifar10-vit/0 checkpoints/vit-cifar10 --seeds runs/cifar10-vit/1 runs/cifar10-vit/2 --table
vitspeech release runs/cifar10-vit/0 checkpoints/vit-cifar10 --half --data ROOT
vitspeech release runs/cifar10-vit/0 checkpoints/vit-cifar10 --license apache-2.0 --push me/vit-cifar10
vitspeech release checkpoints/vit-cifar10 --seeds runs/cifar10-vit/3    # a model released before: more seeds
vitspeech release checkpoints/vit-cifar10 --push me/vit-cifar10    # README anew, and upload

`--push` needs the extra `hub` and a login (`hf auth login`).
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vitspeech
from vitspeech import command_line
from vitspeech.errors import InputError


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech release`: prints what was written, the card's metrics, and where the model was uploaded."""
    options = parse(arguments)
    folder = Path(options.folder or options.run)

    from vitspeech.checkpoint.hub import check_push, on_hub, push
    from vitspeech.checkpoint.model import CARD
    from vitspeech.checkpoint.models_table import write_table
    from vitspeech.checkpoint.release import check_readme, release, release_seeds, write_readme

    if options.push:
        check_push(options.push)
    if on_hub(options.run) or (options.folder is None and not (folder / CARD).exists()):
        raise InputError(f"{options.run}: not the folder of a released model; for a run, name the folder to write, too")
    before = check_readme(folder)
    if options.folder is not None:
        reports = []

        def measure_half(model: "vitspeech.Model") -> dict[str, Any]:
            reports.append(measure(model, options))
            return reports[0].metrics

        half = measure_half if options.half else None
        release(options.run, folder, options.seeds, measure_half=half, trust=options.trust)
        for report in reports:
            report.write(folder)  # over the files of the run, which are of its weights in single precision
    elif options.seeds:
        release_seeds(folder, options.seeds, trust=options.trust)
    model = vitspeech.load(folder, trust=options.trust)
    write_readme(model, folder, license=options.license or before, repository=options.push)
    files = ", ".join(sorted(path.name for path in folder.iterdir()))
    written = "card.json, README.md" if options.seeds else "README.md"
    print(f"{folder}: wrote {written if options.folder is None else files}")
    print(json.dumps(model.card["metrics"]))
    if options.table:
        print(f"{write_table(folder.absolute().parent)}: wrote the table of models")
    if options.push:
        print(push(folder, options.push, private=options.private))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, checked."""
    parser = command_line.parser("release", __doc__)
    add = parser.add_argument
    add("run", help="folder of a finished run; or of a released model, to add seeds or write its README.md")
    add("folder", metavar="checkpoints/NAME", nargs="?", help="folder of the released model")
    add("--seeds", nargs="*", default=[], metavar="RUN", help="runs with other seeds; the card gets mean and deviation")
    add("--half", action="store_true", help="store float16, half the size, and measure the test set in --data with it")
    add("--data", metavar="ROOT", help="with --half: folder of the data set; default: VITSPEECH_DATA, else data")
    add("--table", action="store_true", help="rewrite the table of models in the README.md beside the folder")
    add("--license", metavar="NAME", help="license of the weights, such as apache-2.0; default: as before")
    add("--push", metavar="USER/NAME", help="upload to the Hugging Face Hub in one commit")
    add("--private", action="store_true", help="with --push: a new repository is private (default: public)")
    options = parser.parse_args(arguments)
    if options.data and not options.half:
        raise InputError("--data: is for --half")
    if options.private and not options.push:
        raise InputError("--private: is for --push")
    if options.half and options.folder is None:
        raise InputError("--half: name the folder of a run, and that of the released model, too")
    if options.folder is not None and Path.cwd().is_relative_to(os.path.realpath(options.folder)):  # to be replaced
        raise InputError(f"{options.folder}: holds the current folder; name another one")
    return options


def measure(model: "vitspeech.Model", options: argparse.Namespace) -> "vitspeech.Report":
    """The report of a model of the run in half precision on its test set, on which it was not trained."""
    from vitspeech.checkpoint.card_dataset import card_dataset
    from vitspeech.checkpoint.leakage import check_test_items
    from vitspeech.tasks import find_task

    data = card_dataset(model, options.data)
    check_test_items(data.item_names(), model.card, Path(options.run), data.item_root, same=True)
    search = vitspeech.Search(**model.card["metrics"].get("search", {}))
    return find_task(model.task, model.trust).evaluate(model.network, data, search=search)
