#!/usr/bin/env python3
"""Train a network from a config: `train.py --config configs/shapes/vit.yaml`; more by `--help`."""

import sys

from vitspeech import command_line
from vitspeech.training import TrainingCLI

if __name__ == "__main__":
    command_line.run(lambda: TrainingCLI(sys.argv[1:]).train())
