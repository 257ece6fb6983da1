#!/usr/bin/env python3
"""Train a network from a config: `train.py --config configs/shapes/vit.yaml`; more by `--help`."""

import sys

from vitspeech.training import TrainingCLI

if __name__ == "__main__":
    TrainingCLI(sys.argv[1:]).train()
