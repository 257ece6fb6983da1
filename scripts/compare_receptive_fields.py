#!/usr/bin/env python3
"""Compare what models see: how far each looks, how far it could, and how far it needs to, in one report.

compare_receptive_fields.py checkpoints/vit-cifar10 checkpoints/cnn-cifar10 --data ROOT -o report/
compare_receptive_fields.py checkpoints/vit-cifar10 timm:resnet18 timm:convnext_atto --data ROOT -o report/
compare_receptive_fields.py checkpoints/speech-commands checkpoints/speech-commands-truncated --data ROOT -o report/
compare_receptive_fields.py timm:deit_tiny_patch16_224 --pretrained --data holiday/ -o report/

All of them see, or all of them hear. The inputs are validation items of the data set that the first released model's
card names; without one, the pictures of a folder. report/ gets report.html (one page that needs no network), a PNG for
each of its pictures, metrics.json and metrics.csv.
"""

import argparse
import time
from pathlib import Path

from vitspeech import command_line
from vitspeech.receptive.comparison import Plan, compare
from vitspeech.receptive.report.page import write_report
from vitspeech.receptive.report.summary import sentences
from vitspeech.receptive.sample import sample_for
from vitspeech.receptive.subjects import subjects_named


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="folder of a released model or a run, or timm:NAME")
    parser.add_argument("--data", metavar="ROOT", help="where the data set is, or a folder of pictures")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="of the report")
    parser.add_argument("--inputs", type=int, default=32, help="inputs for the fields (default 32)")
    parser.add_argument("--answers", type=int, default=500, help="inputs for accuracies (default 500)")
    parser.add_argument(
        "--factors",
        type=float,
        nargs="+",
        default=[1.0, 1.5],
        metavar="FACTOR",
        help="sizes of the inputs, in sizes that the models were made for (default 1 1.5); the first is reported on",
    )
    parser.add_argument("--layers", nargs="+", metavar="NAME", help="only these layers (one model, or all have them)")
    parser.add_argument("--pretrained", action="store_true", help="networks of timm with timm's weights (fetched)")
    parser.add_argument("--size", type=int, metavar="PX", help="pictures for networks of timm; default: the others'")
    arguments = parser.parse_args()

    plan = Plan(arguments.inputs, arguments.answers, tuple(arguments.factors), arguments.layers)
    subjects = subjects_named(arguments.models, size=arguments.size, pretrained=arguments.pretrained)
    sample = sample_for(subjects, arguments.data, max(arguments.inputs, arguments.answers))
    start = time.perf_counter()
    results = compare(subjects, sample, plan, progress=True)
    page = write_report(results, sample, plan, arguments.output)
    for result in results:
        print(f"{result.subject.name}: {' '.join(sentences(result))}")
        for what, why in result.missing.items():
            print(f"{result.subject.name}: no {what}: {why}")
    print(f"{page} ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    command_line.run(main)
