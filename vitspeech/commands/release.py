"""Turn a finished run into a released model: weights as safetensors, configuration, card and curves.

vitspeech release runs/cifar10-vit/0 checkpoints/vit-cifar10 --seeds runs/cifar10-vit/1 runs/cifar10-vit/2 --table
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line
from vitspeech.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech release`: prints what was written, and the card's metrics."""
    parser = command_line.parser("release", __doc__)
    parser.add_argument("run", help="folder of a finished run")
    parser.add_argument("folder", metavar="checkpoints/NAME", help="folder of the released model")
    seeds = "runs of the same config with other seeds; the card gets their mean and standard deviation"
    parser.add_argument("--seeds", nargs="*", default=[], metavar="RUN", help=seeds)
    table = "rewrite the table in the README.md beside the folder from the cards of all models there"
    parser.add_argument("--table", action="store_true", help=table)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    if Path.cwd().is_relative_to(os.path.realpath(options.folder)):  # it would be replaced, and with it this folder
        raise InputError(f"{options.folder}: holds the current folder; name another one")

    from vitspeech.checkpoint.release import release, write_table

    card = release(options.run, options.folder, options.seeds, trust=options.trust)
    files = ", ".join(sorted(path.name for path in Path(options.folder).iterdir()))
    print(f"{options.folder}: wrote {files}")
    print(json.dumps(card["metrics"]))
    if options.table:
        print(f"{write_table(Path(options.folder).parent)}: wrote the table of models")
