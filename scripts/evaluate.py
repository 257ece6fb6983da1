#!/usr/bin/env python3
"""Evaluate a model on the data set and split that its card names; the card's number must come out again.

evaluate.py checkpoints/cnn-cifar10 --data ROOT
"""

import argparse

import torch

import vitspeech
from vitspeech import command_line
from vitspeech.evaluation import accuracy, confusion_matrix, wilson_interval
from vitspeech.release import card_data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder of a released model, or of a finished run")
    parser.add_argument("--data", metavar="ROOT", help="where the data set is; default: VITSPEECH_DATA, else data")
    arguments = parser.parse_args()

    model = vitspeech.load(arguments.checkpoint)
    data = card_data(model, arguments.data)
    network = model.network.to("cuda" if torch.cuda.is_available() else "cpu")
    counts = confusion_matrix(network, data)
    low, high = wilson_interval(accuracy(counts), int(counts.sum()))
    card = model.card["metrics"]["test_accuracy"]
    print(f"{counts.sum():,} images, 95 % interval {low:.4f} to {high:.4f}; the card says {card:.4f}")
    print(f"test_accuracy {accuracy(counts):.4f}")


if __name__ == "__main__":
    command_line.run(main)
