#!/usr/bin/env python3
"""Release a finished run: weights as safetensors, configuration, card, and its line in the table of models.

release.py runs/cifar10-vit/0 checkpoints/vit-cifar10 --seeds runs/cifar10-vit/1 runs/cifar10-vit/2
"""

import argparse
import json

from vitspeech import command_line
from vitspeech.checkpoint.release import release


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a finished run")
    parser.add_argument("folder", metavar="checkpoints/NAME", help="where the released model goes")
    parser.add_argument("--seeds", nargs="*", default=[], metavar="RUN", help="runs of the same config, other seeds")
    arguments = parser.parse_args()
    card = release(arguments.run, arguments.folder, arguments.seeds)
    print(f"{arguments.folder}: {json.dumps(card['metrics'])}")


if __name__ == "__main__":
    command_line.run(main)
