"""Turn a finished run into a released model: weights as safetensors, configuration, card, README and curves.

vitspeech release runs/cifar10-vit/0 checkpoints/vit-cifar10 --seeds runs/cifar10-vit/1 runs/cifar10-vit/2 --table
vitspeech release runs/cifar10-vit/0 checkpoints/vit-cifar10 --license apache-2.0 --push me/vit-cifar10
vitspeech release checkpoints/vit-cifar10 --push me/vit-cifar10    # a model released before: README anew, and upload

`--push` needs the extra `hub` and a login (`hf auth login`).
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line
from vitspeech.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech release`: prints what was written, the card's metrics, and where the model was uploaded."""
    parser = command_line.parser("release", __doc__)
    parser.add_argument("run", help="folder of a finished run; or of a released model, to write its README.md again")
    parser.add_argument("folder", metavar="checkpoints/NAME", nargs="?", help="folder of the released model")
    seeds = "runs of the same config with other seeds; the card gets their mean and standard deviation"
    parser.add_argument("--seeds", nargs="*", default=[], metavar="RUN", help=seeds)
    table = "rewrite the table in the README.md beside the folder from the cards of all models there"
    parser.add_argument("--table", action="store_true", help=table)
    license = "license of the weights for README.md, such as apache-2.0; default: that of the README.md before"
    parser.add_argument("--license", metavar="NAME", help=license)
    push = "upload the model to the Hugging Face Hub in one commit; a new repository is public, unless --private"
    parser.add_argument("--push", metavar="USER/NAME", help=push)
    private = "with --push: a new repository is private; one that exists stays as it is"
    parser.add_argument("--private", action="store_true", help=private)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    if options.private and not options.push:
        raise InputError("--private: is for --push USER/NAME")
    if options.folder is None and options.seeds:
        raise InputError("--seeds: name the folder of the released model, too")
    folder = Path(options.folder or options.run)
    if options.folder is not None and Path.cwd().is_relative_to(os.path.realpath(folder)):  # it would be replaced
        raise InputError(f"{folder}: holds the current folder; name another one")

    from vitspeech.checkpoint.folder import CARD, load
    from vitspeech.checkpoint.hub import check_push, on_hub, push
    from vitspeech.checkpoint.readme import check_readme, write_readme
    from vitspeech.checkpoint.release import release, write_table

    if options.push:
        check_push(options.push)
    if on_hub(options.run) or (options.folder is None and not (folder / CARD).exists()):
        raise InputError(f"{options.run}: not the folder of a released model; for a run, name the folder to write, too")
    before = check_readme(folder)
    if options.folder is not None:
        release(options.run, folder, options.seeds, trust=options.trust)
    model = load(folder, trust=options.trust)
    write_readme(model, folder, license=options.license or before, repository=options.push)
    files = ", ".join(sorted(path.name for path in folder.iterdir()))
    print(f"{folder}: wrote {'README.md' if options.folder is None else files}")
    print(json.dumps(model.card["metrics"]))
    if options.table:
        print(f"{write_table(folder.parent)}: wrote the table of models")
    if options.push:
        print(push(folder, options.push, private=options.private))
