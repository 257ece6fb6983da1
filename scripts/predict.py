#!/usr/bin/env python3
"""Classify pictures of any size and mode, or recordings of any rate, with a released model or a finished run.

predict.py checkpoints/vit-cifar10 cat.png holiday/ --top 3 --csv out.csv
predict.py checkpoints/speech-commands yes.wav recordings/
predict.py checkpoints/speech-commands yes.wav --attention yes.png
"""

import argparse
import sys
from pathlib import Path

import vitspeech
from vitspeech import command_line
from vitspeech.data.files import write_csv
from vitspeech.plots.attention import draw_attention


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder of a released model, or of a finished run")
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_FOLDER", help="pictures or recordings, or folders of them")
    parser.add_argument("--top", type=int, default=3, help="labels a file (default 3)")
    parser.add_argument("--csv", type=Path, help="write file, rank, label, probability there instead of printing")
    parser.add_argument("--attention", type=Path, metavar="PNG", help="draw where a speech model looks in a recording")
    arguments = parser.parse_args()
    if arguments.top < 1:
        parser.error(f"--top {arguments.top} is below 1")
    if arguments.attention and (len(arguments.paths) > 1 or Path(arguments.paths[0]).is_dir()):
        parser.error("--attention draws one file: give one, and no folder")

    model = vitspeech.load(arguments.checkpoint)
    if arguments.attention:
        # First, so that a model without attention over speech has printed nothing when it is refused.
        draw_attention(model, Path(arguments.paths[0]), arguments.attention)
    # Lines on a terminal are progress enough; a bar among them would only be in their way.
    bar = arguments.csv is not None or not sys.stdout.isatty()
    predictions = vitspeech.predict(model, arguments.paths, top=arguments.top, progress=bar)
    if arguments.csv is None:
        for path, labels in predictions:
            print(f"{path}: " + ", ".join(f"{label} {share:.3f}" for label, share in labels))
    else:
        rows = (
            (path, rank, label, f"{share:.6f}")
            for path, labels in predictions
            for rank, (label, share) in enumerate(labels, 1)
        )
        write_csv(arguments.csv, ["file", "rank", "label", "probability"], rows)
        print(arguments.csv)
    if arguments.attention:
        print(arguments.attention)


if __name__ == "__main__":
    command_line.run(main)
