"""Classify images of any size and mode, or recordings at any sample rate.

vitspeech predict checkpoints/vit-cifar10 cat.png holiday/ --top 3 --csv out.csv
vitspeech predict checkpoints/speech-commands yes.wav recordings/
vitspeech predict checkpoints/speech-commands yes.wav --attention yes.png

A file that can't be read is reported and left out; the exit status is then 3.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech predict`: one line per file, or a CSV table."""
    parser = command_line.parser("predict", __doc__)
    parser.add_argument("checkpoint", help="folder of a released model or a finished run")
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_FOLDER", help="images or recordings, or folders of them")
    parser.add_argument("--top", type=int, default=3, help="labels per file (default 3)")
    parser.add_argument("--csv", type=Path, help="write a table instead: file, rank, label, probability, status")
    parser.add_argument("--attention", type=Path, metavar="PNG", help="draw attention and pooling weights for one file")
    command_line.add_device(parser)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    if options.top < 1:
        parser.error(f"--top {options.top} is below 1")
    if options.attention and (len(options.paths) > 1 or Path(options.paths[0]).is_dir()):
        parser.error("--attention draws one file: give one, and no folder")
    command_line.check_table(options.csv, options.paths)
    command_line.check_picture(options.attention, "--attention")

    import vitspeech
    from vitspeech.data.files import write_csv
    from vitspeech.plots.attention import check_drawable, draw_attention

    device = command_line.find_device(options.device)
    model = vitspeech.load(options.checkpoint, trust=options.trust)
    model.network.to(device)
    if options.attention:
        check_drawable(model)
    # Lines on a terminal show progress by themselves.
    progress = options.csv is not None or not sys.stdout.isatty()
    columns = ["file", "rank", "label", "probability", "status"]
    unread = command_line.UnreadFiles("predict", options.csv, columns)
    for path, labels in vitspeech.predict(
        model, options.paths, top=options.top, on_error=unread.add, progress=progress
    ):
        if options.csv is None:
            print(f"{path}: " + ", ".join(f"{label} {probability:.3f}" for label, probability in labels))
        else:
            unread.rows += [(path, rank, label, f"{value:.6f}", "ok") for rank, (label, value) in enumerate(labels, 1)]
    if options.csv is not None:
        write_csv(options.csv, columns, unread.rows)
        print(options.csv)
    unread.exit()
    if options.attention:
        draw_attention(model, Path(options.paths[0]), options.attention)
        print(options.attention)
