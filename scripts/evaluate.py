#!/usr/bin/env python3
"""Evaluate a model on the data set and split that its card names; the card's number must come out again.

evaluate.py checkpoints/cnn-cifar10 --data ROOT
evaluate.py checkpoints/spoken-words-attention --ctc-weight 0      # by its decoder alone
"""

import argparse

import torch

import vitspeech
from vitspeech import command_line
from vitspeech.checkpoint.release import card_data
from vitspeech.inference.transcribe import Search
from vitspeech.tasks import find_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder of a released model, or of a finished run")
    parser.add_argument("--data", metavar="ROOT", help="where the data set is; default: VITSPEECH_DATA, else data")
    parser.add_argument("--beam", type=int, help="of a transcript's search, 1 is greedy; default: as on the card")
    parser.add_argument("--ctc-weight", type=float, help="CTC's share in a decoder's search; default: likewise")
    arguments = parser.parse_args()

    model = vitspeech.load(arguments.checkpoint)
    data = card_data(model, arguments.data)
    network = model.network.to("cuda" if torch.cuda.is_available() else "cpu")
    given = {"beam": arguments.beam, "ctc_weight": arguments.ctc_weight}
    chosen = {name: value for name, value in given.items() if value is not None}
    report = find_task(model.task).evaluate(
        network, data, search=Search(**model.card["metrics"].get("search", {}) | chosen)
    )
    name, value = report.headline
    print(f"{report.text}; the card says {model.card['metrics'][name]:.4f}")
    print(f"{name} {value:.4f}")


if __name__ == "__main__":
    command_line.run(main)
